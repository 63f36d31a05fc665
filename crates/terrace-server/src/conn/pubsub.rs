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

/// Message that is sent after the commit of a transaction.
#[derive(Debug)]
pub(crate) struct LateMessage {
    pub(crate) kind: ChannelKind,
    pub(crate) channel: Vec<u8>,
    pub(crate) text: Vec<u8>,
    /// Messages to the publisher itself, by its subscriptions at the time of PUBLISH. The same
    /// transaction may change them before the commit.
    pub(crate) own: Vec<Message>,
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

    /// Delivers `text` to the subscribers of `channel`. Returns their number.
    pub(crate) fn publish(&self, kind: ChannelKind, channel: &[u8], text: &[u8], now: Duration) -> usize {
        let mut receivers = 0;
        self.for_each_group(kind, channel, text, |subscribers, message| {
            subscribers.iter().for_each(|client| client.deliver(message, now));
            receivers += subscribers.len();
        });
        receivers
    }

    /// Delivers a message of a transaction of the client `publisher`.
    pub(crate) fn publish_late(&self, late: &LateMessage, publisher: &Arc<Client>, now: Duration) {
        self.for_each_group(late.kind, &late.channel, &late.text, |subscribers, message| {
            let others = subscribers.iter().filter(|client| !Arc::ptr_eq(client, publisher));
            others.for_each(|client| client.deliver(message, now));
        });
        late.own.iter().for_each(|message| publisher.deliver(message, now));
    }

    /// Returns the messages that `client` would receive, one for each of its subscriptions.
    pub(crate) fn messages_to(
        &self,
        client: &Arc<Client>,
        kind: ChannelKind,
        channel: &[u8],
        text: &[u8],
    ) -> Vec<Message> {
        let mut messages = Vec::new();
        self.for_each_group(kind, channel, text, |subscribers, message| {
            if subscribers.iter().any(|other| Arc::ptr_eq(other, client)) {
                messages.push(Arc::clone(message));
            }
        });
        messages
    }

    /// Calls `visit` for the channel, and for each pattern that matches, with the subscribers and
    /// their message.
    fn for_each_group(
        &self,
        kind: ChannelKind,
        channel: &[u8],
        text: &[u8],
        mut visit: impl FnMut(&[Arc<Client>], &Message),
    ) {
        let tables = self.tables.lock();
        if let Some(subscribers) = tables[kind as usize].get(channel) {
            visit(subscribers, &encode(&[kind.words()[2].as_bytes(), channel, text]));
        }
        if kind == ChannelKind::Channel {
            let patterns = tables[ChannelKind::Pattern as usize].iter();
            for (pattern, subscribers) in patterns.filter(|(pattern, _)| glob::is_match(pattern, channel)) {
                visit(subscribers, &encode(&[b"pmessage", pattern, channel, text]));
            }
        }
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
