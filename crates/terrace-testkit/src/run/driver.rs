//! Operations on a database and on the model, answer for answer.

use std::ops::Range as Span;

use super::report::{show_entry, show_expected, show_expected_entry, show_value};
use super::{Answer, Entry, Subject};
use crate::model::Model;
use crate::op::{Op, Range, Slot, Step, Upheaval, Value, is_property, ordinary_key};
use crate::rng::Rng;
use crate::settings::Settings;

/// The cursor's slot that a comparison of everything uses.
const SCAN: Slot = Slot::MAX;

/// A run on the way: applies operations to both sides.
pub(super) struct Driver<'a> {
    pub(super) subject: &'a mut dyn Subject,
    pub(super) model: &'a mut Model,
    pub(super) settings: Settings,
    /// Whether other options may be such as only Terrace has.
    pub(super) own: bool,
}

impl Driver<'_> {
    pub(super) fn apply(&mut self, op: &Op) -> Answer<()> {
        match op {
            Op::Put { key, value, sync } => {
                self.subject.put(key, &value.bytes(), *sync)?;
                self.model.set(key, Some(*value));
                self.settle_if(*sync);
            }
            Op::Delete { key, sync } => {
                self.subject.delete(key, *sync)?;
                self.model.set(key, None);
                self.settle_if(*sync);
            }
            Op::Batch { writes, sync } => {
                self.subject.write(writes, *sync)?;
                self.model.write(writes);
                self.settle_if(*sync);
            }
            Op::Get { key, at } => self.get(key, self.filled(*at))?,
            Op::GetMany { first, count, at } => self.get_many(*first..first + count, self.filled(*at))?,
            Op::Scan { at } => self.scan(self.filled(*at))?,
            Op::Take { slot } => {
                self.subject.take(*slot);
                self.model.take(*slot);
            }
            Op::Release { slot } => {
                self.subject.release(*slot);
                self.model.release(*slot);
            }
            Op::Open { slot, at, range } => self.open(*slot, self.filled(*at), range),
            Op::Step { slot, step } => self.step(*slot, step)?,
            Op::Close { slot } => self.close(*slot),
            Op::Flush => {
                self.subject.flush()?;
                self.model.settle();
            }
            Op::Compact { begin, end } => {
                self.subject.compact(begin.as_deref(), end.as_deref())?;
                self.model.settle();
            }
            Op::Erase { begin, end } => {
                self.subject.erase(begin.as_deref(), end.as_deref())?;
                self.model.erase(begin.as_deref(), end.as_deref());
                self.model.settle();
            }
            Op::Reopen => self.reopen()?,
            Op::ReopenWith { seed } => {
                self.settings = Settings::draw_own(&mut Rng::new(*seed), self.model.order());
                self.settings.zstd &= self.own;
                self.reopen()?;
            }
            Op::Size { begin, end } => self.size(begin, end)?,
            Op::Property { name } => self.property(name)?,
            Op::Upheaval(what) => self.upheaval(*what)?,
        }
        Ok(())
    }

    fn settle_if(&mut self, sync: bool) {
        if sync {
            self.model.settle();
        }
    }

    fn filled(&self, at: Option<Slot>) -> Option<Slot> {
        at.filter(|slot| self.model.has_snapshot(*slot))
    }

    pub(super) fn get(&mut self, key: &[u8], at: Option<Slot>) -> Answer<()> {
        let found = self.subject.get(key, at)?;
        let expected = self.model.get(key, at);
        let same = match (&found, expected) {
            (Some(found), Some(expected)) => expected.is(found),
            (found, expected) => found.is_none() && expected.is_none(),
        };
        if same {
            return Ok(());
        }
        Err(format!("found {}, expected {}", show_value(found.as_deref()), show_expected(expected)))
    }

    fn get_many(&mut self, numbers: Span<u64>, at: Option<Slot>) -> Answer<()> {
        numbers.map(ordinary_key).try_for_each(|key| {
            self.get(&key, at).map_err(|what| format!("get \"{}\": {what}", key.escape_ascii()))
        })
    }

    fn open(&mut self, slot: Slot, at: Option<Slot>, range: &Range) {
        self.subject.open_cursor(slot, at, range);
        self.model.open(slot, at, range);
    }

    fn close(&mut self, slot: Slot) {
        self.subject.close_cursor(slot);
        self.model.close(slot);
    }

    fn step(&mut self, slot: Slot, step: &Step) -> Answer<()> {
        if self.model.may_step(slot, step) { self.step_both(slot, step) } else { Ok(()) }
    }

    fn step_both(&mut self, slot: Slot, step: &Step) -> Answer<()> {
        let found = self.subject.step(slot, step)?;
        let expected = self.model.step(slot, step);
        check_entry(step, found.as_ref(), expected)
    }

    /// Every entry, both ways.
    pub(super) fn scan(&mut self, at: Option<Slot>) -> Answer<()> {
        let Driver { subject, model, .. } = self;
        subject.open_cursor(SCAN, at, &Range::default());
        let forward = walk(*subject, [Step::First, Step::Next], model.scan(at));
        let both = forward.and_then(|()| walk(*subject, [Step::Last, Step::Prev], model.scan(at).rev()));
        subject.close_cursor(SCAN);
        both.map_err(|what| format!("scan: {what}"))
    }

    fn reopen(&mut self) -> Answer<()> {
        self.model.forget_readers();
        self.subject.reopen(&self.settings)?;
        self.model.settle();
        self.scan(None)
    }

    fn upheaval(&mut self, what: Upheaval) -> Answer<()> {
        self.model.forget_readers();
        self.subject.upheaval(what, &self.settings)?;
        match what {
            Upheaval::PowerCut => self.go_back()?,
            Upheaval::Destroy => self.model.clear(),
            Upheaval::ReadOnly => {
                self.scan(None)?;
                self.subject.reopen(&self.settings)?;
            }
            _ => {}
        }
        self.model.settle();
        self.scan(None)
    }

    /// Finds out which writes a power cut took away.
    fn go_back(&mut self) -> Answer<()> {
        let (unsettled, before) = (self.model.unsettled(), self.model.scan(None).count());
        self.subject.open_cursor(SCAN, None, &Range::default());
        let mut found = Vec::new();
        let mut next = self.subject.step(SCAN, &Step::First)?;
        while let Some(entry) = next {
            found.push(entry);
            next = self.subject.step(SCAN, &Step::Next)?;
        }
        self.subject.close_cursor(SCAN);
        let count = found.len();
        let lost = self.model.go_back_to(&found);
        lost.map(drop).ok_or_else(|| {
            format!(
                "found {count} entries after the power cut, {before} before it; expected the state before \
                 some of the last {unsettled} writes, batches whole"
            )
        })
    }

    /// The figure is an estimate of what lies on disk, so only an empty range has a known answer.
    fn size(&mut self, begin: &[u8], end: &[u8]) -> Answer<()> {
        let size = self.subject.size(begin, end)?;
        let empty = self.model.order().comparator().compare(begin, end).is_ge();
        if empty && size != 0 { Err(format!("{size} bytes in an empty range")) } else { Ok(()) }
    }

    fn property(&mut self, name: &str) -> Answer<()> {
        match (self.subject.property(name), is_property(name)) {
            (None, true) => Err(format!("property {name} is not known")),
            (Some(text), false) => Err(format!("property {name} is {text}, expected none")),
            _ => Ok(()),
        }
    }
}

/// Moves the cursor of a scan over all that is expected, and once more: the first movement, then the others.
fn walk<'a>(
    subject: &mut dyn Subject,
    [first, then]: [Step; 2],
    expected: impl Iterator<Item = (&'a [u8], Value)>,
) -> Answer<()> {
    let mut step = &first;
    for expected in expected.map(Some).chain([None]) {
        check_entry(step, subject.step(SCAN, step)?.as_ref(), expected)?;
        step = &then;
    }
    Ok(())
}

fn check_entry(step: &Step, found: Option<&Entry>, expected: Option<(&[u8], Value)>) -> Answer<()> {
    let same = match (found, expected) {
        (Some((key, value)), Some((right_key, right))) => key == right_key && right.is(value),
        (found, expected) => found.is_none() && expected.is_none(),
    };
    if same {
        return Ok(());
    }
    Err(format!("{step} found {}, expected {}", show_entry(found), show_expected_entry(expected)))
}
