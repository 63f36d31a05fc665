//! Commands that wait for an element: BLPOP, BRPOP, BLMOVE, BRPOPLPUSH, BLMPOP, BZPOPMIN, BZPOPMAX,
//! BZMPOP.
//!
//! ```text
//!   an element exists        reply at once
//!   within EXEC              null at once
//!   otherwise                the client joins the queues of its keys; see `conn/blocked.rs`
//! ```

use std::time::Duration;

use super::list::{End, count_option, counted_keys, move_element, pop_elements};
use super::sorted_set::{self, Side};
use super::{Args, Call};
use crate::conn::{Blocked, BlockedCommand};
use crate::failure::{CommandResult, Failure};
use crate::resp::{Reply, parse_double};
use crate::store::{ValueType, View};

/// Longest wait, in milliseconds: 2^63, which Redis stores as a negative number.
const MAX_WAIT: f64 = 9_223_372_036_854_775_808.0;

impl Call<'_> {
    /// Makes the client wait for one of `keys`, for `timeout` or without end. The caller has found
    /// no element, and holds the locks of the keys.
    pub(super) fn block<'k>(
        &mut self,
        keys: impl Iterator<Item = &'k [u8]>,
        timeout: Option<Duration>,
        command: Box<dyn BlockedCommand>,
    ) {
        let session = &mut *self.session;
        let mut wanted: Vec<Vec<u8>> = keys.map(|key| [&[session.database], key].concat()).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let waiter = self.shared.blocked.insert(&session.client, session.is_resp3, wanted, command);
        // A time that the clock cannot represent is without end.
        let deadline = timeout.and_then(|timeout| tokio::time::Instant::now().checked_add(timeout));
        let blocked = Blocked { waiter, deadline, is_silent: false, slow_command: None };
        session.blocked = Some(Box::new(blocked));
    }
}

/// Returns the timeout that argument `index` states in seconds. None for a wait without end.
pub(super) fn timeout(args: Args<'_>, index: usize) -> CommandResult<Option<Duration>> {
    let seconds = parse_double(args.at(index));
    let seconds = seconds.ok_or(Failure::reply("ERR timeout is not a float or out of range"))?;
    let milliseconds = (seconds * 1000.0).ceil();
    // The negative zero, which -0.0001 becomes, is a zero.
    if !(0.0..MAX_WAIT).contains(&milliseconds) {
        return Err(Failure::reply("ERR timeout is negative"));
    }
    let timeout = Duration::from_millis(milliseconds as u64);
    Ok(Some(timeout).filter(|timeout| !timeout.is_zero()))
}

/// Command of the lists and sorted sets that waits.
#[derive(Debug, Clone)]
enum WaitingPop {
    /// BLPOP and BRPOP.
    List(End),
    /// BLMPOP.
    Lists(End, u64),
    /// BLMOVE and BRPOPLPUSH, with the destination.
    Move(Vec<u8>, [End; 2]),
    /// BZPOPMIN and BZPOPMAX.
    SortedSet(Side),
    /// BZMPOP.
    SortedSets(Side, u64),
}

impl WaitingPop {
    fn value_type(&self) -> ValueType {
        match self {
            WaitingPop::List(_) | WaitingPop::Lists(..) | WaitingPop::Move(..) => ValueType::List,
            WaitingPop::SortedSet(_) | WaitingPop::SortedSets(..) => ValueType::SortedSet,
        }
    }

    /// Takes elements of `key`. Returns false if it has none.
    fn run(&self, view: &mut View<'_>, database: u8, key: &[u8], reply: &mut Reply) -> CommandResult<bool> {
        match self {
            WaitingPop::List(end) => {
                let before = reply.len();
                let has_popped = pop_elements(view, database, key, *end, 1, reply)?;
                if has_popped {
                    flatten(reply, before, key);
                }
                Ok(has_popped)
            }
            WaitingPop::Lists(end, count) => pop_elements(view, database, key, *end, *count, reply),
            WaitingPop::Move(destination, ends) => {
                let element = move_element(view, database, [key, destination], *ends)?;
                if let Some(element) = &element {
                    reply.bulk(&**element);
                }
                Ok(element.is_some())
            }
            WaitingPop::SortedSet(side) => sorted_set::pop_one(view, database, key, *side, reply),
            WaitingPop::SortedSets(side, count) => {
                sorted_set::pop_members(view, database, key, *side, *count, reply)
            }
        }
    }
}

