//! What a user's iterator shows: of each key the newest version that its snapshot sees, unless that is a delete.
//!
//! ```text
//!   runs, merged:   a@9 put | a@4 put | b@7 delete | b@2 put | c@3 put
//!   shown at 8:     a (of 4)                                  c (of 3)
//! ```
//!
//! Going forward, the merge stands *at* the version that is shown. Going backward, the newest version of a key comes
//! last, so the merge stands *before* the key's versions, and key and value are held in copies.
//!
//! A settled database is one run, and nearly every key in it has one version. There a step within a block sees from what
//! neighbours share that they are not versions of one key: nothing is compared or copied, and a step back, too, leaves
//! the merge at the version that is shown. Wherever that is not certain nothing has moved, and the step is taken the long
//! way. Of several runs the current one may go on like that up to what the others have next, which is compared, and known to
//! be no version of the key that is left.

use terrace_env::prefetch;
use terrace_format::comparator::{Bytewise, Comparator};
use terrace_format::key::{self, InternalComparator, ParsedInternalKey, SequenceNumber, ValueType};
use terrace_sync::mutant;

use super::merging_iter::{Direction, MergingIter};
use crate::error::{Error, Result};
use crate::internal_iterator::InternalIterator;
use crate::options::ReadOptions;
use crate::sync::Arc;

/// The database behind an iterator: lives as long as the iterator does.
pub(crate) trait IterObserver: Send + Sync {
    /// Told about one entry in roughly every mebibyte read.
    fn record_read_sample(&self, internal_key: &[u8]);

    /// The bytes to read until the next sample: any number, so that walks over the same entries again and again tell of
    /// others each time.
    fn bytes_until_next_sample(&self) -> usize;

    /// Told how many entries of the newest memtable one step passed over, if they were [`SKIPPED_REPORT_MIN`] or more.
    fn record_skipped(&self, entries: usize);
}

/// That a step passed over fewer entries is told nobody: it is not worth it.
const SKIPPED_REPORT_MIN: usize = 64;

/// So far ahead a walk has a block fetched, in bytes, and so much at a step. Processors see by themselves where it goes, but only up
/// to the next page of 4 KiB, and of a block that is as long as that they learn anew. Back, it is more: a step decodes the entries from a
/// restart point on.
const PREFETCH_FORWARD_DISTANCE: usize = 640;
const PREFETCH_BACKWARD_DISTANCE: usize = 2048;
const PREFETCH_STEP_BYTES: usize = 128;

/// Bytes read between two samples, on average.
pub(crate) const READ_BYTES_PERIOD: usize = 1 << 20;

/// A walk over a database in key order, both ways, at the state of one moment.
///
/// Begins nowhere: seek first. Belongs to one thread at a time. Holds the files that it needs, and keeps the
/// database open, until it is dropped.
///
/// Damage does not end the walk: the damaged block is left out, and [`DbIterator::status`] says so from then on.
/// A loop that must not miss anything asks it when it has ended.
///
/// ```
/// # let options = terrace::Options { create_if_missing: true, env: terrace::Env::memory(), ..Default::default() };
/// # let db = terrace::Db::open("cities", &options)?;
/// db.put(b"CH/Bern", b"46.95,7.45")?;
/// db.put(b"CH/Chur", b"46.85,9.53")?;
/// let mut iter = db.iter();
/// iter.seek(b"CH/C");
/// while iter.valid() {
///     println!("{} {}", iter.key().escape_ascii(), iter.value().escape_ascii());
///     iter.next();
/// }
/// iter.status()?;
/// # Ok::<(), terrace::Error>(())
/// ```
pub struct DbIterator {
    iter: DbIter,
    /// Declared last, so that it is dropped last: what the walk reads belongs to it.
    _observer: Option<Arc<dyn IterObserver>>,
}

impl DbIterator {
    pub(crate) fn new(mut walk: DbIter, owner: Arc<dyn IterObserver>) -> DbIterator {
        walk.sampler = ReadSampler {
            bytes_until_sample: owner.bytes_until_next_sample(),
            observer: Some(Arc::clone(&owner)),
        };
        DbIterator { iter: walk, _observer: Some(owner) }
    }

