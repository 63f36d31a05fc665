//! Comparators: LevelDB's bytewise order, IndexedDB's order, and the orders of callers.

use std::any::Any;
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

mod indexed_db;

pub use indexed_db::IndexedDb;

/// Total order of user keys. The database stores its name.
///
/// Every method may be called from any thread at any time, and always returns the same result. A
/// database in one order is unreadable in another, so the database checks the name at open. A
/// changed order needs a new name.
pub trait Comparator: Any + Send + Sync {
    /// Returns the name that the MANIFEST stores. The prefix `leveldb.` is reserved for LevelDB.
    fn name(&self) -> &str;

    /// Returns the bytes of the name. A comparator of a C or C++ program may have a name that is
    /// not UTF-8. The MANIFEST stores these bytes, and messages show [`Comparator::name`].
    fn name_bytes(&self) -> &[u8] {
        self.name().as_bytes()
    }

    /// Compares two user keys. Keys that compare equal are the same key, even if their bytes
    /// differ.
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering;

    /// Shortens `start`, which is below `limit`, to a key that is at least `start` and below
    /// `limit`.
    ///
    /// An implementation that does nothing is correct, but makes index blocks larger.
    fn shortest_separator(&self, start: &mut Vec<u8>, limit: &[u8]) {
        let _ = (start, limit);
    }

    /// Changes `key` to a shorter key that is not below it. An implementation that does nothing is
    /// correct.
    fn short_successor(&self, key: &mut Vec<u8>) {
        let _ = key;
    }
}

impl fmt::Debug for dyn Comparator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Comparator({})", self.name())
    }
}

/// LevelDB's default order: bytewise, with a prefix before longer keys.
#[derive(Debug, Clone, Copy, Default)]
pub struct Bytewise;

/// Returns a shared [`Bytewise`].
pub fn bytewise() -> Arc<dyn Comparator> {
    Arc::new(Bytewise)
}

impl Comparator for Bytewise {
    fn name(&self) -> &str {
        "leveldb.BytewiseComparator"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.cmp(b)
    }

    /// Increments the first byte that differs, if the result stays below `limit`, and cuts the key
    /// after it.
    ///
    /// LevelDB does the same; a better separator would make the tables differ from LevelDB's.
    fn shortest_separator(&self, start: &mut Vec<u8>, limit: &[u8]) {
        let Some(pos) = start.iter().zip(limit).position(|(a, b)| a != b) else {
            return; // One key is a prefix of the other.
        };
        if let Some(next) = start[pos].checked_add(1).filter(|next| *next < limit[pos]) {
            start[pos] = next;
            start.truncate(pos + 1);
        }
    }

    /// Increments the first byte that is not 0xff, and cuts the key after it. A key of 0xff bytes
    /// does not change.
    fn short_successor(&self, key: &mut Vec<u8>) {
        if let Some(pos) = key.iter().position(|byte| *byte != 0xff) {
            key[pos] += 1;
            key.truncate(pos + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check_separator(start: &[u8], limit: &[u8], expect: &[u8]) {
        let mut found = start.to_vec();
        Bytewise.shortest_separator(&mut found, limit);
        assert_eq!(found.escape_ascii().to_string(), expect.escape_ascii().to_string());
    }

    #[track_caller]
    fn check_successor(key: &[u8], expect: &[u8]) {
        let mut found = key.to_vec();
        Bytewise.short_successor(&mut found);
        assert_eq!(found.escape_ascii().to_string(), expect.escape_ascii().to_string());
    }

    // The expected keys come from LevelDB 1.23.
    #[test]
    #[rustfmt::skip]
    fn separators_of_leveldb() {
        check_separator(b"foo",         b"hello",     b"g");
        check_separator(b"foo",         b"foo",       b"foo");
        check_separator(b"foo",         b"foobar",    b"foo");
        check_separator(b"foobar",      b"foo",       b"foobar");
        check_separator(b"abc",         b"abd",       b"abc");
        check_separator(b"abc",         b"abe",       b"abd");
        check_separator(b"abcdef",      b"abd",       b"abcdef");
        check_separator(b"abcdef",      b"abz",       b"abd");
        check_separator(b"a\xffb",      b"b",         b"a\xffb");
        check_separator(b"a\xff\xff",   b"c",         b"b");
        check_separator(b"a\xfe\x01",   b"a\xff\x02", b"a\xfe\x01");
        check_separator(b"a\xfd\x01",   b"a\xff\x02", b"a\xfe");
        check_separator(b"\xff",        b"\xff\xff",  b"\xff");
        check_separator(b"",            b"a",         b"");
        check_separator(b"b",           b"a",         b"b");
    }

    #[test]
    #[rustfmt::skip]
    fn successors_of_leveldb() {
        check_successor(b"foo",              b"g");
        check_successor(b"",                 b"");
        check_successor(b"\xfe",             b"\xff");
        check_successor(b"\xff\xff",         b"\xff\xff");
        check_successor(b"\xffa\xff",        b"\xffb");
        check_successor(b"\xff\xff\x01zz",   b"\xff\xff\x02");
    }

    #[test]
    fn names() {
        assert_eq!(bytewise().name(), "leveldb.BytewiseComparator");
        assert_eq!(format!("{:?}", &*bytewise()), "Comparator(leveldb.BytewiseComparator)");
    }

    proptest! {
        #[test]
        fn separators_and_successors_stay_in_bounds(
            a in proptest::collection::vec(prop_oneof![Just(0u8), Just(0xfe), Just(0xff), any::<u8>()], 0..5),
            b in proptest::collection::vec(prop_oneof![Just(0u8), Just(0xfe), Just(0xff), any::<u8>()], 0..5),
        ) {
            let (low, high) = if a < b { (a, b) } else { (b, a) };
            let mut separator = low.clone();
            Bytewise.shortest_separator(&mut separator, &high);
            prop_assert!(low <= separator && (separator < high || low == high));
            prop_assert!(separator.len() <= low.len());
            let mut successor = high.clone();
            Bytewise.short_successor(&mut successor);
            prop_assert!(high <= successor && successor.len() <= high.len());
        }
    }
}
