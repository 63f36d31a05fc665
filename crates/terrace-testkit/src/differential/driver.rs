//! Operations on a database and on the model, answer for answer.

use std::ops::Range as Span;

use super::report::{show_entry, show_expected, show_expected_entry, show_value};
use super::{DatabaseUnderTest, Entry, OpResult};
use crate::model::Model;
use crate::op::{
    IteratorBounds, IteratorMove, LifecycleOp, Op, Slot, ValueSpec, is_known_property, numbered_key,
};
use crate::rng::Rng;
use crate::settings::Settings;

/// The cursor's slot that a comparison of everything uses.
const SCAN_SLOT: Slot = Slot::MAX;

/// A run on the way: applies operations to both sides.
pub(super) struct Driver<'a> {
    pub(super) db: &'a mut dyn DatabaseUnderTest,
    pub(super) model: &'a mut Model,
    pub(super) settings: Settings,
    /// Whether other options may be such as only Terrace has.
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
            Op::Get { key, snapshot: at } => self.check_get(key, self.existing_snapshot(*at))?,
            Op::MultiGet { first, count, snapshot: at } => {
                self.multi_get(*first..first + count, self.existing_snapshot(*at))?
            }
            Op::Scan { snapshot: at } => self.check_scan(self.existing_snapshot(*at))?,
            Op::TakeSnapshot { slot } => {
                self.db.take_snapshot(*slot);
                self.model.take_snapshot(*slot);
            }
            Op::ReleaseSnapshot { slot } => {
                self.db.release_snapshot(*slot);
                self.model.release_snapshot(*slot);
            }
            Op::OpenIterator { slot, snapshot: at, range } => {
                self.open_iterator(*slot, self.existing_snapshot(*at), range)
            }
            Op::MoveIterator { slot, movement: step } => self.move_iterator(*slot, step)?,
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
            Op::Reopen => self.reopen()?,
            Op::ReopenWith { seed } => {
                self.settings =
                    Settings::draw_with_terrace_features(&mut Rng::new(*seed), self.model.comparator());
                self.settings.zstd &= self.terrace_only_features;
                self.reopen()?;
            }
            Op::ApproximateSize { begin, end } => self.check_approximate_size(begin, end)?,
            Op::Property { name } => self.check_property(name)?,
            Op::Lifecycle(what) => self.run_lifecycle_op(*what)?,
        }
        Ok(())
    }

    fn mark_synced_if(&mut self, sync: bool) {
        if sync {
            self.model.mark_synced();
        }
    }

    fn existing_snapshot(&self, at: Option<Slot>) -> Option<Slot> {
        at.filter(|slot| self.model.has_snapshot(*slot))
    }

    pub(super) fn check_get(&mut self, key: &[u8], at: Option<Slot>) -> OpResult<()> {
        let found = self.db.get(key, at)?;
        let expected = self.model.get(key, at);
        let same = match (&found, expected) {
            (Some(found), Some(expected)) => expected.matches(found),
            (found, expected) => found.is_none() && expected.is_none(),
        };
        if same {
            return Ok(());
        }
        Err(format!("found {}, expected {}", show_value(found.as_deref()), show_expected(expected)))
    }

    fn multi_get(&mut self, numbers: Span<u64>, at: Option<Slot>) -> OpResult<()> {
        numbers.map(numbered_key).try_for_each(|key| {
            self.check_get(&key, at).map_err(|what| format!("get \"{}\": {what}", key.escape_ascii()))
        })
    }

    fn open_iterator(&mut self, slot: Slot, at: Option<Slot>, range: &IteratorBounds) {
        self.db.open_iterator(slot, at, range);
        self.model.open_iterator(slot, at, range);
    }

    fn close_iterator(&mut self, slot: Slot) {
        self.db.close_iterator(slot);
        self.model.close_iterator(slot);
    }

    fn move_iterator(&mut self, slot: Slot, step: &IteratorMove) -> OpResult<()> {
        if self.model.can_move(slot, step) { self.move_both(slot, step) } else { Ok(()) }
    }

    fn move_both(&mut self, slot: Slot, step: &IteratorMove) -> OpResult<()> {
        let found = self.db.move_iterator(slot, step)?;
        let expected = self.model.move_iterator(slot, step);
        check_entry(step, found.as_ref(), expected)
    }

    /// Every entry, both ways.
    pub(super) fn check_scan(&mut self, at: Option<Slot>) -> OpResult<()> {
        let Driver { db: subject, model, .. } = self;
        subject.open_iterator(SCAN_SLOT, at, &IteratorBounds::default());
        let forward =
            check_iteration(*subject, [IteratorMove::SeekToFirst, IteratorMove::Next], model.scan(at));
        let both = forward.and_then(|()| {
            check_iteration(*subject, [IteratorMove::SeekToLast, IteratorMove::Prev], model.scan(at).rev())
        });
        subject.close_iterator(SCAN_SLOT);
        both.map_err(|what| format!("scan: {what}"))
    }

    fn reopen(&mut self) -> OpResult<()> {
        self.model.drop_readers();
        self.db.reopen(&self.settings)?;
        self.model.mark_synced();
        self.check_scan(None)
    }

    fn run_lifecycle_op(&mut self, what: LifecycleOp) -> OpResult<()> {
        self.model.drop_readers();
        self.db.run_lifecycle_op(what, &self.settings)?;
        match what {
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

    /// Finds out which writes a power cut took away.
    fn roll_back_lost_writes(&mut self) -> OpResult<()> {
        let (unsettled, before) = (self.model.unsynced_writes(), self.model.scan(None).count());
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
                 some of the last {unsettled} writes, batches whole"
            )
        })
    }

    /// The figure is an estimate of what lies on disk, so only an empty range has a known answer.
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

/// Moves the cursor of a scan over all that is expected, and once more: the first movement, then the others.
fn check_iteration<'a>(
    subject: &mut dyn DatabaseUnderTest,
    [first, then]: [IteratorMove; 2],
    expected: impl Iterator<Item = (&'a [u8], ValueSpec)>,
) -> OpResult<()> {
    let mut step = &first;
    for expected in expected.map(Some).chain([None]) {
        check_entry(step, subject.move_iterator(SCAN_SLOT, step)?.as_ref(), expected)?;
        step = &then;
    }
    Ok(())
}

fn check_entry(
    step: &IteratorMove,
    found: Option<&Entry>,
    expected: Option<(&[u8], ValueSpec)>,
) -> OpResult<()> {
    let same = match (found, expected) {
        (Some((key, value)), Some((right_key, right))) => key == right_key && right.matches(value),
        (found, expected) => found.is_none() && expected.is_none(),
    };
    if same {
        return Ok(());
    }
    Err(format!("{step} found {}, expected {}", show_entry(found), show_expected_entry(expected)))
}