    /// True if it stands at an entry.
    ///
    /// ```
    /// # let options = terrace::Options { create_if_missing: true, env: terrace::Env::memory(), ..Default::default() };
    /// # let db = terrace::Db::open("cities", &options)?;
    /// # db.put(b"CH/Bern", b"46.95,7.45")?;
    /// # db.put(b"CH/Chur", b"46.85,9.53")?;
    /// let mut iter = db.iter();
    ///
    /// assert!(!iter.valid(), "it begins nowhere");
    /// iter.seek_to_first();
    /// assert!(iter.valid());
    /// # Ok::<(), terrace::Error>(())
    /// ```
    #[inline]
    pub fn valid(&self) -> bool {
        self.iter.valid
    }

    /// Moves to the first key.
    ///
    /// ```
    /// # let options = terrace::Options { create_if_missing: true, env: terrace::Env::memory(), ..Default::default() };
    /// # let db = terrace::Db::open("cities", &options)?;
    /// # db.put(b"CH/Bern", b"46.95,7.45")?;
    /// # db.put(b"CH/Chur", b"46.85,9.53")?;
    /// let mut iter = db.iter();
    ///
    /// iter.seek_to_first();
    /// assert_eq!(iter.key(), b"CH/Bern");
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn seek_to_first(&mut self) {
        self.iter.seek_to_first();
    }

    /// Moves to the last key.
    ///
    /// ```
    /// # let options = terrace::Options { create_if_missing: true, env: terrace::Env::memory(), ..Default::default() };
    /// # let db = terrace::Db::open("cities", &options)?;
    /// # db.put(b"CH/Bern", b"46.95,7.45")?;
    /// # db.put(b"CH/Chur", b"46.85,9.53")?;
    /// let mut iter = db.iter();
    ///
    /// iter.seek_to_last();
    /// assert_eq!(iter.key(), b"CH/Chur");
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn seek_to_last(&mut self) {
        self.iter.seek_to_last();
    }

    /// Moves to the first key that is not below `target`.
    ///
    /// ```
    /// # let options = terrace::Options { create_if_missing: true, env: terrace::Env::memory(), ..Default::default() };
    /// # let db = terrace::Db::open("cities", &options)?;
    /// # db.put(b"CH/Bern", b"46.95,7.45")?;
    /// # db.put(b"CH/Chur", b"46.85,9.53")?;
    /// let mut iter = db.iter();
    ///
    /// iter.seek(b"CH/C");
    /// assert_eq!(iter.key(), b"CH/Chur");
    /// iter.seek(b"FR/");
    /// assert!(!iter.valid(), "there is no such key");
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn seek(&mut self, target: &[u8]) {
        self.iter.seek(target);
    }

    /// Moves to the next key. Does nothing if it stands at no entry.
    ///
    /// ```
    /// # let options = terrace::Options { create_if_missing: true, env: terrace::Env::memory(), ..Default::default() };
    /// # let db = terrace::Db::open("cities", &options)?;
    /// # db.put(b"CH/Bern", b"46.95,7.45")?;
    /// # db.put(b"CH/Chur", b"46.85,9.53")?;
    /// let mut iter = db.iter();
    ///
    /// iter.seek_to_first();
    /// iter.next();
    /// assert_eq!(iter.key(), b"CH/Chur");
    /// iter.next();
    /// assert!(!iter.valid());
    /// # Ok::<(), terrace::Error>(())
    /// ```
    #[allow(clippy::should_implement_trait)] // The field's name; for an `Iterator` there is `into_forward`.
    #[inline]
    pub fn next(&mut self) {
        self.iter.next();
    }

    /// Moves to the key before. Does nothing if it stands at no entry.
    ///
    /// ```
    /// # let options = terrace::Options { create_if_missing: true, env: terrace::Env::memory(), ..Default::default() };
    /// # let db = terrace::Db::open("cities", &options)?;
    /// # db.put(b"CH/Bern", b"46.95,7.45")?;
    /// # db.put(b"CH/Chur", b"46.85,9.53")?;
    /// let mut iter = db.iter();
    ///
    /// iter.seek(b"CH/Chur");
    /// iter.prev();
    /// assert_eq!(iter.key(), b"CH/Bern");
    /// # Ok::<(), terrace::Error>(())
    /// ```
    #[inline]
    pub fn prev(&mut self) {
        self.iter.prev();
    }

