//! Cursors of SCAN: numbers of stored positions.
//!
//! A position is the last key that the client has seen, so a scan continues after it even if that
//! key is deleted meanwhile.

use std::collections::{HashMap, VecDeque};

use terrace_sync::native_locks::Mutex;

/// Maximum number of positions. The oldest is discarded.
const MAX_POSITIONS: usize = 65_536;
/// Maximum size of all positions, in bytes.
const MAX_BYTES: usize = 64 << 20;

/// Table of the positions.
#[derive(Debug, Default)]
pub(crate) struct Cursors {
    table: Mutex<CursorTable>,
}

#[derive(Debug, Default)]
struct CursorTable {
    last: u64,
    positions: HashMap<u64, Vec<u8>>,
    order: VecDeque<u64>,
    bytes: usize,
}

impl Cursors {
    /// Stores a position and returns its cursor, which is never 0.
    pub(crate) fn insert(&self, position: Vec<u8>) -> u64 {
        let mut table = self.table.lock();
        table.last += 1;
        let cursor = table.last;
        table.bytes += position.len();
        table.positions.insert(cursor, position);
        table.order.push_back(cursor);
        while table.order.len() > MAX_POSITIONS || table.bytes > MAX_BYTES {
            let Some(oldest) = table.order.pop_front() else { break };
            let discarded = table.positions.remove(&oldest).unwrap_or_default();
            table.bytes -= discarded.len();
        }
        cursor
    }

    /// Returns the position of `cursor`, unless it was discarded.
    pub(crate) fn get(&self, cursor: u64) -> Option<Vec<u8>> {
        self.table.lock().positions.get(&cursor).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_position_is_discarded() {
        let cursors = Cursors::default();
        let first = cursors.insert(b"a".to_vec());
        assert_eq!((first, cursors.get(first)), (1, Some(b"a".to_vec())));
        for _ in 0..MAX_POSITIONS {
            cursors.insert(Vec::new());
        }
        assert_eq!(cursors.get(first), None);
        assert!(cursors.get(first + 1).is_some());
    }

    #[test]
    fn positions_have_a_limit_in_bytes() {
        let cursors = Cursors::default();
        let first = cursors.insert(vec![0; MAX_BYTES]);
        cursors.insert(vec![0; 1]);
        assert_eq!(cursors.get(first), None);
    }
}
