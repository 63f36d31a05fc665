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

use terrace_env::fetch_ahead;
use terrace_format::comparator::{Bytewise, Comparator};
use terrace_format::key::{self, InternalComparator, Kind, ParsedKey, Sequence};
use terrace_sync::mutant;

use super::merge::{Direction, MergeIter};
use crate::error::{Error, Result};
use crate::options::ReadOptions;
use crate::sync::Arc;
use crate::walk::InternalIterator;

/// The database behind an iterator: lives as long as the iterator does.
pub(crate) trait Owner: Send + Sync {
    /// Told about one entry in roughly every mebibyte read.
    fn sample(&self, internal_key: &[u8]);

    /// The bytes to read until the next sample: any number, so that walks over the same entries again and again tell of
    /// others each time.
    fn until_sample(&self) -> usize;

    /// Told how many entries of the newest memtable one step passed over, if they were [`PASSED_MIN`] or more.
    fn passed_over(&self, entries: usize);
}

/// That a step passed over fewer entries is told nobody: it is not worth it.
const PASSED_MIN: usize = 64;

/// So far ahead a walk has a block fetched, in bytes, and so much at a step. Processors see by themselves where it goes, but only up
/// to the next page of 4 KiB, and of a block that is as long as that they learn anew. Back, it is more: a step decodes the entries from a
/// restart point on.
const AHEAD: usize = 640;
const BEFORE: usize = 2048;
const FETCHED: usize = 128;

/// Bytes read between two samples, on average.
pub(crate) const SAMPLE_PERIOD: usize = 1 << 20;

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
    walk: Visible,
    /// Declared last, so that it is dropped last: what the walk reads belongs to it.
    _owner: Option<Arc<dyn Owner>>,
}

impl DbIterator {
    pub(crate) fn new(mut walk: Visible, owner: Arc<dyn Owner>) -> DbIterator {
        walk.sampler = Sampler { left: owner.until_sample(), owner: Some(Arc::clone(&owner)) };
        DbIterator { walk, _owner: Some(owner) }
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
        self.walk.valid
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
        self.walk.seek_to_first();
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
        self.walk.seek_to_last();
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
        self.walk.seek(target);
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
        self.walk.next();
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
        self.walk.prev();
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
        self.walk.key()
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
        self.walk.value()
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
        self.walk.status()
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

    fn pull(iter: &mut Option<DbIterator>, step: fn(&mut DbIterator)) -> Option<Result<(Vec<u8>, Vec<u8>)>> {
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
        DbIterator::pull(&mut self.0, DbIterator::next)
    }
}

/// Entries in key order, backward.
#[derive(Debug)]
pub struct Backward(Option<DbIterator>);

impl Iterator for Backward {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        DbIterator::pull(&mut self.0, DbIterator::prev)
    }
}

/// Where the merge stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stand {
    /// At the version shown.
    At,
    /// Before all versions of the key shown, of which there are copies.
    Before,
}

/// The bounds of a walk: keys from `lower` up to, but without, `upper`.
#[derive(Default)]
struct Bounds {
    lower: Option<Vec<u8>>,
    upper: Option<Vec<u8>>,
}

impl Bounds {
    fn new(options: &ReadOptions, comparator: &dyn Comparator) -> Result<Bounds> {
        let mut bounds = Bounds { lower: options.lower_bound.clone(), upper: options.upper_bound.clone() };
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
        if let Some(end) = prefix_end(prefix)
            && bounds.upper.as_ref().is_none_or(|upper| *upper > end)
        {
            bounds.upper = Some(end);
        }
        Ok(bounds)
    }
}

/// The least key above every key that begins with `prefix`, if there is one.
fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != 0xff)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

/// What the other runs of a merge have next, in one direction: nothing up to a user key, which lies beyond the one shown.
#[derive(Default)]
struct Ahead {
    /// None if it is not known, or a version of the key shown.
    direction: Option<Direction>,
    /// False if the others have nothing more.
    is_any: bool,
    user_key: Vec<u8>,
}

impl Ahead {
    /// Learns it from a merge in the order of bytes that stands at what is shown, if it is so.
    #[inline]
    fn learn(&mut self, merge: &MergeIter, direction: Direction) -> bool {
        let shown = key::user_key(merge.key());
        let next = merge.runner_up().map(key::user_key);
        let is_so = merge.goes(direction)
            && (next.is_none_or(|next| is_before(direction, shown, next))
                || mutant!(NewerVersionInOtherRunMissed));
        self.direction = is_so.then_some(direction);
        if is_so {
            self.is_any = next.is_some();
            self.user_key.clear();
            self.user_key.extend_from_slice(next.unwrap_or_default());
        }
        is_so
    }