    /// The key here; empty if it stands at no entry.
    ///
    /// ```
    /// # let options = terrace::Options { create_if_missing: true, env: terrace::Env::memory(), ..Default::default() };
    /// # let db = terrace::Db::open("cities", &options)?;
    /// # db.put(b"CH/Bern", b"46.95,7.45")?;
    /// # db.put(b"CH/Chur", b"46.85,9.53")?;
    /// let mut iter = db.iter();
    ///
    /// iter.seek_to_first();
    /// assert_eq!(iter.key(), b"CH/Bern");
    /// # Ok::<(), terrace::Error>(())
    /// ```
    #[inline]
    pub fn key(&self) -> &[u8] {
        self.iter.key()
    }

    /// The value here; empty if it stands at no entry.
    ///
    /// ```
    /// # let options = terrace::Options { create_if_missing: true, env: terrace::Env::memory(), ..Default::default() };
    /// # let db = terrace::Db::open("cities", &options)?;
    /// # db.put(b"CH/Bern", b"46.95,7.45")?;
    /// # db.put(b"CH/Chur", b"46.85,9.53")?;
    /// let mut iter = db.iter();
    ///
    /// iter.seek_to_first();
    /// assert_eq!(iter.value(), b"46.95,7.45");
    /// # Ok::<(), terrace::Error>(())
    /// ```
    #[inline]
    pub fn value(&self) -> &[u8] {
        self.iter.value()
    }

    /// The first damage or failure met so far.
    ///
    /// ```
    /// # let options = terrace::Options { create_if_missing: true, env: terrace::Env::memory(), ..Default::default() };
    /// # let db = terrace::Db::open("cities", &options)?;
    /// # db.put(b"CH/Bern", b"46.95,7.45")?;
    /// # db.put(b"CH/Chur", b"46.85,9.53")?;
    /// let mut iter = db.iter();
    ///
    /// iter.seek_to_first();
    /// while iter.valid() {
    ///     iter.next();
    /// }
    /// iter.status()?; // everything there was has been shown
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn status(&self) -> Result<()> {
        self.iter.status()
    }

    /// All entries from the first on. A failure is the last item.
    ///
    /// ```
    /// # let options = terrace::Options { create_if_missing: true, env: terrace::Env::memory(), ..Default::default() };
    /// # let db = terrace::Db::open("cities", &options)?;
    /// db.put(b"CH/Bern", b"46.95,7.45")?;
    /// for entry in db.iter().into_forward() {
    ///     let (name, place) = entry?;
    ///     println!("{} {}", name.escape_ascii(), place.escape_ascii());
    /// }
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn into_forward(mut self) -> Forward {
        self.seek_to_first();
        Forward(Some(self))
    }

    /// All entries from the last on, backward. A failure is the last item.
    ///
    /// ```
    /// # let options = terrace::Options { create_if_missing: true, env: terrace::Env::memory(), ..Default::default() };
    /// # let db = terrace::Db::open("cities", &options)?;
    /// db.put(b"CH/Bern", b"46.95,7.45")?;
    /// db.put(b"CH/Chur", b"46.85,9.53")?;
    /// let last = db.iter().into_backward().next().transpose()?;
    /// assert_eq!(last, Some((b"CH/Chur".to_vec(), b"46.85,9.53".to_vec())));
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn into_backward(mut self) -> Backward {
        self.seek_to_last();
        Backward(Some(self))
    }

    fn pull_entry(
        iter: &mut Option<DbIterator>,
        step: fn(&mut DbIterator),
    ) -> Option<Result<(Vec<u8>, Vec<u8>)>> {
        let walk = iter.as_mut()?;
        if walk.valid() {
            let entry = (walk.key().to_vec(), walk.value().to_vec());
            step(walk);
            return Some(Ok(entry));
        }
        let status = walk.status();
        *iter = None;
        status.err().map(Err)
    }
}

impl std::fmt::Debug for DbIterator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.valid() {
            write!(f, "DbIterator('{}')", self.key().escape_ascii())
        } else {
            f.write_str("DbIterator")
        }
    }
}

/// Entries in key order.
#[derive(Debug)]
pub struct Forward(Option<DbIterator>);

impl Iterator for Forward {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        DbIterator::pull_entry(&mut self.0, DbIterator::next)
    }
}

/// Entries in key order, backward.
#[derive(Debug)]
pub struct Backward(Option<DbIterator>);

