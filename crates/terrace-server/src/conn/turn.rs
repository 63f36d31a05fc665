//! Turn: one pass over the input of a connection.
//!
//! A turn ends with the input, or after a limit, so that one client cannot delay the others.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::session::{Execution, ReplyMode, Session};
use crate::command::{self, Args, CommandGroup, Flow};
use crate::resp::{Limits, Parser, Reply, Step};
use crate::shared::Shared;
use crate::store::Scratch;

/// Maximum number of commands of a turn.
const MAX_COMMANDS: usize = 1000;
/// Maximum duration of a turn.
const MAX_DURATION: Duration = Duration::from_millis(1);
/// Size of the replies after which a turn ends, in bytes.
pub(super) const MAX_OUTPUT: usize = 1 << 20;

/// Reason for the end of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TurnEnd {
    /// The rest of the input is an unfinished command, or nothing.
    InputUsed,
    /// The rest of the input may hold commands.
    Limit,
    /// The last command waits for an element. The rest of the input comes after it.
    Blocked,
    /// A thread of the slow pool continues with the next command.
    NeedsSlowPool,
    /// The script thread continues with the next command.
    NeedsScriptThread,
    /// The next command waits for the end of CLIENT PAUSE.
    Paused,
}

/// Runs the commands in `input`. Returns the number of used bytes.
pub(super) fn run(
    shared: &Shared,
    session: &mut Session,
    input: &mut [u8],
    scratch: &mut Scratch,
    reply: &mut Reply,
) -> (usize, TurnEnd) {
    let start = shared.clock.monotonic();
    let mut now = start;
    let mut group = CommandGroup::default();
    let input_len = input.len();
    // The parser is not part of the session meanwhile, so that a command may change the session.
    let mut parser = std::mem::take(&mut session.parser);
    let mut used = 0;
    let mut count = 0;
    let end = loop {
        let buffer = &mut input[used..];
        match next_command(session, &mut parser, buffer, reply) {
            Step::Incomplete => break TurnEnd::InputUsed,
            Step::Empty => {}
            Step::Command => {
                let args = Args::new(buffer, parser.args());
                let end = if scratch.is_script_thread && count > 0 && !command::is_script(args) {
                    Some(TurnEnd::Limit)
                } else {
                    end_of_flow(run_one(shared, session, args, scratch, reply))
                };
                if let Some(end) = end {
                    session.is_parsed = true;
                    break end;
                }
                count += 1;
                let is_last = used + parser.consumed() == input_len;
                if group.add(shared, session, is_last) {
                    // The end of a command is the begin of the next one.
                    let end = shared.clock.monotonic();
                    group.record(shared, session, Some(args), end.saturating_sub(now), scratch.slot);
                    now = end;
                }
            }
        }
        used += parser.consumed();
        parser.begin();
        if session.blocked.is_some() {
            break TurnEnd::Blocked;
        }
        if session.should_close {
            break TurnEnd::InputUsed;
        }
        if count == MAX_COMMANDS || reply.len() > MAX_OUTPUT || now.saturating_sub(start) > MAX_DURATION {
            break TurnEnd::Limit;
        }
    };
    session.parser = parser;
    if !group.is_empty() {
        let time = shared.clock.monotonic().saturating_sub(now);
        group.record(shared, session, None, time, scratch.slot);
    }
    shared.counters.record_turn(count as u64);
    session.client.last_active_ms.store(start.as_millis() as u64, Ordering::Relaxed);
    (used, end)
}

/// Returns the end of the turn if another thread has to repeat the command.
fn end_of_flow(flow: Flow) -> Option<TurnEnd> {
    match flow {
        Flow::Done => None,
        Flow::NeedsSlowPool => Some(TurnEnd::NeedsSlowPool),
        Flow::NeedsScriptThread => Some(TurnEnd::NeedsScriptThread),
        Flow::Paused => Some(TurnEnd::Paused),
    }
}

/// Parses the next command. After a violation of the protocol, the connection ends.
fn next_command(session: &mut Session, parser: &mut Parser, buffer: &mut [u8], reply: &mut Reply) -> Step {
    if std::mem::take(&mut session.is_parsed) {
        return Step::Command;
    }
    let limits = if session.is_authenticated { &Limits::AFTER_LOGIN } else { &Limits::BEFORE_LOGIN };
    parser.advance(buffer, limits).unwrap_or_else(|error| {
        reply.error(error.to_string().as_bytes());
        session.should_close = true;
        parser.begin();
        Step::Incomplete
    })
}

fn run_one(
    shared: &Shared,
    session: &mut Session,
    args: Args<'_>,
    scratch: &mut Scratch,
    reply: &mut Reply,
) -> Flow {
    let before = reply.len();
    let flow = command::execute(shared, session, args, scratch, reply);
    if session.reply_mode != ReplyMode::On && flow == Flow::Done {
        // The confirmations of subscriptions are messages, not replies.
        let is_message = session.execution == Some(Execution::Done)
            && session.last_command.is_some_and(|(command, _)| command.changes_subscriptions());
        if !is_message {
            reply.truncate(before);
        }
        if let Some(blocked) = &mut session.blocked {
            blocked.is_silent = true;
        }
        session.reply_mode = match session.reply_mode {
            ReplyMode::SkipBoth => ReplyMode::SkipOne,
            ReplyMode::SkipOne => ReplyMode::On,
            other => other,
        };
    }
    flow
}
