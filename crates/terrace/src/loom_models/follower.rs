//! Model of readers of a follower beside a catch-up that switches from a WAL to a table.

use terrace_sync::thread;

use crate::db::components::read_state::ReadStateCell;
use crate::sync::{Arc, AtomicU64, Ordering};

/// Records of one WAL: each slot holds the number of its record, or 0.
type Records = [AtomicU64; 2];

/// State of a follower: all records up to `flushed` are in tables, the others in one memtable.
struct FollowedState {
    memtable: Arc<Records>,
    flushed: u64,
    sequence: u64,
}

impl FollowedState {
    fn shows(&self, sequence: u64) -> bool {
        // Relaxed: the installation of the read state orders the insertion.
        sequence <= self.flushed
            || self.memtable.iter().any(|record| record.load(Ordering::Relaxed) == sequence)
    }
}

/// A reader finds each record of its state, also of a WAL that it reads after a switch, and its
/// next state is not an earlier one.
pub(super) fn reader_beside_catch_up() {
    let first: Arc<Records> = Arc::default();
    let state = FollowedState { memtable: Arc::clone(&first), flushed: 0, sequence: 0 };
    let cell = Arc::new(ReadStateCell::new(state, 0));
    let catch_up = {
        let cell = Arc::clone(&cell);
        thread::spawn(move || {
            first[0].store(1, Ordering::Relaxed);
            cell.publisher().publish_exclusive(1);
            cell.install(FollowedState { memtable: first, flushed: 0, sequence: 1 });
            // A flush has written record 1 and 2 to a table. Record 3 is in the next WAL.
            let second: Arc<Records> = Arc::default();
            second[0].store(3, Ordering::Relaxed);
            cell.publisher().publish_exclusive(3);
            cell.install(FollowedState { memtable: second, flushed: 2, sequence: 3 });
        })
    };
    let mut last = 0;
    for _ in 0..2 {
        let state = cell.current();
        for sequence in 1..=state.sequence {
            assert!(state.shows(sequence), "{sequence} is missing in state {}", state.sequence);
        }
        assert!(state.sequence >= last, "state {} after {last}", state.sequence);
        last = state.sequence;
        // A snapshot takes its number from the state. The number of the cell may be greater.
        assert!(cell.visible_seqno().load(Ordering::Acquire) >= last);
    }
    catch_up.join().unwrap();
}