impl Iterator for Backward {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        DbIterator::pull_entry(&mut self.0, DbIterator::prev)
    }
}

/// Where the merge stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    /// At the version shown.
    AtEntry,
    /// Before all versions of the key shown, of which there are copies.
    BeforeEntry,
}

/// The bounds of a walk: keys from `lower` up to, but without, `upper`.
#[derive(Default)]
struct IterBounds {
    lower: Option<Vec<u8>>,
    upper: Option<Vec<u8>>,
}

impl IterBounds {
    fn new(options: &ReadOptions, comparator: &dyn Comparator) -> Result<IterBounds> {
        let mut bounds =
            IterBounds { lower: options.lower_bound.clone(), upper: options.upper_bound.clone() };
        let Some(prefix) = &options.prefix else { return Ok(bounds) };
        if comparator.name() != Bytewise.name() {
            let order = comparator.name();
            return Err(Error::NotSupported(format!(
                "a prefix under the order {order}: keys with it need not be together"
            )));
        }
        if bounds.lower.as_ref().is_none_or(|lower| lower < prefix) {
            bounds.lower = Some(prefix.clone());
        }
        if let Some(end) = prefix_upper_bound(prefix)
            && bounds.upper.as_ref().is_none_or(|upper| *upper > end)
        {
            bounds.upper = Some(end);
        }
        Ok(bounds)
    }
}

/// The least key above every key that begins with `prefix`, if there is one.
fn prefix_upper_bound(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != 0xff)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

/// What the other runs of a merge have next, in one direction: nothing up to a user key, which lies beyond the one shown.
#[derive(Default)]
struct OtherRunsBound {
    /// None if it is not known, or a version of the key shown.
    direction: Option<Direction>,
    /// False if the others have nothing more.
    has_bound: bool,
    user_key: Vec<u8>,
}

impl OtherRunsBound {
    /// Learns it from a merge in the order of bytes that stands at what is shown, if it is so.
    #[inline]
    fn update(&mut self, merge: &MergingIter, direction: Direction) -> bool {
        let shown = key::user_key(merge.key());
        let next = merge.runner_up_key().map(key::user_key);
        let is_so = merge.is_direction(direction)
            && (next.is_none_or(|next| precedes(direction, shown, next))
                || mutant!(NewerVersionInOtherRunMissed));
        self.direction = is_so.then_some(direction);
        if is_so {
            self.has_bound = next.is_some();
            self.user_key.clear();
            self.user_key.extend_from_slice(next.unwrap_or_default());
        }
        is_so
    }

    /// True if `user_key` comes before all that the others have.
    #[inline]
    fn allows(&self, direction: Direction, user_key: &[u8]) -> bool {
        !self.has_bound || precedes(direction, user_key, &self.user_key)
    }
}

#[inline]
fn precedes(direction: Direction, a: &[u8], b: &[u8]) -> bool {
    match direction {
        Direction::Forward => a < b,
        Direction::Backward => a > b,
    }
}

/// The walk of a [`DbIterator`].
pub(crate) struct DbIter {
    merging_iter: MergingIter,
    sequence: SequenceNumber,
    bounds: IterBounds,
    position: Position,
    valid: bool,
    /// Before: the key and value shown. At: scratch for the key whose versions are skipped.
    saved_key: Vec<u8>,
    saved_value: Vec<u8>,
    other_runs_bound: OtherRunsBound,
    first_error: Option<Error>,
    /// True if the options made no sense: then nothing is ever shown.
    has_invalid_options: bool,
    /// Entries of the newest memtable that the present step passed over.
    skipped_entries: usize,
    sampler: ReadSampler,
}

