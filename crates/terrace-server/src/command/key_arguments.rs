//! Keys among the arguments of a command: those of its row, and those that only the arguments tell.
//!
//! ```text
//!   MSET k v k v          positions of the row
//!   ZUNIONSTORE d 2 k k   row, and a count before the keys
//!   SORT k STORE d        words before the keys
//!   OBJECT ENCODING k     subcommands
//! ```

use super::Args;
use super::table::Command;
use crate::resp::parse_u64;

/// Returns the keys of the command `args`, or None if the number of keys is no number.
pub(super) fn all_keys<'a>(command: &Command, args: Args<'a>) -> Option<Vec<&'a [u8]>> {
    let mut keys: Vec<&[u8]> = command.keys.of(args).collect();
    if command.keys.count_at > 0 {
        let count = parse_u64(args.at(command.keys.count_at))?;
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        keys.extend(args.from(command.keys.count_at + 1).take(count));
    }
    match command.name {
        "object" | "memory" | "xinfo" | "xgroup" => keys.extend(args.get(2)),
        "xread" | "xreadgroup" => keys.extend(stream_keys(args)),
        "sort" | "georadius" | "georadiusbymember" => keys.extend(stored_key(args)),
        _ => {}
    }
    Some(keys)
}

/// True if the arguments, and not only their positions, tell where the keys are.
pub(super) fn has_movable_keys(command: &Command) -> bool {
    let by_words = ["georadius", "georadiusbymember", "migrate", "sort", "sort_ro", "xread", "xreadgroup"];
    command.keys.count_at > 0 || by_words.contains(&command.name)
}

/// Keys of XREAD .. STREAMS key .. id ..
fn stream_keys(args: Args<'_>) -> impl Iterator<Item = &[u8]> {
    let begin = (1..args.len()).find(|index| args.is(*index, "STREAMS")).unwrap_or(args.len() - 1);
    args.from(begin + 1).take((args.len() - begin - 1) / 2)
}

/// Key after the last STORE or STOREDIST, which is the one that counts.
fn stored_key(args: Args<'_>) -> Option<&[u8]> {
    let mut words = 2..args.len().saturating_sub(1);
    let last = words.rfind(|index| args.is(*index, "STORE") || args.is(*index, "STOREDIST"))?;
    Some(args.at(last + 1))
}
