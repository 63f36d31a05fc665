//! Turn: one pass over the input of a connection.
//!
//! A turn ends with the input, or after a limit, so that one client cannot delay the others.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::session::{Execution, ReplyMode, Session};
use crate::command::{self, Args, CommandGroup, Flow, TurnSeries};
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
    /// The next command would wait for storage. A thread of the slow pool continues with it.
    WouldWait,
    /// The next command is long. A thread of the slow pool continues with it.
    IsLong,
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
    // The parser is not part of the session meanwhile, so that a command may change the session.
    let parser = std::mem::take(&mut session.parser);
    let mut turn = Turn {
        shared,
        parser,
        group: CommandGroup::default(),
        series: TurnSeries::default(),
        series_start: Position::default(),
        position: Position::default(),
        start,
        now: start,
    };
    let end = loop {
        match turn.run_next(session, input, scratch, reply) {
            Outcome::Continues => {}
            Outcome::Ends(end) if turn.series.commit(shared, scratch).is_ok() => break end,
            Outcome::Ends(_) | Outcome::RepeatsSeries => turn.rewind(session, reply),
        }
    };
    turn.finish(session, scratch);
    (turn.position.used, end)
}

/// Result of a step of a turn.
enum Outcome {
    Continues,
    Ends(TurnEnd),
    /// The commands of the series have had no effect. They run one by one.
    RepeatsSeries,
}

/// Position in a turn, between two commands.
#[derive(Debug, Default, Clone, Copy)]
struct Position {
    /// Number of used bytes of the input.
    used: usize,
    /// Number of commands.
    count: usize,
    /// Number of bytes of replies.
    replies: usize,
    /// Number of replies that wait for a sync.
    write_replies: usize,
}

/// Running turn.
struct Turn<'a> {
    shared: &'a Shared,
    parser: Parser,
    group: CommandGroup,
    series: TurnSeries<'a>,
    /// Position before the first command of the series.
    series_start: Position,
    position: Position,
    /// Monotonic time of the begin.
    start: Duration,
    /// Monotonic time at the last look at the clock.
    now: Duration,
}

impl Turn<'_> {
    /// Runs the next command.
    fn run_next(
        &mut self,
        session: &mut Session,
        input: &mut [u8],
        scratch: &mut Scratch,
        reply: &mut Reply,
    ) -> Outcome {
        let shared = self.shared;
        let input_len = input.len();
        let buffer = &mut input[self.position.used..];
        match next_command(session, &mut self.parser, buffer, reply) {
            Step::Incomplete => return Outcome::Ends(TurnEnd::InputUsed),
            Step::Empty => {}
            Step::Command => {
                let args = Args::new(buffer, self.parser.args());
                if !self.series.is_open() {
                    self.position.replies = reply.len();
                    self.position.write_replies = session.write_replies.len();
                    self.series_start = self.position;
                }
                let outcome =
                    if scratch.is_script_thread && self.position.count > 0 && !command::is_script(args) {
                        Outcome::Ends(TurnEnd::Limit)
                    } else {
                        outcome(run_one(shared, session, args, scratch, reply, &mut self.series))
                    };
                if !matches!(outcome, Outcome::Continues) {
                    session.is_parsed = true;
                    return outcome;
                }
                self.position.count += 1;
                let is_last = self.position.used + self.parser.consumed() == input_len;
                if self.group.add(shared, session, is_last) {
                    // The end of a command is the begin of the next one.
                    let end = shared.clock.monotonic();
                    let time = end.saturating_sub(self.now);
                    self.group.record(shared, session, Some(args), time, scratch.slot);
                    self.now = end;
                }
            }
        }
        self.position.used += self.parser.consumed();
        self.parser.begin();
        self.end(session, reply).map_or(Outcome::Continues, Outcome::Ends)
    }

    /// Returns the end of the turn if it has to end after the current command.
    fn end(&self, session: &Session, reply: &Reply) -> Option<TurnEnd> {
        let is_long = self.now.saturating_sub(self.start) > MAX_DURATION;
        if session.blocked.is_some() {
            Some(TurnEnd::Blocked)
        } else if session.should_close {
            Some(TurnEnd::InputUsed)
        } else if self.position.count == MAX_COMMANDS || reply.len() > MAX_OUTPUT || is_long {
            Some(TurnEnd::Limit)
        } else {
            None
        }
    }

    /// Returns to the first command of the series, whose commit has failed.
    fn rewind(&mut self, session: &mut Session, reply: &mut Reply) {
        self.position = self.series_start;
        reply.truncate(self.position.replies);
        session.write_replies.truncate(self.position.write_replies);
        session.is_parsed = false;
        self.parser.begin();
    }

    fn finish(&mut self, session: &mut Session, scratch: &Scratch) {
        let shared = self.shared;
        session.parser = std::mem::take(&mut self.parser);
        if !self.group.is_empty() {
            let time = shared.clock.monotonic().saturating_sub(self.now);
            self.group.record(shared, session, None, time, scratch.slot);
        }
        shared.counters.record_turn(self.position.count as u64);
        session.client.last_active_ms.store(self.start.as_millis() as u64, Ordering::Relaxed);
    }
}

fn outcome(flow: Flow) -> Outcome {
    match flow {
        Flow::Done => Outcome::Continues,
        Flow::RepeatSeries => Outcome::RepeatsSeries,
        // Another thread, or a later turn, repeats the command.
        Flow::WouldWait => Outcome::Ends(TurnEnd::WouldWait),
        Flow::IsLong => Outcome::Ends(TurnEnd::IsLong),
        Flow::NeedsScriptThread => Outcome::Ends(TurnEnd::NeedsScriptThread),
        Flow::Paused => Outcome::Ends(TurnEnd::Paused),
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

fn run_one<'a>(
    shared: &'a Shared,
    session: &mut Session,
    args: Args<'_>,
    scratch: &mut Scratch,
    reply: &mut Reply,
    series: &mut TurnSeries<'a>,
) -> Flow {
    let before = reply.len();
    let flow = command::execute(shared, session, args, scratch, reply, series);
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
