//! Measurement of executed commands: counts, slow log, latency events, MONITOR.

use std::time::Duration;

use super::Args;
use super::table::{Command, Flags, is_admin};
use crate::conn::{Execution, Session};
use crate::metrics::SlowCommand;
use crate::shared::Shared;

/// Executed command.
pub(super) struct Observed {
    pub(super) command: &'static Command,
    /// Slot of the command in the table.
    pub(super) slot: usize,
    pub(super) time: Duration,
    pub(super) is_failed: bool,
}

/// Maximum number of short commands that share one look at the clock.
const MAX_GROUP: usize = 16;
/// Threshold of the slow log below which every command is measured alone, in microseconds.
const EXACT_THRESHOLD_US: i64 = 10_000;
/// Maximum time that a short command before a long one is assumed to take.
const SHORT_TIME: Duration = Duration::from_micros(1);

/// Executed commands of a turn that are not recorded yet.
///
/// A look at the clock costs several percent of a short command. Short commands of a pipeline
/// therefore share one, and each of them is recorded with the mean time.
#[derive(Debug, Default)]
pub(crate) struct CommandGroup {
    /// Slots in the table, and whether the command has failed.
    commands: [(usize, bool); MAX_GROUP],
    len: usize,
    is_last_long: bool,
}

impl CommandGroup {
    /// Adds the last command of `session`, unless it was queued or rejected. Returns true if the
    /// caller has to look at the clock now. `is_last` is true without further input.
    pub(crate) fn add(&mut self, shared: &Shared, session: &mut Session, is_last: bool) -> bool {
        let (Some(execution), Some((command, slot))) = (session.execution.take(), session.last_command)
        else {
            return false;
        };
        if let Some(place) = self.commands.get_mut(self.len) {
            *place = (slot, execution == Execution::Failed);
            self.len += 1;
        }
        self.is_last_long = !command.flags.contains(Flags::FAST) && command.name != "set";
        let is_end = is_last || session.blocked.is_some();
        self.is_last_long || is_end || self.len == MAX_GROUP || is_exact(shared)
    }

    /// True without commands.
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Records the commands, which took `time` together. `args` are those of the last one.
    pub(crate) fn record(
        &mut self,
        shared: &Shared,
        session: &mut Session,
        args: Option<Args<'_>>,
        time: Duration,
        thread: usize,
    ) {
        let len = std::mem::take(&mut self.len);
        let Some((last, others)) = self.commands[..len].split_last() else { return };
        let mean = time / len as u32;
        let share = if self.is_last_long { mean.min(SHORT_TIME) } else { mean };
        for (slot, is_failed) in others {
            shared.command_times.record(thread, *slot, share, *is_failed);
        }
        let rest = time.saturating_sub(share * others.len() as u32);
        let (slot, is_failed) = *last;
        shared.command_times.record(thread, slot, rest, is_failed);
        if let (Some((command, _)), Some(args)) = (session.last_command, args) {
            // A stall of a group belongs to one of its commands. The last one stands for it.
            let time = if self.is_last_long { rest } else { time };
            let observed = Observed { command, slot, time, is_failed };
            report(shared, session, &observed, args);
            if session.blocked.is_some() {
                note_blocked(shared, session, &observed, args);
            }
        }
    }
}

/// True if every command needs a time of its own.
fn is_exact(shared: &Shared) -> bool {
    let threshold = shared.slow_log.threshold_us();
    (0..EXACT_THRESHOLD_US).contains(&threshold)
        || shared.monitors.is_active()
        || shared.latency_events.threshold_ms() > 0
}

/// Records an executed command.
pub(super) fn observe(
    shared: &Shared,
    session: &Session,
    observed: &Observed,
    args: Args<'_>,
    thread: usize,
) {
    shared.command_times.record(thread, observed.slot, observed.time, observed.is_failed);
    report(shared, session, observed, args);
}

/// Reports an executed command to MONITOR, the slow log and the latency monitor.
fn report(shared: &Shared, session: &Session, observed: &Observed, args: Args<'_>) {
    if shared.monitors.is_active() && !observed.command.flags.contains(Flags::SCRIPT) {
        send_to_monitors(shared, session, observed.command, args, None);
    }
    let is_logged = observed.command.name != "exec" && session.blocked.is_none();
    if is_logged && shared.slow_log.wants(observed.time) {
        shared.slow_log.push(slow_command(shared, session, observed, args));
    }
    if shared.latency_events.threshold_ms() > 0 {
        let is_fast = observed.command.flags.contains(Flags::FAST);
        let event = if is_fast { "fast-command" } else { "command" };
        let at = shared.clock.wall_us() / 1_000_000;
        shared.latency_events.record(event, at, observed.time.as_millis() as u64);
    }
}

