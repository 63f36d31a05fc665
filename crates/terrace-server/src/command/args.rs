//! Arguments of a command, in the buffer of the connection.

use std::ops::Index;

use crate::failure::{CommandResult, Failure};
use crate::resp::{ArgRange, parse_i64};

/// Arguments. The first one is the name of the command.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Args<'a> {
    buffer: &'a [u8],
    ranges: &'a [ArgRange],
}

impl<'a> Args<'a> {
    /// Arguments at `ranges` of `buffer`.
    pub(crate) fn new(buffer: &'a [u8], ranges: &'a [ArgRange]) -> Args<'a> {
        Args { buffer, ranges }
    }

    /// Number of the arguments.
    pub(crate) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Argument `index`, or nothing after the last one.
    pub(crate) fn get(&self, index: usize) -> Option<&'a [u8]> {
        let (begin, end) = *self.ranges.get(index)?;
        self.buffer.get(begin as usize..end as usize)
    }

    /// Argument `index`, or an empty one after the last one.
    pub(crate) fn at(&self, index: usize) -> &'a [u8] {
        self.get(index).unwrap_or_default()
    }

    /// Arguments from `begin` on.
    pub(crate) fn from(&self, begin: usize) -> impl ExactSizeIterator<Item = &'a [u8]> + Clone + use<'a> {
        let args = *self;
        (begin.min(args.len())..args.len()).map(move |index| args.at(index))
    }

    /// Arguments without the first `count`, as the arguments of another command.
    pub(crate) fn skip(&self, count: usize) -> Args<'a> {
        Args { buffer: self.buffer, ranges: self.ranges.get(count..).unwrap_or_default() }
    }

    /// True if argument `index` is `word`, in any case.
    pub(crate) fn is(&self, index: usize, word: &str) -> bool {
        self.at(index).eq_ignore_ascii_case(word.as_bytes())
    }

    /// Argument `index` as an integer.
    pub(crate) fn integer(&self, index: usize) -> CommandResult<i64> {
        parse_i64(self.at(index)).ok_or(Failure::NOT_AN_INTEGER)
    }

    /// Argument `index` as a Redis database.
    pub(crate) fn database(&self, index: usize) -> CommandResult<u8> {
        let text = "ERR value is out of range, value must between -2147483648 and 2147483647";
        let number = i32::try_from(self.integer(index)?).map_err(|_| Failure::reply(text))?;
        let database = u8::try_from(number).ok().filter(|db| usize::from(*db) < crate::store::DATABASES);
        database.ok_or(Failure::reply("ERR DB index is out of range"))
    }

    /// True for an array of at most `max` bytes, and false for an inline command.
    pub(crate) fn is_array_up_to(&self, max: usize) -> bool {
        self.buffer.first() == Some(&b'*') && self.ranges.last().is_some_and(|(_, end)| *end as usize <= max)
    }

    /// Size of the arguments as an array of the protocol.
    pub(crate) fn encoded_len(&self) -> usize {
        let head = |len: usize| 1 + len.to_string().len() + 2;
        head(self.len()) + self.from(0).map(|arg| head(arg.len()) + arg.len() + 2).sum::<usize>()
    }

    /// Copies of the bytes and the positions, for a later execution.
    pub(crate) fn to_owned(self) -> (Vec<u8>, Vec<ArgRange>) {
        let mut bytes = Vec::new();
        let mut ranges = Vec::with_capacity(self.len());
        for arg in self.from(0) {
            let begin = bytes.len() as u32;
            bytes.extend_from_slice(arg);
            ranges.push((begin, bytes.len() as u32));
        }
        (bytes, ranges)
    }
}

impl Index<usize> for Args<'_> {
    type Output = [u8];

    /// The table states the minimum number of arguments.
    fn index(&self, index: usize) -> &[u8] {
        self.at(index)
    }
}
