//! DB iterator: shows, of each user key, the newest version that its snapshot sees, unless that
//! version is a tombstone.
//!
//! ```text
//!   merging iterator:    a@9 put | a@4 put | b@7 tombstone | b@2 put | c@3 put
//!   shown at snapshot 8: a (of 4)                                      c (of 3)
//! ```
//!
//! Forward, the merging iterator is *at* the shown version. Backward, the newest version of a key
//! comes last, so the merging iterator is *before* the versions of the shown key, and the DB
//! iterator keeps copies of key and value.
//!
//! After compactions, a database is one sorted run, and nearly every key has one version. The fast
//! path serves this case. Within a block, the shared prefix of two neighbours proves that they are
//! versions of different keys. So a step compares and copies nothing, and a backward step also
//! leaves the merging iterator at the shown version. If the shared prefix proves nothing, the fast
//! path changes nothing, and the step takes the slow path.
//!
//! A key with many versions would need as many steps. After a few hidden versions, each run seeks
//! beyond them ([`HiddenVersions`]). A memtable links the versions of a key, so its cursor moves
//! from key to key at once.
//!
//! With several runs, the current run takes the fast path up to the next key of the other runs
//! ([`OtherRunsBound`]), which is known to differ from the current key.

use std::cmp::Ordering;

use terrace_format::DecodeError;
use terrace_format::key::{self, InternalComparator, ParsedInternalKey, SequenceNumber, ValueType};

use super::bounds::{IterBounds, OtherRunsBound};
use super::hidden_versions::HiddenVersions;
use super::merging_iter::{Direction, MergingIter};
use super::prefetch::{prefetch_backward, prefetch_forward};
use super::read_sample::ReadSampler;
use crate::error::{Error, Result};
use crate::file_io::extend_copy;
use crate::internal_iterator::InternalIterator;
use crate::options::ReadOptions;

/// Position of the merging iterator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    /// At the shown version.
    AtEntry,
    /// Before all versions of the shown key, which is in `saved_key` and `saved_value`.
    BeforeEntry,
}

/// Iterator over the user entries that are visible at one sequence number.
///
/// It implements [`InternalIterator`], but its keys are user keys, and all methods may be called
/// on an invalid iterator.
pub(crate) struct DbIter {
    merging_iter: MergingIter,
    /// Sequence number of the snapshot.
    sequence: SequenceNumber,
    bounds: IterBounds,
    position: Position,
    valid: bool,
    /// Shown key in [`Position::BeforeEntry`]. In [`Position::AtEntry`], a buffer for the key whose
    /// versions the iterator skips.
    saved_key: Vec<u8>,
    /// Shown value in [`Position::BeforeEntry`].
    saved_value: Vec<u8>,
    other_runs_bound: OtherRunsBound,
    /// Hidden versions of `saved_key` in the current step.
    hidden_versions: HiddenVersions,
    first_error: Option<Error>,
    /// True if the read options are invalid. Such an iterator shows no entry.
    has_invalid_options: bool,
    /// Number of entries of the newest memtable that the current step skipped.
    skipped_entries: usize,
    /// Reporter of read samples. [`super::DbIterator`] sets it.
    pub(super) sampler: ReadSampler,
}

impl DbIter {
    /// Creates an iterator over the entries of `merging_iter` that are visible at `sequence`.
    pub(crate) fn new(
        comparator: &InternalComparator,
        merging_iter: MergingIter,
        sequence: SequenceNumber,
        options: &ReadOptions,
    ) -> DbIter {
        let mut iter = DbIter {
            merging_iter,
            sequence,
            bounds: IterBounds::default(),
            position: Position::AtEntry,
            valid: false,
            saved_key: Vec::new(),
            saved_value: Vec::new(),
            other_runs_bound: OtherRunsBound::default(),
            hidden_versions: HiddenVersions::default(),
            first_error: None,
            has_invalid_options: false,
            skipped_entries: 0,
            sampler: ReadSampler::disabled(),
        };
        match IterBounds::new(options, &**comparator.user_comparator()) {
            Ok(bounds) => iter.bounds = bounds,
            Err(error) => iter.set_permanent_error(error),
        }
        iter
    }

    /// Makes the iterator invalid for ever, with `error` as its status.
    pub(crate) fn set_permanent_error(&mut self, error: Error) {
        self.has_invalid_options = true;
        self.valid = false;
        self.first_error = Some(error);
    }

