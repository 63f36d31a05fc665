//! Series in a turn: which commands are part of one, and when it ends.
//!
//! ```text
//!   turn   LPUSH k a | LPUSH k b  LPUSH k c | GET x
//!          alone     | one series           | commit, then the next command
//! ```
//!
//! The first command with a key runs alone, because its successor rarely has the same key. A worker
//! remembers the key beyond the turn. After a failed commit, the turn repeats the commands of the
//! series one by one, so that each gets its own reply.

use super::Args;
use super::table::{Command, Flags, Handler};
use crate::conn::{ReplyMode, Session};
use crate::failure::CommandResult;
use crate::shared::Shared;
use crate::store::{Layout, Pass, Scratch, View};

/// Maximum number of arguments of a command in a series.
const MAX_ARGS: usize = 32;
/// Maximum size of a command in a series, in bytes.
const MAX_COMMAND: usize = 16 << 10;

/// Series of a turn.
#[derive(Debug, Default)]
pub(crate) struct TurnSeries<'a> {
    /// Pass for the key of the current series.
    pub(super) pass: Option<Pass<'a>>,
    /// True after a failed commit: each command commits a batch of its own.
    is_off: bool,
}

impl<'a> TurnSeries<'a> {
    /// True within a series.
    pub(crate) fn is_open(&self) -> bool {
        self.pass.is_some()
    }

    /// Ends the series before a command that is not part of it.
    ///
    /// # Errors
    ///
    /// Nothing is written. The turn has to repeat the commands of the series.
    pub(crate) fn commit(&mut self, shared: &Shared, scratch: &mut Scratch) -> CommandResult {
        let Some(_pass) = self.pass.take() else { return Ok(()) };
        let result = View::commit_series(&shared.store, scratch);
        self.is_off |= result.is_err();
        result
    }

    /// True if the command may be part of a series with its predecessor.
    pub(super) fn accepts(
        &self,
        shared: &Shared,
        session: &Session,
        command: &Command,
        args: Args<'_>,
        scratch: &Scratch,
    ) -> bool {
        command.flags.contains(Flags::SERIES)
            && scratch.is_series_key(session.database, args.at(1))
            && !(self.is_open() && scratch.is_series_full())
            && args.len() <= MAX_ARGS
            // An inline command cannot be parsed twice.
            && args.is_array_up_to(MAX_COMMAND)
            && !self.is_off
            && !scratch.is_script_thread
            && matches!(command.handler, Handler::Run(_))
            && session.multi.is_none()
            && session.reply_mode == ReplyMode::On
            && shared.store.layout == Layout::Typed
            && !shared.store.is_shared()
            && !shared.monitors.is_active()
            && !shared.store.key_events.is_on()
    }
}
