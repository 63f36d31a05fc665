//! Positions of the keys among the arguments of a command.

use crate::command::Args;

/// Positions of the keys among the arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Keys {
    /// First key, or 0 without keys at fixed positions.
    pub(crate) first: usize,
    /// Last key. A negative position counts from the end.
    pub(crate) last: i32,
    pub(crate) step: usize,
    pub(crate) more: MoreKeys,
}

/// Keys whose positions depend on other arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MoreKeys {
    None,
    /// The argument at this position is the number of the keys after it.
    Counted(usize),
    /// The first half of the arguments after STREAMS.
    Streams,
    /// The argument after STORE or STOREDIST. The options begin at this position.
    Stored(usize),
    /// The argument after the subcommand.
    Subcommand,
}

/// No keys.
pub(super) const NONE: Keys = keys(0, 0, 0);
/// The first argument is the key.
pub(super) const FIRST: Keys = keys(1, 1, 1);
/// All arguments are keys.
pub(super) const ALL: Keys = keys(1, -1, 1);

pub(super) const fn keys(first: usize, last: i32, step: usize) -> Keys {
    Keys { first, last, step, more: MoreKeys::None }
}

/// Options that have values, with the number of the values. Values are no words of options.
static VALUES: &[(&str, usize)] = &[
    ("BLOCK", 1),
    ("BY", 1),
    ("COUNT", 1),
    ("GET", 1),
    ("GROUP", 2),
    ("LIMIT", 2),
    ("STORE", 1),
    ("STOREDIST", 1),
];

/// Returns the position after the option at `index`.
fn next_option(args: Args<'_>, index: usize) -> usize {
    let values = VALUES.iter().find(|(name, _)| args.is(index, name));
    index + 1 + values.map_or(0, |(_, count)| *count)
}

impl Keys {
    /// These keys and others.
    pub(super) const fn and(self, more: MoreKeys) -> Keys {
        Keys { more, ..self }
    }

    /// Keys of a subcommand with the arity `arity`. One without further arguments has none.
    pub(crate) const fn of_subcommand(self, arity: i32) -> Keys {
        match self.more {
            MoreKeys::Subcommand if arity.unsigned_abs() > 2 => keys(2, 2, 1),
            _ => self,
        }
    }

    /// True if the command has no keys.
    pub(crate) fn is_empty(self) -> bool {
        self.first == 0 && self.more == MoreKeys::None
    }

    /// True if words or counts among the arguments tell where the keys are.
    pub(super) fn is_movable(self) -> bool {
        matches!(self.more, MoreKeys::Counted(_) | MoreKeys::Streams | MoreKeys::Stored(_))
    }

    /// True if there is always one key.
    pub(crate) fn is_single(self) -> bool {
        self.first > 0 && self.last == self.first as i32 && self.more == MoreKeys::None
    }

    /// True if the arguments contain as many keys as their count states.
    pub(crate) fn is_count_valid(self, args: Args<'_>) -> bool {
        let MoreKeys::Counted(at) = self.more else { return true };
        let max = args.len().saturating_sub(at + 1);
        args.integer(at).ok().and_then(|count| usize::try_from(count).ok()).is_some_and(|count| count <= max)
    }

    /// Positions of the keys of a command. Wrong arguments have fewer keys.
    pub(crate) fn positions(self, args: Args<'_>) -> impl Iterator<Item = usize> + use<> {
        let len = args.len();
        let end = match usize::try_from(self.last) {
            Ok(last) => last + 1,
            Err(_) => (len + 1).saturating_sub(self.last.unsigned_abs() as usize),
        };
        let begin = if self.first == 0 { len } else { self.first };
        let more = self.more.positions(args);
        (begin..end.min(len)).step_by(self.step.max(1)).chain(more)
    }

    /// Keys of a command.
    pub(crate) fn of<'a>(self, args: Args<'a>) -> impl Iterator<Item = &'a [u8]> {
        self.positions(args).map(move |index| args.at(index))
    }
}

impl MoreKeys {
    fn positions(self, args: Args<'_>) -> std::ops::Range<usize> {
        let len = args.len();
        match self {
            MoreKeys::None => 0..0,
            MoreKeys::Counted(at) => {
                let count = args.integer(at).ok().and_then(|count| usize::try_from(count).ok());
                at + 1..(at + 1).saturating_add(count.unwrap_or(0)).min(len)
            }
            MoreKeys::Streams => streams(args),
            MoreKeys::Stored(begin) => {
                let mut stored = 0..0;
                let mut index = begin;
                while index + 1 < len {
                    if args.is(index, "STORE") || args.is(index, "STOREDIST") {
                        stored = index + 1..index + 2;
                    }
                    index = next_option(args, index);
                }
                stored
            }
            MoreKeys::Subcommand => 2..3.min(len.max(2)),
        }
    }
}

/// Positions of the keys of XREAD and XREADGROUP.
fn streams(args: Args<'_>) -> std::ops::Range<usize> {
    let mut index = 1;
    while index < args.len() {
        if args.is(index, "STREAMS") {
            let count = (args.len() - index - 1) / 2;
            return index + 1..index + 1 + count;
        }
        index = next_option(args, index);
    }
    0..0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(keys: Keys, line: &str, expected: &[usize]) {
        with_args(line, |args| assert_eq!(keys.positions(args).collect::<Vec<_>>(), expected, "{line}"));
    }

    fn with_args(line: &str, body: impl FnOnce(Args<'_>)) {
        let mut ranges = Vec::new();
        let mut begin = 0;
        for word in line.split(' ') {
            ranges.push((begin, begin + word.len() as u32));
            begin += word.len() as u32 + 1;
        }
        body(Args::new(line.as_bytes(), &ranges));
    }

    #[test]
    fn fixed_positions() {
        check(NONE, "c a b", &[]);
        check(FIRST, "c a b", &[1]);
        check(ALL, "c a b d", &[1, 2, 3]);
        check(keys(1, -1, 2), "c a b d e", &[1, 3]);
        check(keys(1, 2, 1), "c a b", &[1, 2]);
        check(keys(1, -2, 1), "c a b d", &[1, 2]);
    }

    #[test]
    fn positions_by_other_arguments() {
        let counted = NONE.and(MoreKeys::Counted(1));
        check(counted, "lmpop 2 a b LEFT", &[2, 3]);
        check(counted, "lmpop 9 a b", &[2, 3]);
        check(counted, "lmpop x a b", &[]);
        check(counted, "lmpop -1 a b", &[]);
        for (line, is_valid) in [("lmpop 2 a b", true), ("lmpop 3 a b", false), ("lmpop x a", false)] {
            with_args(line, |args| assert_eq!(counted.is_count_valid(args), is_valid, "{line}"));
        }
        check(FIRST.and(MoreKeys::Counted(2)), "zunionstore a 2 b c", &[1, 3, 4]);
        let streams = NONE.and(MoreKeys::Streams);
        check(streams, "xread count 1 streams a b 0 0", &[4, 5]);
        check(streams, "xreadgroup group streams streams streams a b 0 0", &[5, 6]);
        check(streams, "xread count 1", &[]);
        let stored = FIRST.and(MoreKeys::Stored(2));
        check(stored, "sort a by store limit 0 1 store b", &[1, 8]);
        check(stored, "sort a store store asc", &[1, 3]);
        check(stored, "sort a store b store c", &[1, 5]);
        check(stored, "sort a store", &[1]);
        check(NONE.and(MoreKeys::Subcommand), "xinfo stream a", &[2]);
        check(NONE.and(MoreKeys::Subcommand), "xinfo help", &[]);
    }
}