/// Makes an array of the key and one element of the array of the key and an array of one element.
fn flatten(reply: &mut Reply, before: usize, key: &[u8]) {
    let mut head = Reply::new();
    head.array(2);
    head.bulk(key);
    let inner = before + head.len();
    reply.bytes_mut().drain(inner..inner + b"*1\r\n".len());
}

impl BlockedCommand for WaitingPop {
    fn serve(&self, view: &mut View<'_>, database: u8, key: &[u8], reply: &mut Reply) -> CommandResult<bool> {
        let entry = view.get(database, key)?;
        // The client waits on for a value of the right type.
        if entry.is_none_or(|entry| entry.header.value_type != self.value_type()) {
            return Ok(false);
        }
        self.run(view, database, key, reply)
    }
}

/// Takes elements of the first of `keys` that has some, or waits.
fn pop_or_wait<'k>(
    call: &mut Call<'_>,
    keys: impl Iterator<Item = &'k [u8]> + Clone,
    timeout: Option<Duration>,
    command: WaitingPop,
) -> CommandResult {
    let database = call.session.database;
    for key in keys.clone() {
        if command.run(&mut call.view, database, key, call.reply)? {
            return Ok(());
        }
    }
    if !call.view.is_transaction() {
        call.block(keys, timeout, Box::new(command));
    } else if matches!(command, WaitingPop::Move(..)) {
        call.reply.null();
    } else {
        call.reply.null_array();
    }
    Ok(())
}

/// BLPOP key .. timeout
pub(super) fn blpop(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    pop_first(call, args, WaitingPop::List(End::Left))
}

/// BRPOP key .. timeout
pub(super) fn brpop(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    pop_first(call, args, WaitingPop::List(End::Right))
}

/// BZPOPMIN key .. timeout
pub(super) fn bzpopmin(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    pop_first(call, args, WaitingPop::SortedSet(Side::Min))
}

/// BZPOPMAX key .. timeout
pub(super) fn bzpopmax(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    pop_first(call, args, WaitingPop::SortedSet(Side::Max))
}

fn pop_first(call: &mut Call<'_>, args: Args<'_>, command: WaitingPop) -> CommandResult {
    let timeout = timeout(args, args.len() - 1)?;
    let keys = args.from(1).take(args.len() - 2);
    pop_or_wait(call, keys, timeout, command)
}

/// BLMOVE source destination LEFT | RIGHT LEFT | RIGHT timeout
pub(super) fn blmove(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let ends = [End::parse(args, 3)?, End::parse(args, 4)?];
    let timeout = timeout(args, 5)?;
    pop_or_wait(call, args.from(1).take(1), timeout, WaitingPop::Move(args.at(2).to_vec(), ends))
}

/// BRPOPLPUSH source destination timeout
pub(super) fn brpoplpush(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let timeout = timeout(args, 3)?;
    let command = WaitingPop::Move(args.at(2).to_vec(), [End::Right, End::Left]);
    pop_or_wait(call, args.from(1).take(1), timeout, command)
}

/// BLMPOP timeout numkeys key .. LEFT | RIGHT [COUNT count]
pub(super) fn blmpop(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let (keys, next) = counted_keys(args, 2)?;
    let command = WaitingPop::Lists(End::parse(args, next)?, count_option(args, next + 1)?);
    pop_or_wait(call, keys, timeout(args, 1)?, command)
}

/// BZMPOP timeout numkeys key .. MIN | MAX [COUNT count]
pub(super) fn bzmpop(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let (keys, next) = counted_keys(args, 2)?;
    let command = WaitingPop::SortedSets(Side::parse(args, next)?, count_option(args, next + 1)?);
    pop_or_wait(call, keys, timeout(args, 1)?, command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts() {
        let parse = |text: &'static str| {
            let ranges = [(0, text.len() as u32)];
            timeout(Args::new(text.as_bytes(), &ranges), 0)
        };
        assert_eq!(parse("0").unwrap(), None);
        assert_eq!(parse("0.25").unwrap(), Some(Duration::from_millis(250)));
        assert_eq!(parse("0.0001").unwrap(), Some(Duration::from_millis(1)));
        assert_eq!(parse("-0.0001").unwrap(), None);
        assert_eq!(parse("9.2e15").unwrap(), Some(Duration::from_secs(9_200_000_000_000_000)));
        for refused in ["-1", "inf", "1e30", "x", ""] {
            assert!(parse(refused).is_err(), "{refused}");
        }
    }
}