    /// Forgets the errors, and makes the iterator invalid. Returns false, and changes nothing, if
    /// its error is permanent.
    pub(crate) fn forget_errors(&mut self) -> bool {
        if self.has_invalid_options {
            return false;
        }
        self.valid = false;
        self.first_error = None;
        self.merging_iter.forget_errors();
        true
    }

    /// Makes the iterator invalid. Returns true if it may move.
    fn reset(&mut self) -> bool {
        self.valid = false;
        !self.has_invalid_options
    }

    /// Moves the merging iterator forward to the lower bound.
    ///
    /// A seek in a damaged table may end before its target, at keys in no order.
    fn skip_below_lower_bound(&mut self) {
        let Some(lower) = &self.bounds.lower else { return };
        while self.merging_iter.valid() && self.merging_iter.compare_user_key(lower).is_lt() {
            self.merging_iter.next();
        }
    }

    /// Moves to the next shown entry if the current block proves which one it is. Otherwise changes
    /// nothing and returns false.
    #[inline]
    fn next_fast(&mut self) -> bool {
        let is_single_run = self.merging_iter.has_single_child();
        if self.position != Position::AtEntry
            || !self.merging_iter.comparator.is_bytewise()
            || !is_single_run && self.other_runs_bound.direction != Some(Direction::Forward)
        {
            return false;
        }
        let Some(block) = self.merging_iter.block_iter() else { return false };
        if !block.next_visible_fast(|trailer| is_visible_put(trailer, self.sequence)) {
            return false;
        }
        prefetch_forward(block);
        let key = block.key();
        let user_key = key::user_key(key);
        if !is_single_run && !self.other_runs_bound.allows(Direction::Forward, user_key) {
            // No run has another version of the key before, so there is nothing to skip.
            self.merging_iter.on_current_moved();
            self.find_next_user_entry(false);
            return true;
        }
        self.sampler.record_read(key, block.value_range().len());
        self.valid = self.bounds.upper.as_ref().is_none_or(|upper| user_key < &upper[..]);
        true
    }

    /// Moves to the shown entry before if the current block proves which one it is. Otherwise
    /// changes nothing and returns false.
    #[inline]
    fn prev_fast(&mut self) -> bool {
        let is_single_run = self.merging_iter.has_single_child();
        if !self.merging_iter.comparator.is_bytewise() || !self.step_back_in_block(is_single_run) {
            return false;
        }
        let Some(block) = self.merging_iter.block_iter() else { return false };
        prefetch_backward(block);
        let key = block.key();
        let user_key = key::user_key(key);
        if !is_single_run && !self.other_runs_bound.allows(Direction::Backward, user_key) {
            self.merging_iter.on_current_moved();
            self.position = Position::BeforeEntry;
            self.find_prev_user_entry();
            return true;
        }
        self.position = Position::AtEntry;
        self.sampler.record_read(key, block.value_range().len());
        self.valid = self.bounds.lower.as_ref().is_none_or(|lower| user_key >= &lower[..]);
        true
    }

    /// Moves the block iterator of the current run to the newest version of the user key before.
    /// Returns false if it does not prove that this version is visible and the newest of all runs.
    #[inline]
    fn step_back_in_block(&mut self, is_single_run: bool) -> bool {
        let is_visible = |trailer| is_visible_put(trailer, self.sequence);
        match self.position {
            Position::AtEntry => {
                (is_single_run || self.other_runs_bound.direction == Some(Direction::Backward))
                    && self.merging_iter.block_iter().is_some_and(|block| block.prev_visible_fast(is_visible))
            }
            // The block iterator is at this version already.
            Position::BeforeEntry => {
                self.merging_iter.block_iter().is_some_and(|block| block.is_newest_visible(is_visible))
                    && (is_single_run
                        || self.other_runs_bound.update(&self.merging_iter, Direction::Backward))
            }
        }
    }

