//! A [`Cursor`] for engines that offer double-ended range iterators instead.
//!
//! ```text
//!   next, next, next   one range, from its front      |--> --> -->
//!   ... then prev      a new range, up to the entry   <--|
//! ```
//!
//! A scan in one direction uses one range of the engine. Each change of direction and each seek
//! creates a new one.

use std::ops::Bound::{self, Excluded, Included, Unbounded};

use super::{Cursor, Result};

/// Creates ranges of the entries at one moment.
pub(super) trait RangeSource {
    /// An entry, kept while the cursor is at it.
    type Entry;

    /// Iterator over entries in order, from either end.
    type Range: DoubleEndedIterator<Item = Result<Self::Entry>>;

    /// Entries between two keys.
    fn range(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Result<Self::Range>;

    /// Key and value of `entry`.
    fn bytes(entry: &Self::Entry) -> (&[u8], &[u8]);
}

/// Cursor over a [`RangeSource`].
pub(super) struct RangeCursor<R: RangeSource> {
    source: R,
    range: Option<R::Range>,
    forward: bool,
    entry: Option<R::Entry>,
}

impl<R: RangeSource> RangeCursor<R> {
    pub(super) fn new(source: R) -> RangeCursor<R> {
        RangeCursor { source, range: None, forward: true, entry: None }
    }

    fn set_range(&mut self, range: R::Range, forward: bool) -> Result<bool> {
        self.range = Some(range);
        self.forward = forward;
        self.step()
    }

    /// Moves one entry further in the direction of the range.
    fn step(&mut self) -> Result<bool> {
        let forward = self.forward;
        let item =
            self.range.as_mut().and_then(|range| if forward { range.next() } else { range.next_back() });
        self.entry = item.transpose()?;
        Ok(self.entry.is_some())
    }

    /// Range from the entry in the given direction, without the entry; `None` if the cursor is at
    /// no entry.
    fn range_from_entry(&self, forward: bool) -> Result<Option<R::Range>> {
        let Some(entry) = &self.entry else { return Ok(None) };
        let current = Excluded(R::bytes(entry).0);
        let (from, to) = if forward { (current, Unbounded) } else { (Unbounded, current) };
        self.source.range(from, to).map(Some)
    }

    fn step_toward(&mut self, forward: bool) -> Result<bool> {
        if self.forward == forward {
            return self.step();
        }
        match self.range_from_entry(forward)? {
            Some(range) => self.set_range(range, forward),
            None => Ok(false),
        }
    }
}

impl<R: RangeSource> Cursor for RangeCursor<R> {
    fn first(&mut self) -> Result<bool> {
        let all = self.source.range(Unbounded, Unbounded)?;
        self.set_range(all, true)
    }

    fn last(&mut self) -> Result<bool> {
        let all = self.source.range(Unbounded, Unbounded)?;
        self.set_range(all, false)
    }

    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        let rest = self.source.range(Included(key), Unbounded)?;
        self.set_range(rest, true)
    }

    fn next(&mut self) -> Result<bool> {
        self.step_toward(true)
    }

    fn prev(&mut self) -> Result<bool> {
        self.step_toward(false)
    }

    fn entry(&self) -> (&[u8], &[u8]) {
        self.entry.as_ref().map_or((&[], &[]), R::bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    type Map = BTreeMap<Vec<u8>, Vec<u8>>;
    type Pair = (Vec<u8>, Vec<u8>);

    impl RangeSource for Map {
        type Entry = Pair;
        type Range = std::vec::IntoIter<Result<Pair>>;

        fn range(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Result<Self::Range> {
            let pairs = Map::range::<[u8], _>(self, (from, to)).map(|(k, v)| Ok((k.clone(), v.clone())));
            Ok(pairs.collect::<Vec<_>>().into_iter())
        }

        fn bytes(entry: &Pair) -> (&[u8], &[u8]) {
            (&entry.0, &entry.1)
        }
    }

    /// Moves a cursor over the keys b, d, f: `<` first, `>` last, `+` next, `-` prev, a letter
    /// seeks. `.` means no entry.
    #[track_caller]
    fn check(moves: &str, expect: &str) {
        let entries = ["b", "d", "f"].map(|key| (key.into(), key.to_uppercase().into()));
        let mut cursor = RangeCursor::new(Map::from(entries));
        let stops = moves.chars().map(|step| {
            let at_entry = match step {
                '<' => cursor.first(),
                '>' => cursor.last(),
                '+' => cursor.next(),
                '-' => cursor.prev(),
                key => cursor.seek(&[key as u8]),
            };
            let (key, value) = cursor.entry();
            assert_eq!((key.to_ascii_uppercase(), key.is_empty()), (value.to_vec(), at_entry == Ok(false)));
            key.first().map_or('.', |byte| char::from(*byte))
        });
        assert_eq!(stops.collect::<String>(), expect);
    }

    #[test]
    fn forward_and_backward() {
        check("<+++", "bdf.");
        check(">---", "fdb.");
    }

    #[test]
    fn direction_changes() {
        check("<+-+-", "bdbdb");
        check(">-+-", "fdfd");
        check("d-+", "dbd");
        check("d+-", "dfd");
    }

    #[test]
    fn seeks() {
        check("aceg", "bdf.");
        check("g<", ".b");
    }
}
