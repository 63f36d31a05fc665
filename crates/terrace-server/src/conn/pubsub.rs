//! Channels and patterns, with their subscribers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use terrace_sync::native_locks::Mutex;

use super::client::{Client, Message};
use crate::glob;
use crate::resp::Reply;

/// Kind of a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChannelKind {
    Channel,
    Pattern,
    Shard,
}

impl ChannelKind {
    /// Words of the messages: after a subscription, after its end, and of a message.
    pub(crate) fn words(self) -> [&'static str; 3] {
        match self {
            ChannelKind::Channel => ["subscribe", "unsubscribe", "message"],
            ChannelKind::Pattern => ["psubscribe", "punsubscribe", "pmessage"],
            ChannelKind::Shard => ["ssubscribe", "sunsubscribe", "smessage"],
        }
    }
}

type Subscribers = BTreeMap<Vec<u8>, Vec<Arc<Client>>>;

/// All subscriptions.
#[derive(Debug, Default)]
pub(crate) struct PubSub {
    /// Channels, patterns and shard channels.
    tables: Mutex<[Subscribers; 3]>,
}

impl PubSub {
    /// Subscribes `client`. The caller knows that it has no such subscription.
    pub(crate) fn subscribe(&self, kind: ChannelKind, channel: &[u8], client: &Arc<Client>) {
        let mut tables = self.tables.lock();
        tables[kind as usize].entry(channel.to_vec()).or_default().push(Arc::clone(client));
    }

    /// Ends a subscription.
    pub(crate) fn unsubscribe(&self, kind: ChannelKind, channel: &[u8], client: &Arc<Client>) {
        let mut tables = self.tables.lock();
        let table = &mut tables[kind as usize];
        if let Some(subscribers) = table.get_mut(channel) {
            subscribers.retain(|other| !Arc::ptr_eq(other, client));
            if subscribers.is_empty() {
                table.remove(channel);
            }
        }
    }

    /// Delivers `message` to the subscribers of `channel`. Returns their number.
    pub(crate) fn publish(&self, kind: ChannelKind, channel: &[u8], message: &[u8], now: Duration) -> usize {
        let tables = self.tables.lock();
        let mut receivers = 0;
        if let Some(subscribers) = tables[kind as usize].get(channel) {
            let message = encode(&[kind.words()[2].as_bytes(), channel, message]);
            receivers += deliver(subscribers, &message, now);
        }
        if kind == ChannelKind::Channel {
            let patterns = tables[ChannelKind::Pattern as usize].iter();
            for (pattern, subscribers) in patterns.filter(|(pattern, _)| glob::is_match(pattern, channel)) {
                let message = encode(&[b"pmessage", pattern, channel, message]);
                receivers += deliver(subscribers, &message, now);
            }
        }
        receivers
    }

    /// Number of subscribers that a message to `channel` would reach.
    pub(crate) fn receivers(&self, kind: ChannelKind, channel: &[u8]) -> usize {
        let tables = self.tables.lock();
        let direct = tables[kind as usize].get(channel).map_or(0, Vec::len);
        let patterns = tables[ChannelKind::Pattern as usize].iter();
        let matching =
            patterns.filter(|(pattern, _)| kind == ChannelKind::Channel && glob::is_match(pattern, channel));
        direct + matching.map(|(_, subscribers)| subscribers.len()).sum::<usize>()
    }

    /// Returns the channels that match `pattern`.
    pub(crate) fn channels(&self, kind: ChannelKind, pattern: Option<&[u8]>) -> Vec<Vec<u8>> {
        let tables = self.tables.lock();
        let channels = tables[kind as usize].keys();
        channels.filter(|channel| pattern.is_none_or(|p| glob::is_match(p, channel))).cloned().collect()
    }

    /// Returns the number of subscribers of `channel`.
    pub(crate) fn subscribers(&self, kind: ChannelKind, channel: &[u8]) -> usize {
        self.tables.lock()[kind as usize].get(channel).map_or(0, Vec::len)
    }

    /// Returns the number of channels or patterns.
    pub(crate) fn len(&self, kind: ChannelKind) -> usize {
        self.tables.lock()[kind as usize].len()
    }
}

fn deliver(subscribers: &[Arc<Client>], message: &Message, now: Duration) -> usize {
    for client in subscribers {
        client.deliver(message, now);
    }
    subscribers.len()
}

fn encode(parts: &[&[u8]]) -> Message {
    let mut reply = Reply::new();
    reply.set_resp3(true);
    reply.push(parts.len());
    for part in parts {
        reply.bulk(part);
    }
    Message::from(reply.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channel_and_pattern() {
        let pubsub = PubSub::default();
        let client = Arc::new(Client::new(1, String::new(), String::new(), Duration::ZERO, &Arc::default()));
        pubsub.subscribe(ChannelKind::Channel, b"news", &client);
        pubsub.subscribe(ChannelKind::Pattern, b"n*", &client);
        assert_eq!(pubsub.receivers(ChannelKind::Channel, b"news"), 2);
        assert_eq!(pubsub.publish(ChannelKind::Channel, b"news", b"x", Duration::ZERO), 2);
        assert_eq!(pubsub.receivers(ChannelKind::Shard, b"news"), 0);
        assert_eq!(pubsub.publish(ChannelKind::Shard, b"news", b"x", Duration::ZERO), 0);
        let mut output = Vec::new();
        client.take_events(true, &mut output);
        let text = output.escape_ascii().to_string();
        assert!(
            text.starts_with(">3\\r\\n$7\\r\\nmessage\\r\\n$4\\r\\nnews\\r\\n$1\\r\\nx\\r\\n>4"),
            "{text}"
        );
        pubsub.unsubscribe(ChannelKind::Channel, b"news", &client);
        assert_eq!((pubsub.len(ChannelKind::Channel), pubsub.len(ChannelKind::Pattern)), (0, 1));
    }
}
