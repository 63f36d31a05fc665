//! Flush: writes a memtable to a table, without most of the versions that no reader needs.
//!
//! ```text
//!   smallest snapshot 70:   a@95   a@90   a@72   a@61 │ a@60   a@33   a@7
//!                           kept: a reader may need it  dropped
//! ```

use std::path::Path;

use terrace_env::Env;
use terrace_format::key::{self, SequenceNumber};
use terrace_format::table::TableOptions;

use crate::error::Result;
use crate::internal_iterator::InternalIterator;
use crate::memtable::Memtable;
use crate::sync::Arc;
use crate::table::{FinishedTable, TableWriter};

/// Number of entries after which a flush reports its progress: some ten microseconds.
const PROGRESS_STEP: u64 = 64;

/// Writes `memtable` to the table file `number`. Returns None, and leaves no file, if it is empty.
///
/// All writes in `memtable` are visible, and no present or later reader of the table has a sequence
/// number below `smallest_snapshot`. Readers of the memtable itself do not matter.
///
/// The contents are durable on return; the caller syncs the directory. After an error, there is no
/// file.
pub(crate) fn build_table(
    memtable: &Arc<Memtable>,
    smallest_snapshot: SequenceNumber,
    env: &Env,
    directory: &Path,
    number: u64,
    options: &TableOptions,
) -> Result<Option<FinishedTable>> {
    let mut table = TableWriter::create(env, directory, number, options)?;
    let mut entries = memtable.iter();
    entries.seek_to_first();
    let mut count = 0_u64;
    memtable.set_flushed_entries(count);
    while let Some((key, value)) = entries.entry() {
        // A damaged log may hold one write twice; the memtable returns the later one first.
        if let Err(error) = table.add_unless_duplicate(key, value) {
            table.abandon();
            return Err(error);
        }
        count += 1;
        if count.is_multiple_of(PROGRESS_STEP) {
            memtable.set_flushed_entries(count);
        }
        // Every reader sees this version or a newer one.
        let hides_older_versions = key::trailer(key) >> 8 <= smallest_snapshot;
        if hides_older_versions || !entries.next_version() {
            entries.next_user_key();
        }
    }
    table.finish()
}

#[cfg(test)]
mod tests {
    use terrace_format::comparator::bytewise;
    use terrace_format::key::InternalComparator;

    use super::*;
    use crate::options::Options;

    /// Flushes a memtable with versions of `a` and a version of `b`. Returns the number of versions
    /// of `a` in the table.
    fn kept_versions(versions: &[SequenceNumber], smallest_snapshot: SequenceNumber) -> u64 {
        let comparator = InternalComparator::new(bytewise());
        let memtable = Memtable::new(comparator.clone());
        for &sequence in versions {
            memtable.insert(sequence, std::iter::once((b"a".as_slice(), Some(b"".as_slice()))));
        }
        memtable.insert(1_000, std::iter::once((b"b".as_slice(), None)));
        let env = Env::in_memory();
        env.fs.create_dir("db".as_ref()).unwrap();
        let options = Options::default().table_options(&comparator);
        let table = build_table(&memtable, smallest_snapshot, &env, "db".as_ref(), 1, &options);
        table.unwrap().unwrap().stats.properties.num_entries - 1
    }

    #[test]
    fn versions_that_no_reader_needs_are_dropped() {
        for (versions, smallest_snapshot, expected) in [
            (&[9][..], 1_000, 1),
            (&[8, 9], 1_000, 1),
            (&[1, 2, 3, 4, 5, 6, 7, 8, 9], 9, 1),
            // The snapshot 6 sees 6, and the snapshot 5 sees 5.
            (&[1, 2, 3, 4, 5, 6, 7, 8, 9], 6, 4),
            (&[1, 2, 3, 4, 5, 6, 7, 8, 9], 5, 5),
            // The snapshot 4 sees 3.
            (&[1, 3, 5, 7, 9], 4, 4),
            (&[1, 3, 5, 7, 9], 0, 5),
        ] {
            let kept = kept_versions(versions, smallest_snapshot);
            assert_eq!(kept, expected, "{versions:?} at {smallest_snapshot}");
        }
    }
}
