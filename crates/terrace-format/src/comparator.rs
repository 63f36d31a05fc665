//! Orders of keys: LevelDB's bytewise order, the browser's, and a caller's own.

use std::cmp::Ordering;
use std::fmt;

/// A total order of user keys, with a name that is stored in the database.
///
/// Every method may be called from any thread at any time, always with the same answers: a database built under
/// one order is unreadable under another, which is why the name is checked at open. Change the name when the order
/// changes.
pub trait Comparator: Send + Sync {
    /// The name stored in the manifest. Names that begin with `leveldb.` are LevelDB's own.
    fn name(&self) -> &str;

    /// The order of `a` and `b`. Keys that compare equal are the same key, whatever their bytes.
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering;

    /// May shorten `start`, which is below `limit`, to a key that is at least `start` and below `limit`.
    /// Doing nothing is correct; it makes index blocks larger.
    fn shortest_separator(&self, start: &mut Vec<u8>, limit: &[u8]) {
        let _ = (start, limit);
    }

    /// May change `key` to a shorter key that is not below it. Doing nothing is correct.
    fn short_successor(&self, key: &mut Vec<u8>) {
        let _ = key;
    }
}

impl fmt::Debug for dyn Comparator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Comparator({})", self.name())
    }
}