    fn next_slow(&mut self) {
        match self.position {
            Position::AtEntry => {
                self.save_current_key();
                if self.merging_iter.is_in_memtable() {
                    self.merging_iter.skip_user_key(&self.saved_key);
                } else {
                    self.merging_iter.next();
                }
            }
            // `saved_key` is the key whose versions must be skipped.
            Position::BeforeEntry => {
                self.position = Position::AtEntry;
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
            self.save_current_key();
            while self.merging_iter.valid() && !self.merging_iter.compare_user_key(&self.saved_key).is_lt() {
                self.merging_iter.prev_user_key_of_memtable();
            }
            self.position = Position::BeforeEntry;
        }
        self.find_prev_user_entry();
    }

    /// Copies the user key of the merging iterator to `saved_key`.
    fn save_current_key(&mut self) {
        self.saved_key.clear();
        self.saved_key.extend_from_slice(key::user_key(self.merging_iter.key()));
    }

    /// Moves the merging iterator to the first version of `user_key` or a later key that is not
    /// newer than `sequence`.
    fn seek_internal(&mut self, user_key: &[u8], sequence: SequenceNumber) {
        key::with_seek_key(user_key, sequence, |target| self.merging_iter.seek(target));
    }

    /// Moves forward to the first version to show. If `skipping`, skips versions of `saved_key`
    /// and of keys before it.
    fn find_next_user_entry(&mut self, skipping: bool) {
        self.scan_forward(skipping);
        self.report_skipped();
    }

    fn scan_forward(&mut self, mut skipping: bool) {
        self.valid = false;
        self.other_runs_bound.direction = None;
        self.hidden_versions = HiddenVersions::default();
        while let Some((internal_key, value)) = self.merging_iter.entry() {
            self.sampler.record_read(internal_key, value.len());
            if let Some(upper) = &self.bounds.upper
                && self.merging_iter.comparator.compare_user_keys(key::user_key(internal_key), upper).is_ge()
            {
                return;
            }
            let is_in_memtable = self.merging_iter.is_in_memtable();
            // True if the current run has no other entry to show for the user key, `saved_key`.
            let mut skips_user_key = false;
            match key::parse(internal_key) {
                Ok(ParsedInternalKey { user_key, sequence, value_type }) if sequence <= self.sequence => {
                    let order = skipping
                        .then(|| self.merging_iter.comparator.compare_user_keys(user_key, &self.saved_key));
                    match value_type {
                        _ if order == Some(Ordering::Equal) => {
                            skips_user_key = is_in_memtable
                                || self.hidden_versions.should_reseek(self.merging_iter.current_run());
                        }
                        _ if order == Some(Ordering::Less) => {}
                        ValueType::Value => return self.show_current_forward(),
                        ValueType::Deletion => {
                            // The tombstone hides all older versions of its key.
                            skipping = true;
                            self.saved_key.clear();
                            self.saved_key.extend_from_slice(user_key);
                            self.hidden_versions = HiddenVersions::default();
                            skips_user_key = is_in_memtable;
                        }
                    }
                }
                Ok(_) if is_in_memtable => {
                    self.merging_iter.skip_newer_versions(self.sequence);
                    continue;
                }
                Ok(_) => {}
                Err(error) => self.record_error(error),
            }
            self.skipped_entries += usize::from(self.merging_iter.is_in_newest_memtable());
            if skips_user_key {
                self.merging_iter.skip_user_key(&self.saved_key);
            } else {
                self.merging_iter.next();
            }
        }
    }

    /// Shows the entry of the merging iterator, which moves forward.
    #[inline]
    fn show_current_forward(&mut self) {
        self.valid = true;
        if self.merging_iter.can_bound_other_runs() {
            self.other_runs_bound.update(&self.merging_iter, Direction::Forward);
        }
    }

    /// Moves backward to the next key to show and copies its newest visible version to `saved_key`
    /// and `saved_value`.
    fn find_prev_user_entry(&mut self) {
        self.scan_backward();
        self.report_skipped();
    }

    fn scan_backward(&mut self) {
        self.valid = false;
        self.other_runs_bound.direction = None;
        self.hidden_versions = HiddenVersions::default();
        // True if `saved_key` is the key of the last visible version.
        let mut has_saved_key = false;
        let mut has_saved_entry = false;
        while let Some((internal_key, value)) = self.merging_iter.entry() {
            self.sampler.record_read(internal_key, value.len());
            match key::parse(internal_key) {
                Ok(ParsedInternalKey { user_key, sequence, value_type }) if sequence <= self.sequence => {
                    let comparator = &self.merging_iter.comparator;
                    let order =
                        has_saved_key.then(|| comparator.compare_user_keys(user_key, &self.saved_key));
                    if order.is_none_or(Ordering::is_lt) {
                        if has_saved_entry {
                            break;
                        }
                        if let Some(lower) = &self.bounds.lower
                            && comparator.compare_user_keys(user_key, lower).is_lt()
                        {
                            return;
                        }
                        self.hidden_versions = HiddenVersions::default();
                    }
                    if order != Some(Ordering::Equal) {
                        self.save_current_key();
                        has_saved_key = true;
                    } else if self.hidden_versions.should_reseek(self.merging_iter.current_run()) {
                        self.merging_iter.seek_newest_version(&self.saved_key, self.sequence);
                        continue;
                    }
                    if self.merging_iter.skip_to_newest_in_memtable(self.sequence) {
                        continue;
                    }
                    has_saved_entry = value_type == ValueType::Value;
                    if has_saved_entry {
                        if order == Some(Ordering::Equal) {
                            // Equal keys may have different bytes. The newest version gives them.
                            self.save_current_key();
                        }
                        self.saved_value.clear();
                        let value = self.merging_iter.value();
                        if let Err(error) = extend_copy(&mut self.saved_value, value, "database".as_ref()) {
                            self.first_error.get_or_insert(error);
                            return;
                        }
                    }
                }
                Ok(_) => {}
                Err(error) => self.record_error(error),
            }
            self.skipped_entries += usize::from(self.merging_iter.is_in_newest_memtable());
            // In a memtable, the entry was the newest visible version, or a newer one.
            self.merging_iter.prev_user_key_of_memtable();
        }
        self.valid = has_saved_entry;
    }

    #[inline]
    fn report_skipped(&mut self) {
        self.sampler.record_skipped(std::mem::take(&mut self.skipped_entries));
    }

    #[inline]
    fn report_seek(&self) {
        if self.valid && !self.merging_iter.has_single_child() {
            self.sampler.record_merged_seek(self.key());
        }
    }

    #[cold]
    fn record_error(&mut self, error: DecodeError) {
        let key = self.merging_iter.key().escape_ascii();
        let error = Error::corruption("database".as_ref(), None, format!("internal key '{key}': {error}"));
        self.first_error.get_or_insert(error);
    }
}

impl InternalIterator for DbIter {
    type Error = Error;