/// Shows a script to MONITOR, before its commands.
pub(super) fn show_script(shared: &Shared, session: &Session, command: &Command, args: Args<'_>) {
    if shared.monitors.is_active() {
        send_to_monitors(shared, session, command, args, None);
    }
}

/// Records a command that a script has executed.
pub(super) fn observe_in_script(
    shared: &Shared,
    session: &Session,
    observed: &Observed,
    args: Args<'_>,
    thread: usize,
) {
    shared.command_times.record(thread, observed.slot, observed.time, observed.is_failed);
    if shared.monitors.is_active() {
        send_to_monitors(shared, session, observed.command, args, Some("lua"));
    }
}

/// Sends a command to MONITOR, with `sender` in place of the address of the client.
#[cold]
fn send_to_monitors(
    shared: &Shared,
    session: &Session,
    command: &Command,
    args: Args<'_>,
    sender: Option<&str>,
) {
    if is_admin(command, args) {
        return;
    }
    let shown = without_secrets(command, args);
    let origin = (session.database, sender.unwrap_or(&session.client.peer));
    shared.monitors.send(shared.clock.wall_us(), origin, shown.into_iter(), shared.clock.monotonic());
}

/// Remembers a command that has begun to wait, for the slow log after its wait.
#[cold]
fn note_blocked(shared: &Shared, session: &mut Session, observed: &Observed, args: Args<'_>) {
    let entry = slow_command(shared, session, observed, args);
    if let Some(blocked) = &mut session.blocked {
        blocked.slow_command = Some(entry);
    }
}

#[cold]
fn slow_command(shared: &Shared, session: &Session, observed: &Observed, args: Args<'_>) -> SlowCommand {
    SlowCommand {
        id: 0,
        at: shared.clock.wall_us() / 1_000_000,
        time: observed.time,
        args: SlowCommand::shorten(without_secrets(observed.command, args).into_iter()),
        peer: session.client.peer.clone(),
        client_name: session.client.name.lock().clone(),
    }
}

/// Returns the arguments with `(redacted)` in place of passwords.
fn without_secrets<'a>(command: &Command, args: Args<'a>) -> Vec<&'a [u8]> {
    const REDACTED: &[u8] = b"(redacted)";
    let mut shown: Vec<&[u8]> = args.from(0).collect();
    let secrets = match command.name {
        "auth" => 1..args.len(),
        "hello" => {
            let auth = (2..args.len()).find(|index| args.is(*index, "AUTH"));
            auth.map_or(0..0, |index| index + 1..index + 3)
        }
        "config" if args.is(1, "SET") => {
            let found = (3..args.len()).step_by(2).find(|index| args.is(index - 1, "requirepass"));
            found.map_or(0..0, |index| index..index + 1)
        }
        "acl" if args.is(1, "SETUSER") => 3..args.len(),
        _ => 0..0,
    };
    for arg in shown.iter_mut().take(secrets.end).skip(secrets.start) {
        *arg = REDACTED;
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::table::find;

    #[test]
    fn passwords_are_not_shown() {
        for (line, expected) in [
            ("auth x", "auth (redacted)"),
            ("auth user x", "auth (redacted) (redacted)"),
            ("hello 3 auth u p setname n", "hello 3 auth (redacted) (redacted) setname n"),
            ("hello 3 auth", "hello 3 auth"),
            ("config set port 1 requirepass x", "config set port 1 requirepass (redacted)"),
            ("config get requirepass", "config get requirepass"),
            ("set a b", "set a b"),
        ] {
            let mut ranges = Vec::new();
            let mut begin = 0;
            for word in line.split(' ') {
                ranges.push((begin, begin + word.len() as u32));
                begin += word.len() as u32 + 1;
            }
            let args = Args::new(line.as_bytes(), &ranges);
            let command = find(args.at(0)).unwrap();
            assert_eq!(without_secrets(command, args).join(&b' '), expected.as_bytes(), "{line}");
        }
    }
}
