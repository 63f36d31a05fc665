//! Iterator over the members that the commands of a series read one after the other, as pops do.
//!
//! ```text
//!   RPOP k   get of the last element
//!   RPOP k   iterator from the next element on: one seek
//!   RPOP k   one step
//! ```
//!
//! The iterator shows the state of its creation. The series holds the pass of the key, so nobody
//! else changes the members meanwhile. The series itself knows its own writes.

use terrace::{Db, DbIterator, ReadOptions};

/// Iterator of the series of a thread.
#[derive(Debug, Default)]
pub(super) struct SeriesScan {
    iter: Option<Box<DbIterator>>,
    is_reverse: bool,
    /// True after a read in this direction.
    has_read: bool,
}

impl SeriesScan {
    /// Ends the scan.
    pub(super) fn clear(&mut self) {
        self.iter = None;
        self.has_read = false;
    }

    /// Returns the value of the member record `record`, if it follows the record of the last call,
    /// or if this is the second call in one direction. The scan may go on to the record `last`.
    pub(super) fn read(&mut self, db: &Db, record: &[u8], last: &[u8], is_reverse: bool) -> Option<&[u8]> {
        if self.is_reverse != is_reverse {
            self.clear();
            self.is_reverse = is_reverse;
        }
        if !std::mem::replace(&mut self.has_read, true) {
            return None;
        }
        let iter = match self.iter.take() {
            Some(mut iter) => {
                if is_reverse {
                    iter.prev()
                } else {
                    iter.next()
                }
                iter
            }
            None => begin(db, record, last, is_reverse),
        };
        // A get reports the error of a damaged block.
        if !iter.valid() || iter.key() != record {
            self.has_read = false;
            return None;
        }
        Some(self.iter.insert(iter).value())
    }
}

/// Returns an iterator at the first record of the scan.
fn begin(db: &Db, record: &[u8], last: &[u8], is_reverse: bool) -> Box<DbIterator> {
    let (lower, upper) = if is_reverse { (last, record) } else { (record, last) };
    let mut options = ReadOptions::default();
    options.lower_bound = Some(lower.to_vec());
    // An iterator needs its bounds in order. Those of a damaged object may not be.
    options.upper_bound = Some([upper, &[0]].concat().max(lower.to_vec()));
    let mut iter = Box::new(db.raw_iter_with(&options));
    if is_reverse {
        iter.seek_to_last()
    } else {
        iter.seek_to_first()
    }
    iter
}

#[cfg(test)]
mod tests {
    use terrace::{Env, Options};

    use super::*;

    #[test]
    fn records_in_both_directions() {
        let options = Options::default().create_if_missing(true).env(Env::in_memory());
        let db = Db::open("scan", &options).unwrap();
        for key in [b"a", b"b", b"c", b"d", b"e"] {
            db.put(key, key).unwrap();
        }
        let mut scan = SeriesScan::default();
        let mut check = |record: &[u8], last: &[u8], is_reverse, expected: bool| {
            let found = scan.read(&db, record, last, is_reverse).map(<[u8]>::to_vec);
            assert_eq!(found, expected.then(|| record.to_vec()), "{record:?} {is_reverse}");
        };
        check(b"e", b"b", true, false);
        check(b"d", b"b", true, true);
        check(b"c", b"b", true, true);
        check(b"a", b"c", false, false);
        check(b"b", b"c", false, true);
        check(b"c", b"c", false, true);
        check(b"d", b"e", false, false);
        check(b"d", b"e", false, false);
        check(b"e", b"e", false, true);
        check(b"x", b"y", false, false);
    }
}