impl DbIter {
    /// Over `merge`, at `sequence`.
    pub(crate) fn new(
        comparator: &InternalComparator,
        merge: MergingIter,
        sequence: SequenceNumber,
        options: &ReadOptions,
    ) -> DbIter {
        let bounds = IterBounds::new(options, &**comparator.user_comparator());
        let mut walk = DbIter {
            merging_iter: merge,
            sequence,
            bounds: IterBounds::default(),
            position: Position::AtEntry,
            valid: false,
            saved_key: Vec::new(),
            saved_value: Vec::new(),
            other_runs_bound: OtherRunsBound::default(),
            first_error: None,
            has_invalid_options: false,
            skipped_entries: 0,
            sampler: ReadSampler { observer: None, bytes_until_sample: READ_BYTES_PERIOD },
        };
        match bounds {
            Ok(bounds) => walk.bounds = bounds,
            Err(error) => walk.set_permanent_error(error),
        }
        walk
    }

    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        match self.position {
            _ if !self.valid => &[],
            Position::AtEntry => key::user_key(self.merging_iter.key()),
            Position::BeforeEntry => &self.saved_key,
        }
    }

    #[inline]
    pub(crate) fn value(&self) -> &[u8] {
        match self.position {
            _ if !self.valid => &[],
            Position::AtEntry => self.merging_iter.value(),
            Position::BeforeEntry => &self.saved_value,
        }
    }

    pub(crate) fn status(&self) -> Result<()> {
        match &self.first_error {
            Some(error) => Err(error.clone()),
            None => self.merging_iter.status(),
        }
    }

    /// Shows nothing, ever, and gives `error` as its status.
    pub(crate) fn set_permanent_error(&mut self, error: Error) {
        self.has_invalid_options = true;
        self.first_error = Some(error);
    }

    /// Makes the walk invalid, and says whether it may go anywhere.
    fn reset(&mut self) -> bool {
        self.valid = false;
        !self.has_invalid_options
    }

    pub(crate) fn seek_to_first(&mut self) {
        if !self.reset() {
            return;
        }
        self.position = Position::AtEntry;
        match self.bounds.lower.take() {
            Some(lower) => {
                self.seek_internal(&lower);
                self.bounds.lower = Some(lower);
            }
            None => self.merging_iter.seek_to_first(),
        }
        self.skip_below_lower_bound();
        self.find_next_user_entry(false);
    }

    pub(crate) fn seek(&mut self, target: &[u8]) {
        if !self.reset() {
            return;
        }
        match &self.bounds.lower {
            Some(lower) if self.merging_iter.comparator.compare_user_keys(target, lower).is_lt() => {
                return self.seek_to_first();
            }
            _ => {}
        }
        self.position = Position::AtEntry;
        self.seek_internal(target);
        self.skip_below_lower_bound();
        self.find_next_user_entry(false);
    }

    pub(crate) fn seek_to_last(&mut self) {
        if !self.reset() {
            return;
        }
        self.position = Position::BeforeEntry;
        match self.bounds.upper.take() {
            Some(upper) => {
                // The newest conceivable version of the bound itself: everything before it is below the bound.
                self.seek_internal_at(&upper, key::MAX_SEQUENCE_NUMBER);
                self.bounds.upper = Some(upper);
                if self.merging_iter.valid() {
                    self.merging_iter.prev()
                } else {
                    self.merging_iter.seek_to_last()
                }
            }
            None => self.merging_iter.seek_to_last(),
        }
        self.find_prev_user_entry();
    }

    /// Forward to the lower bound. A search in a damaged table may end before it, at keys that are in no order; a walk does
    /// not come back to any.
    fn skip_below_lower_bound(&mut self) {
        let Some(lower) = &self.bounds.lower else { return };
        while self.merging_iter.valid()
            && self
                .merging_iter
                .comparator
                .compare_user_keys(key::user_key(self.merging_iter.key()), lower)
                .is_lt()
        {
            self.merging_iter.next();
        }
    }

    #[inline]
    pub(crate) fn next(&mut self) {
        if self.valid && !self.next_fast() {
            self.next_slow();
        }
    }

    #[inline]
    pub(crate) fn prev(&mut self) {
        if self.valid && !self.prev_fast() {
            self.prev_slow();
        }
    }

    /// To the next entry to show, if it is easily seen which it is. Else nothing has moved.
    #[inline]
    fn next_fast(&mut self) -> bool {
        let is_alone = self.merging_iter.has_single_child();
        if self.position != Position::AtEntry
            || !self.merging_iter.comparator.is_bytewise()
            || !is_alone && self.other_runs_bound.direction != Some(Direction::Forward)
        {
            return false;
        }
        let Some(block) = self.merging_iter.block_iter() else { return false };
        if !block.next_visible_fast(|number| is_visible_put(number, self.sequence)) {
            return false;
        }
        block
            .byte_after(PREFETCH_FORWARD_DISTANCE)
            .into_iter()
            .for_each(|byte| prefetch(byte, PREFETCH_STEP_BYTES));
        let (key, value) = (block.key(), block.value());
        let user_key = key::user_key(key);
        if !is_alone && !self.other_runs_bound.allows(Direction::Forward, user_key) {
            // No run has more of the key that is left.
            self.merging_iter.on_current_moved();
            self.find_next_user_entry(false);
            return true;
        }
        self.sampler.record_read(key, value);
        self.valid = self.bounds.upper.as_ref().is_none_or(|upper| user_key < &upper[..]);
        true
    }

    /// As [`DbIter::next_fast`], to the entry before.
    #[inline]
    fn prev_fast(&mut self) -> bool {
        if !self.merging_iter.comparator.is_bytewise() {
            return false;
        }
        let is_alone = self.merging_iter.has_single_child();
        let shown = |number| is_visible_put(number, self.sequence);
        let is_there = match self.position {
            Position::AtEntry if is_alone || self.other_runs_bound.direction == Some(Direction::Backward) => {
                self.merging_iter.block_iter().is_some_and(|block| block.prev_visible_fast(shown))
            }
            Position::AtEntry => false,
            Position::BeforeEntry => {
                self.merging_iter.block_iter().is_some_and(|block| block.is_newest_visible(shown))
                    && (is_alone || self.other_runs_bound.update(&self.merging_iter, Direction::Backward))
            }
        };
        if !is_there {
            return false;
        }
        let block = self.merging_iter.block_iter();
        let byte = block.and_then(|block| block.byte_before(PREFETCH_BACKWARD_DISTANCE));
        byte.into_iter().for_each(|byte| prefetch(byte, PREFETCH_STEP_BYTES));
        let Some((key, value)) = self.merging_iter.entry() else { return false };
        let user_key = key::user_key(key);
        if !is_alone && !self.other_runs_bound.allows(Direction::Backward, user_key) {
            self.merging_iter.on_current_moved();
            self.position = Position::BeforeEntry;
            self.find_prev_user_entry();
            return true;
        }
        self.position = Position::AtEntry;
        self.sampler.record_read(key, value);
        self.valid = self.bounds.lower.as_ref().is_none_or(|lower| user_key >= &lower[..]);
        true
    }

    fn next_slow(&mut self) {
        match self.position {
            Position::AtEntry => {
                self.saved_key.clear();
                self.saved_key.extend_from_slice(key::user_key(self.merging_iter.key()));
                self.merging_iter.next();
            }
            Position::BeforeEntry => {
                self.position = Position::AtEntry;
                // `key` already says which versions to skip.
                if self.merging_iter.valid() {
                    self.merging_iter.next()
                } else {
                    self.merging_iter.seek_to_first()
                }
            }
        }
        self.find_next_user_entry(true);
    }

    fn prev_slow(&mut self) {
        if self.position == Position::AtEntry {
            self.saved_key.clear();
            self.saved_key.extend_from_slice(key::user_key(self.merging_iter.key()));
            while self.merging_iter.valid()
                && !self
                    .merging_iter
                    .comparator
                    .compare_user_keys(key::user_key(self.merging_iter.key()), &self.saved_key)
                    .is_lt()
            {
                self.merging_iter.prev();
            }
            self.position = Position::BeforeEntry;
        }
        self.find_prev_user_entry();
    }

    fn seek_internal(&mut self, user_key: &[u8]) {
        self.seek_internal_at(user_key, self.sequence);
    }

    fn seek_internal_at(&mut self, user_key: &[u8], sequence: SequenceNumber) {
        key::with_seek_key(user_key, sequence, |target| self.merging_iter.seek(target));
    }

    /// Forward to the first version to show; `skipping` leaves out versions of `self.key` and before.
    fn find_next_user_entry(&mut self, skipping: bool) {
        self.scan_forward(skipping);
        self.report_skipped();
    }

    fn scan_forward(&mut self, mut skipping: bool) {
        self.valid = false;
        self.other_runs_bound.direction = None;
        while let Some((merge_key, value)) = self.merging_iter.entry() {
            self.sampler.record_read(merge_key, value);
            if let Some(upper) = &self.bounds.upper
                && self.merging_iter.comparator.compare_user_keys(key::user_key(merge_key), upper).is_ge()
            {
                return;
            }
            match key::parse(merge_key) {
                Ok(ParsedInternalKey { user_key, sequence, value_type: kind })
                    if sequence <= self.sequence =>
                {
                    let hidden = skipping
                        && self.merging_iter.comparator.compare_user_keys(user_key, &self.saved_key).is_le();
                    match kind {
                        _ if hidden => {}
                        ValueType::Value => {
                            self.valid = true;
                            if self.merging_iter.can_bound_other_runs() {
                                self.other_runs_bound.update(&self.merging_iter, Direction::Forward);
                            }
                            return;
                        }
                        ValueType::Deletion => {
                            // Everything older of this key is hidden.
                            skipping = true;
                            self.saved_key.clear();
                            self.saved_key.extend_from_slice(user_key);
                        }
                    }
                }
                Ok(_) => {}
                Err(flaw) => self.record_error(flaw),
            }
            self.skipped_entries += usize::from(self.merging_iter.is_in_newest_memtable());
            self.merging_iter.next();
        }
    }

    /// Backward to the next key to show, into `key` and `value`.
    fn find_prev_user_entry(&mut self) {
        self.scan_backward();
        self.report_skipped();
    }

    fn scan_backward(&mut self) {
        self.valid = false;
        self.other_runs_bound.direction = None;
        let mut shown = false;
        while let Some((merge_key, value)) = self.merging_iter.entry() {
            self.sampler.record_read(merge_key, value);
            match key::parse(merge_key) {
                Ok(ParsedInternalKey { user_key, sequence, value_type: kind })
                    if sequence <= self.sequence =>
                {
                    if shown
                        && self.merging_iter.comparator.compare_user_keys(user_key, &self.saved_key).is_lt()
                    {
                        break;
                    }
                    if !shown
                        && self.bounds.lower.as_ref().is_some_and(|l| {
                            self.merging_iter.comparator.compare_user_keys(user_key, l).is_lt()
                        })
                    {
                        return;
                    }
                    shown = kind == ValueType::Value;
                    if shown {
                        self.saved_key.clear();
                        self.saved_key.extend_from_slice(user_key);
                        self.saved_value.clear();
                        self.saved_value.extend_from_slice(value);
                    }
                }
                Ok(_) => {}
                Err(flaw) => self.record_error(flaw),
            }
            self.skipped_entries += usize::from(self.merging_iter.is_in_newest_memtable());
            self.merging_iter.prev();
        }
        self.valid = shown;
    }

    #[inline]
    fn report_skipped(&mut self) {
        let passed = std::mem::take(&mut self.skipped_entries);
        if passed >= SKIPPED_REPORT_MIN {
            self.sampler.observer.iter().for_each(|owner| owner.record_skipped(passed));
        }
    }

    #[cold]
    fn record_error(&mut self, flaw: terrace_format::DecodeError) {
        let key = self.merging_iter.key().escape_ascii();
        let error = Error::corruption("database".as_ref(), None, format!("{flaw}, in the key '{key}'"));
        self.first_error.get_or_insert(error);
    }
}

/// True if the version with this number behind its key is one to show at `sequence`, if it is the newest one.
#[inline]
fn is_visible_put(number: u64, sequence: SequenceNumber) -> bool {
    number >> 8 <= sequence && number as u8 == ValueType::Value as u8
}

/// Tells the owner, if there is one, about an entry now and then.
struct ReadSampler {
    observer: Option<Arc<dyn IterObserver>>,
    /// Bytes to be read before the next sample.
    bytes_until_sample: usize,
}

impl ReadSampler {
    #[inline]
    fn record_read(&mut self, internal_key: &[u8], value: &[u8]) {
        match self.bytes_until_sample.checked_sub(internal_key.len() + value.len()) {
            Some(left) => self.bytes_until_sample = left,
            None => self.take_sample(internal_key),
        }
    }

    #[cold]
    fn take_sample(&mut self, internal_key: &[u8]) {
        if let Some(owner) = &self.observer {
            self.bytes_until_sample = owner.bytes_until_next_sample();
            owner.record_read_sample(internal_key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_upper_bounds() {
        assert_eq!(prefix_upper_bound(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(prefix_upper_bound(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(prefix_upper_bound(b"\xff\xff"), None);
        assert_eq!(prefix_upper_bound(b""), None);
    }
}
