//! Flush: writes a memtable to tables, without most of the versions that no reader needs.
//!
//! ```text
//!   smallest snapshot 70:   a@95   a@90   a@72   a@61 │ a@60   a@33   a@7
//!                           kept: a reader may need it  dropped
//! ```

use std::ops::Range;
use std::path::Path;

use terrace_env::Env;
use terrace_format::key::{self, MAX_SEQUENCE_NUMBER, SequenceNumber};
use terrace_format::table::TableOptions;

use super::flush_partitioner::{self, FlushPartitioner};
use crate::compaction;
use crate::error::Result;
use crate::internal_iterator::InternalIterator;
use crate::memtable::Memtable;
use crate::sync::Arc;
use crate::table::{FinishedTable, TableWriter};

/// Number of entries after which a flush reports its progress: some ten microseconds.
const PROGRESS_STEP: u64 = 64;

/// Place and format of the tables of a flush.
pub(crate) struct FlushPlace<'a> {
    pub(crate) env: &'a Env,
    pub(crate) directory: &'a Path,
    /// File number of the first table.
    pub(crate) number: u64,
    pub(crate) options: &'a TableOptions,
}

/// Places at which a flush begins a new table.
pub(crate) struct FlushGaps<'a> {
    pub(crate) partitioner: FlushPartitioner<'a>,
    /// File numbers of the tables after the first one.
    pub(crate) numbers: Range<u64>,
}

/// Writes the versions of `memtable` up to `last_sequence` to one table, the newest one of each
/// key. Returns None, and leaves no file, if there is none. Another thread may insert later
/// versions meanwhile. The rest is as in [`build_tables`].
pub(crate) fn build_table(
    memtable: &Arc<Memtable>,
    last_sequence: SequenceNumber,
    place: FlushPlace<'_>,
) -> Result<Option<FinishedTable>> {
    let visible = VisibleVersions { last_sequence, smallest_snapshot: last_sequence };
    Ok(write_tables(memtable, visible, place, None)?.pop())
}

/// Writes `memtable` to tables, in the order of their keys: to one table, unless it has `gaps`.
/// Returns no table, and leaves no file, if it is empty.
///
/// All writes in `memtable` are visible, and no present or later reader of the tables has a
/// sequence number below `smallest_snapshot`. Readers of the memtable itself do not matter.
///
/// The contents are durable on return; the caller syncs the directory. After an error, there is no
/// file.
pub(crate) fn build_tables(
    memtable: &Arc<Memtable>,
    smallest_snapshot: SequenceNumber,
    place: FlushPlace<'_>,
    gaps: Option<FlushGaps<'_>>,
) -> Result<Vec<FinishedTable>> {
    let visible = VisibleVersions { last_sequence: MAX_SEQUENCE_NUMBER, smallest_snapshot };
    write_tables(memtable, visible, place, gaps)
}

/// Sequence numbers of the readers of a table.
#[derive(Clone, Copy)]
struct VisibleVersions {
    /// No reader sees a later version.
    last_sequence: SequenceNumber,
    /// All readers see this version, unless they see a newer one.
    smallest_snapshot: SequenceNumber,
}

fn write_tables(
    memtable: &Arc<Memtable>,
    visible: VisibleVersions,
    place: FlushPlace<'_>,
    gaps: Option<FlushGaps<'_>>,
) -> Result<Vec<FinishedTable>> {
    let FlushPlace { env, directory, number, .. } = place;
    let mut writer = FlushWriter { table: place.create_table(number)?, place, gaps, finished: Vec::new() };
    let written = writer.write(memtable, visible);
    let FlushWriter { table, mut finished, .. } = writer;
    let last = match written {
        Ok(()) => table.finish(),
        Err(error) => {
            table.abandon();
            Err(error)
        }
    };
    match last {
        Ok(last) => {
            finished.extend(last);
            Ok(finished)
        }
        Err(error) => {
            compaction::remove_tables(env, directory, &finished);
            Err(error)
        }
    }
}

impl FlushPlace<'_> {
    fn create_table(&self, number: u64) -> Result<TableWriter> {
        TableWriter::create(self.env, self.directory, number, self.options)
    }
}

/// Writer of the tables of a flush.
struct FlushWriter<'a> {
    place: FlushPlace<'a>,
    gaps: Option<FlushGaps<'a>>,
    /// Table after the finished ones.
    table: TableWriter,
    finished: Vec<FinishedTable>,
}

impl FlushWriter<'_> {
    fn write(&mut self, memtable: &Arc<Memtable>, visible: VisibleVersions) -> Result<()> {
        let mut entries = memtable.iter();
        entries.seek_to_first();
        let mut count = 0_u64;
        memtable.set_flushed_entries(count);
        while let Some((key, value)) = entries.entry() {
            let sequence = key::trailer(key) >> 8;
            if sequence > visible.last_sequence {
                if !entries.next_version() {
                    entries.next_user_key();
                }
                continue;
            }
            if let Some(number) = self.next_table_at(key::user_key(key)) {
                let next = self.place.create_table(number)?;
                self.finished.extend(std::mem::replace(&mut self.table, next).finish()?);
            }
            // A damaged log may hold one write twice; the memtable returns the later one first.
            self.table.add_unless_duplicate(key, value)?;
            count += 1;
            if count.is_multiple_of(PROGRESS_STEP) {
                memtable.set_flushed_entries(count);
            }
            // Every reader sees this version or a newer one.
            let hides_older_versions = sequence <= visible.smallest_snapshot;
            if hides_older_versions || !entries.next_version() {
                entries.next_user_key();
            }
        }
        Ok(())
    }

    /// Returns the file number of the table that begins with `user_key`, if one does.
    #[inline]
    fn next_table_at(&mut self, user_key: &[u8]) -> Option<u64> {
        let gaps = self.gaps.as_mut()?;
        let is_after_gap = gaps.partitioner.is_after_gap(user_key);
        let (tombstones, entries) = self.table.tombstones_and_entries();
        if !is_after_gap || entries == 0 {
            return None;
        }
        if flush_partitioner::has_many_tombstones(tombstones, entries) {
            self.gaps = None;
            return None;
        }
        gaps.numbers.next()
    }
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
        let place = FlushPlace { env: &env, directory: "db".as_ref(), number: 1, options: &options };
        let tables = build_tables(&memtable, smallest_snapshot, place, None);
        tables.unwrap()[0].stats.properties.num_entries - 1
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
