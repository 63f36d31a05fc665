//! Publish and subscribe.

use super::subcommand::{Subcommand, dispatch, unknown_form};
use super::{Args, Call};
use crate::conn::{ChannelKind, LateMessage};
use crate::failure::{CommandResult, Failure};

/// Maximum size of the messages that a transaction sends after its commit, in bytes: the same as
/// that of its writes.
const MAX_MESSAGES: usize = 256 << 20;

/// SUBSCRIBE channel ..
pub(super) fn subscribe(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    subscribe_all(call, args, ChannelKind::Channel)
}

/// PSUBSCRIBE pattern ..
pub(super) fn psubscribe(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    subscribe_all(call, args, ChannelKind::Pattern)
}

/// SSUBSCRIBE channel ..
pub(super) fn ssubscribe(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    // As in Redis, only the other forms are allowed within MULTI.
    if call.view.is_transaction() {
        return Err(Failure::reply("ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client"));
    }
    subscribe_all(call, args, ChannelKind::Shard)
}

fn subscribe_all(call: &mut Call<'_>, args: Args<'_>, kind: ChannelKind) -> CommandResult {
    for channel in args.from(1) {
        call.session.set_subscription(call.shared, kind, channel, true);
        confirm(call, kind, kind.words()[0], Some(channel));
    }
    Ok(())
}

/// UNSUBSCRIBE [channel ..]
pub(super) fn unsubscribe(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    unsubscribe_all(call, args, ChannelKind::Channel)
}

/// PUNSUBSCRIBE [pattern ..]
pub(super) fn punsubscribe(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    unsubscribe_all(call, args, ChannelKind::Pattern)
}

/// SUNSUBSCRIBE [channel ..]
pub(super) fn sunsubscribe(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    unsubscribe_all(call, args, ChannelKind::Shard)
}

fn unsubscribe_all(call: &mut Call<'_>, args: Args<'_>, kind: ChannelKind) -> CommandResult {
    let mut channels: Vec<Vec<u8>> = args.from(1).map(<[u8]>::to_vec).collect();
    if channels.is_empty() {
        channels.extend(call.session.subscriptions[kind as usize].iter().cloned());
    }
    for channel in &channels {
        call.session.set_subscription(call.shared, kind, channel, false);
        confirm(call, kind, kind.words()[1], Some(channel));
    }
    if channels.is_empty() {
        confirm(call, kind, kind.words()[1], None);
    }
    Ok(())
}

/// Replies one confirmation with the number of subscriptions. Shard channels have a number of their
/// own.
fn confirm(call: &mut Call<'_>, kind: ChannelKind, word: &str, channel: Option<&[u8]>) {
    let count = match kind {
        ChannelKind::Shard => call.session.subscriptions[kind as usize].len(),
        _ => call.session.subscription_count(),
    };
    call.reply.push(3);
    call.reply.bulk(word);
    call.reply.optional_bulk(channel);
    call.reply.count(count);
}

/// PUBLISH channel message
pub(super) fn publish(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    publish_to(call, args, ChannelKind::Channel)
}

/// SPUBLISH channel message
pub(super) fn spublish(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    publish_to(call, args, ChannelKind::Shard)
}

fn publish_to(call: &mut Call<'_>, args: Args<'_>, kind: ChannelKind) -> CommandResult {
    let channel = args.at(1);
    let message = args.at(2);
    // A subscriber that reads a key after the message sees the writes of the transaction. In a
    // shared store, a conflict would also repeat the transaction, and send the message twice.
    let receivers = if call.view.is_transaction() {
        call.shared.pubsub.receivers(kind, channel)
    } else {
        call.shared.pubsub.publish(kind, channel, message, call.shared.clock.monotonic())
    };
    if call.view.is_transaction() && receivers > 0 {
        let own = call.shared.pubsub.messages_to(&call.session.client, kind, channel, message);
        let own_bytes: usize = own.iter().map(|message| message.len()).sum();
        call.view.effects.message_bytes += channel.len() + message.len() + own_bytes;
        if call.view.effects.message_bytes > MAX_MESSAGES {
            return Err(Failure::reply("ERR the messages of the transaction exceed 256 MiB"));
        }
        let message = LateMessage { kind, channel: channel.to_vec(), text: message.to_vec(), own };
        call.view.effects.messages.push(message);
    }
    call.reply.count(receivers);
    Ok(())
}

impl Call<'_> {
    /// Sends the messages of a transaction, after its commit.
    pub(super) fn publish_messages(&mut self) {
        let effects = self.view.effects.existing();
        for message in effects.into_iter().flat_map(|effects| effects.messages.drain(..)) {
            let now = self.shared.clock.monotonic();
            self.shared.pubsub.publish_late(&message, &self.session.client, now);
        }
    }
}

/// PUBSUB subcommand
pub(super) fn pubsub(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    dispatch(call, args, "pubsub", PUBSUB)
}

pub(super) static PUBSUB: &[Subcommand] = &[
    Subcommand { name: "channels", arity: -2, run: |call, args| channels(call, args, ChannelKind::Channel) },
    Subcommand { name: "numpat", arity: 2, run: numpat },
    Subcommand { name: "numsub", arity: -2, run: |call, args| numsub(call, args, ChannelKind::Channel) },
    Subcommand {
        name: "shardchannels",
        arity: -2,
        run: |call, args| channels(call, args, ChannelKind::Shard),
    },
    Subcommand { name: "shardnumsub", arity: -2, run: |call, args| numsub(call, args, ChannelKind::Shard) },
];

fn channels(call: &mut Call<'_>, args: Args<'_>, kind: ChannelKind) -> CommandResult {
    if args.len() > 3 {
        return Err(unknown_form(args, "PUBSUB"));
    }
    let found = call.shared.pubsub.channels(kind, args.get(2));
    call.reply.bulks(&found);
    Ok(())
}

fn numpat(call: &mut Call<'_>, _args: Args<'_>) -> CommandResult {
    call.reply.count(call.shared.pubsub.len(ChannelKind::Pattern));
    Ok(())
}

fn numsub(call: &mut Call<'_>, args: Args<'_>, kind: ChannelKind) -> CommandResult {
    call.reply.array(2 * (args.len() - 2));
    for channel in args.from(2) {
        call.reply.bulk(channel);
        call.reply.count(call.shared.pubsub.subscribers(kind, channel));
    }
    Ok(())
}
