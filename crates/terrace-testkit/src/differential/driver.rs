//! Applies operations to a database and to the model, and compares each answer.

use std::ops::Range as Span;

use super::report::{show_entry, show_expected, show_expected_entry, show_value};
use super::{DatabaseUnderTest, Entry, OpResult};
use crate::model::Model;
use crate::op::{
    IteratorBounds, IteratorMove, LifecycleOp, Op, Slot, ValueSpec, is_known_property, numbered_key,
};
use crate::rng::Rng;
use crate::settings::Settings;

/// Iterator slot of full scans.
const SCAN_SLOT: Slot = Slot::MAX;

/// State of a run.
pub(super) struct Driver<'a> {
    pub(super) db: &'a mut dyn DatabaseUnderTest,
    pub(super) model: &'a mut Model,
    pub(super) settings: Settings,
    /// True if a reopen may use options that only Terrace has.
    pub(super) terrace_only_features: bool,
}

impl Driver<'_> {
    pub(super) fn apply(&mut self, op: &Op) -> OpResult<()> {
        match op {
            Op::Put { key, value, sync } => {
                self.db.put(key, &value.bytes(), *sync)?;
                self.model.set(key, Some(*value));
                self.mark_synced_if(*sync);
            }
            Op::Delete { key, sync } => {
                self.db.delete(key, *sync)?;
                self.model.set(key, None);
                self.mark_synced_if(*sync);
            }
            Op::Batch { writes, sync } => {
                self.db.write(writes, *sync)?;
                self.model.apply_batch(writes);
                self.mark_synced_if(*sync);
            }
            Op::Get { key, snapshot } => self.check_get(key, self.existing_snapshot(*snapshot))?,
            Op::MultiGet { first, count, snapshot } => {
                self.multi_get(*first..first + count, self.existing_snapshot(*snapshot))?
            }
            Op::Scan { snapshot } => self.check_scan(self.existing_snapshot(*snapshot))?,
            Op::TakeSnapshot { slot } => {
                self.db.take_snapshot(*slot);
                self.model.take_snapshot(*slot);
            }
            Op::ReleaseSnapshot { slot } => {
                self.db.release_snapshot(*slot);
                self.model.release_snapshot(*slot);
            }
            Op::OpenIterator { slot, snapshot, range } => {
                self.open_iterator(*slot, self.existing_snapshot(*snapshot), range)
            }
            Op::MoveIterator { slot, movement } => self.move_iterator(*slot, movement)?,
            Op::CloseIterator { slot } => self.close_iterator(*slot),
            Op::Flush => {
                self.db.flush()?;
                self.model.mark_synced();
            }
            Op::CompactRange { begin, end } => {
                self.db.compact_range(begin.as_deref(), end.as_deref())?;
                self.model.mark_synced();
            }
            Op::DeleteRange { begin, end } => {
                self.db.delete_range(begin.as_deref(), end.as_deref())?;
                self.model.delete_range(begin.as_deref(), end.as_deref());
                self.model.mark_synced();
            }
            Op::Ingest { entries } => self.ingest(entries)?,
            Op::BulkLoad { entries } => {
                self.db.bulk_load(entries)?;
                self.set_all(entries);
            }
            Op::Reopen => self.reopen()?,
            Op::ReopenWith { seed } => {
                self.settings =
                    Settings::draw_with_terrace_features(&mut Rng::new(*seed), self.model.comparator());
                self.settings.zstd &= self.terrace_only_features;
                self.reopen()?;
            }
            Op::ApproximateSize { begin, end } => self.check_approximate_size(begin, end)?,
            Op::Property { name } => self.check_property(name)?,
            Op::Lifecycle(op) => self.run_lifecycle_op(*op)?,
        }
        Ok(())
    }

    /// Ingests a table. A visible key in its range and a snapshot are reasons to refuse it, and a
    /// range without any key is none. A deleted key may still have its tombstone.
    fn ingest(&mut self, entries: &[(Vec<u8>, ValueSpec)]) -> OpResult<()> {
        let is_ingested = self.db.ingest(entries)?;
        let keys = self.model.keys_in_range_of(entries.iter().map(|(key, _)| key.as_slice()));
        if is_ingested && self.model.has_snapshots() {
            return Err("the table was ingested under a snapshot".into());
        }
        if let Some(key) = keys.visible.filter(|_| is_ingested) {
            return Err(format!("the table was ingested over \"{}\"", key.escape_ascii()));
        }
        if !is_ingested && !keys.any_written && !self.model.has_readers() {
            return Err("the table was refused, although its range is free".into());
        }
        if is_ingested {
            self.set_all(entries);
        }
        Ok(())
    }

    /// Sets the values of `entries`, which are durable like all earlier writes.
    fn set_all(&mut self, entries: &[(Vec<u8>, ValueSpec)]) {
        for (key, value) in entries {
            self.model.set(key, Some(*value));
        }
        self.model.mark_synced();
    }

    fn mark_synced_if(&mut self, sync: bool) {
        if sync {
            self.model.mark_synced();
        }
    }

    fn existing_snapshot(&self, snapshot: Option<Slot>) -> Option<Slot> {
        snapshot.filter(|slot| self.model.has_snapshot(*slot))
    }

    pub(super) fn check_get(&mut self, key: &[u8], snapshot: Option<Slot>) -> OpResult<()> {
        let found = self.db.get(key, snapshot)?;
        let expected = self.model.get(key, snapshot);
        let same = match (&found, expected) {
            (Some(found), Some(expected)) => expected.matches(found),
            (found, expected) => found.is_none() && expected.is_none(),
        };
        if same {
            return Ok(());
        }
        Err(format!("found {}, expected {}", show_value(found.as_deref()), show_expected(expected)))
    }

    fn multi_get(&mut self, numbers: Span<u64>, snapshot: Option<Slot>) -> OpResult<()> {
        numbers.map(numbered_key).try_for_each(|key| {
            self.check_get(&key, snapshot)
                .map_err(|message| format!("get \"{}\": {message}", key.escape_ascii()))
        })
    }

    fn open_iterator(&mut self, slot: Slot, snapshot: Option<Slot>, range: &IteratorBounds) {
        self.db.open_iterator(slot, snapshot, range);
        self.model.open_iterator(slot, snapshot, range);
    }

    fn close_iterator(&mut self, slot: Slot) {
        self.db.close_iterator(slot);
        self.model.close_iterator(slot);
    }

    fn move_iterator(&mut self, slot: Slot, movement: &IteratorMove) -> OpResult<()> {
        if self.model.can_move(slot, movement) { self.move_both(slot, movement) } else { Ok(()) }
    }

    fn move_both(&mut self, slot: Slot, movement: &IteratorMove) -> OpResult<()> {
        let found = self.db.move_iterator(slot, movement)?;
        let expected = self.model.move_iterator(slot, movement);
        check_entry(movement, found.as_ref(), expected)
    }

    /// Compares all entries in both directions.
    pub(super) fn check_scan(&mut self, snapshot: Option<Slot>) -> OpResult<()> {
        let Driver { db: database, model, .. } = self;
        database.open_iterator(SCAN_SLOT, snapshot, &IteratorBounds::default());
        let forward =
            check_iteration(*database, [IteratorMove::SeekToFirst, IteratorMove::Next], model.scan(snapshot));
        let both_directions = forward.and_then(|()| {
            check_iteration(
                *database,
                [IteratorMove::SeekToLast, IteratorMove::Prev],
                model.scan(snapshot).rev(),
            )
        });
        database.close_iterator(SCAN_SLOT);
        both_directions.map_err(|message| format!("scan: {message}"))
    }

    fn reopen(&mut self) -> OpResult<()> {
        self.model.drop_readers();
        self.db.reopen(&self.settings)?;
        self.model.mark_synced();
        self.check_scan(None)
    }

    fn run_lifecycle_op(&mut self, op: LifecycleOp) -> OpResult<()> {
        self.model.drop_readers();
        self.db.run_lifecycle_op(op, &self.settings)?;
        match op {
            LifecycleOp::PowerCut => self.roll_back_lost_writes()?,
            LifecycleOp::Destroy => self.model.clear(),
            LifecycleOp::ReadOnly => {
                self.check_scan(None)?;
                self.db.reopen(&self.settings)?;
            }
            _ => {}
        }
        self.model.mark_synced();
        self.check_scan(None)
    }

    /// Reads the database after a power cut, and rolls the model back to the same state.
    fn roll_back_lost_writes(&mut self) -> OpResult<()> {
        let unsynced = self.model.unsynced_writes();
        let before = self.model.scan(None).count();
        self.db.open_iterator(SCAN_SLOT, None, &IteratorBounds::default());
        let mut found = Vec::new();
        let mut next = self.db.move_iterator(SCAN_SLOT, &IteratorMove::SeekToFirst)?;
        while let Some(entry) = next {
            found.push(entry);
            next = self.db.move_iterator(SCAN_SLOT, &IteratorMove::Next)?;
        }
        self.db.close_iterator(SCAN_SLOT);
        let count = found.len();
        let lost = self.model.roll_back_to(&found);
        lost.map(drop).ok_or_else(|| {
            format!(
                "found {count} entries after the power cut, {before} before it; expected the state before \
                 some of the last {unsynced} writes, with complete batches"
            )
        })
    }

    /// The result is an estimate, so only the size of an empty range is known.
    fn check_approximate_size(&mut self, begin: &[u8], end: &[u8]) -> OpResult<()> {
        let size = self.db.approximate_size(begin, end)?;
        let empty = self.model.comparator().build().compare(begin, end).is_ge();
        if empty && size != 0 { Err(format!("{size} bytes in an empty range")) } else { Ok(()) }
    }

    fn check_property(&mut self, name: &str) -> OpResult<()> {
        match (self.db.property(name), is_known_property(name)) {
            (None, true) => Err(format!("property {name} is not known")),
            (Some(text), false) => Err(format!("property {name} is {text}, expected none")),
            _ => Ok(()),
        }
    }
}

/// Moves an iterator over all expected entries and past the last. The first movement is a seek.
fn check_iteration<'a>(
    database: &mut dyn DatabaseUnderTest,
    [seek, step]: [IteratorMove; 2],
    expected: impl Iterator<Item = (&'a [u8], ValueSpec)>,
) -> OpResult<()> {
    let mut movement = &seek;
    for expected in expected.map(Some).chain([None]) {
        check_entry(movement, database.move_iterator(SCAN_SLOT, movement)?.as_ref(), expected)?;
        movement = &step;
    }
    Ok(())
}

fn check_entry(
    movement: &IteratorMove,
    found: Option<&Entry>,
    expected: Option<(&[u8], ValueSpec)>,
) -> OpResult<()> {
    let same = match (found, expected) {
        (Some((key, value)), Some((expected_key, expected_value))) => {
            key == expected_key && expected_value.matches(value)
        }
        (found, expected) => found.is_none() && expected.is_none(),
    };
    if same {
        return Ok(());
    }
    Err(format!("{movement} found {}, expected {}", show_entry(found), show_expected_entry(expected)))
}