    /// True if `user_key` comes before all that the others have.
    #[inline]
    fn is_behind(&self, direction: Direction, user_key: &[u8]) -> bool {
        !self.is_any || is_before(direction, user_key, &self.user_key)
    }
}

#[inline]
fn is_before(direction: Direction, a: &[u8], b: &[u8]) -> bool {
    match direction {
        Direction::Forward => a < b,
        Direction::Backward => a > b,
    }
}

/// The walk of a [`DbIterator`].
pub(crate) struct Visible {
    merge: MergeIter,
    sequence: Sequence,
    bounds: Bounds,
    stand: Stand,
    valid: bool,
    /// Before: the key and value shown. At: scratch for the key whose versions are skipped.
    key: Vec<u8>,
    value: Vec<u8>,
    ahead: Ahead,
    damage: Option<Error>,
    /// True if the options made no sense: then nothing is ever shown.
    refused: bool,
    /// Entries of the newest memtable that the present step passed over.
    passed: usize,
    sampler: Sampler,
}

impl Visible {
    /// Over `merge`, at `sequence`.
    pub(crate) fn new(
        comparator: &InternalComparator,
        merge: MergeIter,
        sequence: Sequence,
        options: &ReadOptions,
    ) -> Visible {
        let bounds = Bounds::new(options, &**comparator.user());
        let mut walk = Visible {
            merge,
            sequence,
            bounds: Bounds::default(),
            stand: Stand::At,
            valid: false,
            key: Vec::new(),
            value: Vec::new(),
            ahead: Ahead::default(),
            damage: None,
            refused: false,
            passed: 0,
            sampler: Sampler { owner: None, left: SAMPLE_PERIOD },
        };
        match bounds {
            Ok(bounds) => walk.bounds = bounds,
            Err(error) => walk.refuse(error),
        }
        walk
    }

    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        match self.stand {
            _ if !self.valid => &[],
            Stand::At => key::user_key(self.merge.key()),
            Stand::Before => &self.key,
        }
    }

    #[inline]
    pub(crate) fn value(&self) -> &[u8] {
        match self.stand {
            _ if !self.valid => &[],
            Stand::At => self.merge.value(),
            Stand::Before => &self.value,
        }
    }

    pub(crate) fn status(&self) -> Result<()> {
        match &self.damage {
            Some(error) => Err(error.clone()),
            None => self.merge.status(),
        }
    }

    /// Shows nothing, ever, and gives `error` as its status.
    pub(crate) fn refuse(&mut self, error: Error) {
        self.refused = true;
        self.damage = Some(error);
    }

    /// Makes the walk invalid, and says whether it may go anywhere.
    fn usable(&mut self) -> bool {
        self.valid = false;
        !self.refused
    }

    pub(crate) fn seek_to_first(&mut self) {
        if !self.usable() {
            return;
        }
        self.stand = Stand::At;
        match self.bounds.lower.take() {
            Some(lower) => {
                self.seek_merge(&lower);
                self.bounds.lower = Some(lower);
            }
            None => self.merge.seek_to_first(),
        }
        self.pass_over_disorder();
        self.find_forward(false);
    }

    pub(crate) fn seek(&mut self, target: &[u8]) {
        if !self.usable() {
            return;
        }
        match &self.bounds.lower {
            Some(lower) if self.merge.comparator.compare_user_keys(target, lower).is_lt() => {
                return self.seek_to_first();
            }
            _ => {}
        }
        self.stand = Stand::At;
        self.seek_merge(target);
        self.pass_over_disorder();
        self.find_forward(false);
    }

    pub(crate) fn seek_to_last(&mut self) {
        if !self.usable() {
            return;
        }
        self.stand = Stand::Before;
        match self.bounds.upper.take() {
            Some(upper) => {
                // The newest conceivable version of the bound itself: everything before it is below the bound.
                self.seek_merge_at(&upper, key::MAX_SEQUENCE);
                self.bounds.upper = Some(upper);
                if self.merge.valid() { self.merge.prev() } else { self.merge.seek_to_last() }
            }
            None => self.merge.seek_to_last(),
        }
        self.find_backward();
    }

    /// Forward to the lower bound. A search in a damaged table may end before it, at keys that are in no order; a walk does
    /// not come back to any.
    fn pass_over_disorder(&mut self) {
        let Some(lower) = &self.bounds.lower else { return };
        while self.merge.valid()
            && self.merge.comparator.compare_user_keys(key::user_key(self.merge.key()), lower).is_lt()
        {
            self.merge.next();
        }
    }

    #[inline]
    pub(crate) fn next(&mut self) {
        if self.valid && !self.next_at_once() {
            self.next_the_long_way();
        }
    }

    #[inline]
    pub(crate) fn prev(&mut self) {
        if self.valid && !self.prev_at_once() {
            self.prev_the_long_way();
        }
    }

    /// To the next entry to show, if it is easily seen which it is. Else nothing has moved.
    #[inline]
    fn next_at_once(&mut self) -> bool {
        let is_alone = self.merge.is_alone();
        if self.stand != Stand::At
            || !self.merge.comparator.is_bytewise()
            || !is_alone && self.ahead.direction != Some(Direction::Forward)
        {
            return false;
        }
        let Some(block) = self.merge.block() else { return false };
        if !block.next_newest(|number| shows(number, self.sequence)) {
            return false;
        }
        block.ahead(AHEAD).into_iter().for_each(|byte| fetch_ahead(byte, FETCHED));
        let (key, value) = (block.key(), block.value());
        let user_key = key::user_key(key);
        if !is_alone && !self.ahead.is_behind(Direction::Forward, user_key) {
            // No run has more of the key that is left.
            self.merge.moved();
            self.find_forward(false);
            return true;
        }
        self.sampler.count(key, value);
        self.valid = self.bounds.upper.as_ref().is_none_or(|upper| user_key < &upper[..]);
        true
    }

    /// As [`Visible::next_at_once`], to the entry before.
    #[inline]
    fn prev_at_once(&mut self) -> bool {
        if !self.merge.comparator.is_bytewise() {
            return false;
        }
        let is_alone = self.merge.is_alone();
        let shown = |number| shows(number, self.sequence);
        let is_there = match self.stand {
            Stand::At if is_alone || self.ahead.direction == Some(Direction::Backward) => {
                self.merge.block().is_some_and(|block| block.prev_newest(shown))
            }
            Stand::At => false,
            Stand::Before => {
                self.merge.block().is_some_and(|block| block.is_newest(shown))
                    && (is_alone || self.ahead.learn(&self.merge, Direction::Backward))
            }
        };
        if !is_there {
            return false;
        }
        let block = self.merge.block();
        let byte = block.and_then(|block| block.before(BEFORE));
        byte.into_iter().for_each(|byte| fetch_ahead(byte, FETCHED));
        let Some((key, value)) = self.merge.entry() else { return false };
        let user_key = key::user_key(key);
        if !is_alone && !self.ahead.is_behind(Direction::Backward, user_key) {
            self.merge.moved();
            self.stand = Stand::Before;
            self.find_backward();
            return true;
        }
        self.stand = Stand::At;
        self.sampler.count(key, value);
        self.valid = self.bounds.lower.as_ref().is_none_or(|lower| user_key >= &lower[..]);
        true
    }

    fn next_the_long_way(&mut self) {
        match self.stand {
            Stand::At => {
                self.key.clear();
                self.key.extend_from_slice(key::user_key(self.merge.key()));
                self.merge.next();
            }
            Stand::Before => {
                self.stand = Stand::At;
                // `key` already says which versions to skip.
                if self.merge.valid() { self.merge.next() } else { self.merge.seek_to_first() }
            }
        }
        self.find_forward(true);
    }

    fn prev_the_long_way(&mut self) {
        if self.stand == Stand::At {
            self.key.clear();
            self.key.extend_from_slice(key::user_key(self.merge.key()));
            while self.merge.valid()
                && !self
                    .merge
                    .comparator
                    .compare_user_keys(key::user_key(self.merge.key()), &self.key)
                    .is_lt()
            {
                self.merge.prev();
            }
            self.stand = Stand::Before;
        }
        self.find_backward();
    }

    fn seek_merge(&mut self, user_key: &[u8]) {
        self.seek_merge_at(user_key, self.sequence);
    }

    fn seek_merge_at(&mut self, user_key: &[u8], sequence: Sequence) {
        key::with_seek_key(user_key, sequence, |target| self.merge.seek(target));
    }

    /// Forward to the first version to show; `skipping` leaves out versions of `self.key` and before.
    fn find_forward(&mut self, skipping: bool) {
        self.go_forward(skipping);
        self.tell_passed();
    }

    fn go_forward(&mut self, mut skipping: bool) {
        self.valid = false;
        self.ahead.direction = None;
        while let Some((merge_key, value)) = self.merge.entry() {
            self.sampler.count(merge_key, value);
            if let Some(upper) = &self.bounds.upper
                && self.merge.comparator.compare_user_keys(key::user_key(merge_key), upper).is_ge()
            {
                return;
            }
            match key::parse(merge_key) {
                Ok(ParsedKey { user_key, sequence, kind }) if sequence <= self.sequence => {
                    let hidden =
                        skipping && self.merge.comparator.compare_user_keys(user_key, &self.key).is_le();
                    match kind {
                        _ if hidden => {}
                        Kind::Put => {
                            self.valid = true;
                            if self.merge.is_among_tables() {
                                self.ahead.learn(&self.merge, Direction::Forward);
                            }
                            return;
                        }
                        Kind::Delete => {
                            // Everything older of this key is hidden.
                            skipping = true;
                            self.key.clear();
                            self.key.extend_from_slice(user_key);
                        }
                    }
                }
                Ok(_) => {}
                Err(flaw) => self.note(flaw),
            }
            self.passed += usize::from(self.merge.is_in_memtable());
            self.merge.next();
        }
    }

    /// Backward to the next key to show, into `key` and `value`.
    fn find_backward(&mut self) {
        self.go_backward();
        self.tell_passed();
    }

    fn go_backward(&mut self) {
        self.valid = false;
        self.ahead.direction = None;
        let mut shown = false;
        while let Some((merge_key, value)) = self.merge.entry() {
            self.sampler.count(merge_key, value);
            match key::parse(merge_key) {
                Ok(ParsedKey { user_key, sequence, kind }) if sequence <= self.sequence => {
                    if shown && self.merge.comparator.compare_user_keys(user_key, &self.key).is_lt() {
                        break;
                    }
                    if !shown
                        && self
                            .bounds
                            .lower
                            .as_ref()
                            .is_some_and(|l| self.merge.comparator.compare_user_keys(user_key, l).is_lt())
                    {
                        return;
                    }
                    shown = kind == Kind::Put;
                    if shown {
                        self.key.clear();
                        self.key.extend_from_slice(user_key);
                        self.value.clear();
                        self.value.extend_from_slice(value);
                    }
                }
                Ok(_) => {}
                Err(flaw) => self.note(flaw),
            }
            self.passed += usize::from(self.merge.is_in_memtable());
            self.merge.prev();
        }
        self.valid = shown;
    }

    #[inline]
    fn tell_passed(&mut self) {
        let passed = std::mem::take(&mut self.passed);
        if passed >= PASSED_MIN {
            self.sampler.owner.iter().for_each(|owner| owner.passed_over(passed));
        }
    }

    #[cold]
    fn note(&mut self, flaw: terrace_format::Flaw) {
        let key = self.merge.key().escape_ascii();
        let error = Error::corruption("database".as_ref(), None, format!("{flaw}, in the key '{key}'"));
        self.damage.get_or_insert(error);
    }
}

/// True if the version with this number behind its key is one to show at `sequence`, if it is the newest one.
#[inline]
fn shows(number: u64, sequence: Sequence) -> bool {
    number >> 8 <= sequence && number as u8 == Kind::Put as u8
}

/// Tells the owner, if there is one, about an entry now and then.
struct Sampler {
    owner: Option<Arc<dyn Owner>>,
    /// Bytes to be read before the next sample.
    left: usize,
}

impl Sampler {
    #[inline]
    fn count(&mut self, internal_key: &[u8], value: &[u8]) {
        match self.left.checked_sub(internal_key.len() + value.len()) {
            Some(left) => self.left = left,
            None => self.sample(internal_key),
        }
    }

    #[cold]
    fn sample(&mut self, internal_key: &[u8]) {
        if let Some(owner) = &self.owner {
            self.left = owner.until_sample();
            owner.sample(internal_key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_prefix() {
        assert_eq!(prefix_end(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(prefix_end(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(prefix_end(b"\xff\xff"), None);
        assert_eq!(prefix_end(b""), None);
    }
}