    #[inline]
    fn valid(&self) -> bool {
        self.valid
    }

    fn seek_to_first(&mut self) {
        if !self.reset() {
            return;
        }
        self.position = Position::AtEntry;
        match self.bounds.lower.take() {
            Some(lower) => {
                self.seek_internal(&lower, self.sequence);
                self.bounds.lower = Some(lower);
            }
            None => self.merging_iter.seek_to_first(),
        }
        self.skip_below_lower_bound();
        self.find_next_user_entry(false);
        self.report_seek();
    }

    fn seek_to_last(&mut self) {
        if !self.reset() {
            return;
        }
        self.position = Position::BeforeEntry;
        match self.bounds.upper.take() {
            Some(upper) => {
                // The newest possible version of the bound: every entry before it is below the
                // bound.
                self.seek_internal(&upper, key::MAX_SEQUENCE_NUMBER);
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
        self.report_seek();
    }

    fn seek(&mut self, target: &[u8]) {
        if !self.reset() {
            return;
        }
        if let Some(lower) = &self.bounds.lower
            && self.merging_iter.comparator.compare_user_keys(target, lower).is_lt()
        {
            return self.seek_to_first();
        }
        self.position = Position::AtEntry;
        self.seek_internal(target, self.sequence);
        self.skip_below_lower_bound();
        self.find_next_user_entry(false);
        self.report_seek();
    }

    #[inline]
    fn next(&mut self) {
        if self.valid && !self.next_fast() {
            self.next_slow();
        }
    }

    #[inline]
    fn prev(&mut self) {
        if self.valid && !self.prev_fast() {
            self.prev_slow();
        }
    }

    #[inline]
    fn key(&self) -> &[u8] {
        match self.position {
            _ if !self.valid => &[],
            Position::AtEntry => key::user_key(self.merging_iter.key()),
            Position::BeforeEntry => &self.saved_key,
        }
    }

    #[inline]
    fn value(&self) -> &[u8] {
        match self.position {
            _ if !self.valid => &[],
            Position::AtEntry => self.merging_iter.value(),
            Position::BeforeEntry => &self.saved_value,
        }
    }

    fn status(&self) -> Result<()> {
        match &self.first_error {
            Some(error) => Err(error.clone()),
            None => self.merging_iter.status(),
        }
    }
}

/// Returns true if a version with this `trailer` is a put that is visible at `sequence`.
#[inline]
fn is_visible_put(trailer: u64, sequence: SequenceNumber) -> bool {
    trailer >> 8 <= sequence && trailer as u8 == ValueType::Value as u8
}
