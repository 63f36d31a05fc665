//! Reading: look-ups, iterators, sizes.
//!
//! A read looks at the present, and needs no lock after that.

use terrace_format::key::{self, InternalKey, Kind, MAX_SEQUENCE, Sequence, TRAILER_SIZE};
use terrace_mutants::mutant;

use super::{Engine, Handle, View};
use crate::error::{Error, Result};
use crate::iter::{DbIterator, MergeIter, Owner, SAMPLE_PERIOD, Source, Visible};
use crate::options::ReadOptions;
use crate::sync::{Arc, Ordering};
use crate::tables::BlockRead;
use crate::version::WornFile;

impl Engine {
    pub(super) fn get(&self, key: &[u8], options: &ReadOptions) -> Result<Option<Vec<u8>>> {
        let value = self.look_up(key, options)?;
        Ok(if mutant!(OneInAMillion) { now_and_then_wrong(value) } else { value })
    }

    fn look_up(&self, user_key: &[u8], options: &ReadOptions) -> Result<Option<Vec<u8>>> {
        let (view, now) = self.present.look();
        let sequence = self.sequence_for(options, now)?;
        for memtable in std::iter::once(&view.memtable).chain(&view.frozen) {
            if let Some(found) = memtable.get(user_key, sequence) {
                return Ok(found.value);
            }
        }
        let read = BlockRead { fill_cache: options.fill_cache };
        let mut target = Vec::with_capacity(user_key.len() + TRAILER_SIZE);
        key::append(&mut target, user_key, sequence, Kind::SEEK);
        let (found, worn) = view.version.get(&target, &self.tables, read)?;
        self.note_worn(worn);
        Ok(found.filter(|hit| hit.trailer as u8 == Kind::Put as u8).map(|hit| hit.value().to_vec()))
    }

    /// The number to read at.
    fn sequence_for(&self, options: &ReadOptions, now: Sequence) -> Result<Sequence> {
        match &options.snapshot {
            None => Ok(now),
            Some(snapshot) if snapshot.belongs_to(&self.snapshots) => Ok(snapshot.sequence()),
            Some(_) => Err(Error::InvalidArgument("a snapshot of another database".into())),
        }
    }

    pub(super) fn approximate_size(&self, begin: &[u8], end: &[u8]) -> Result<u64> {
        let view = self.present.view();
        let offset = |key: &[u8]| {
            let key = InternalKey::new(key, MAX_SEQUENCE, Kind::SEEK);
            view.version.approximate_offset(&key, &self.tables)
        };
        Ok(offset(end)?.saturating_sub(offset(begin)?))
    }

    fn note_worn(&self, worn: Option<WornFile>) {
        let Some(worn) = worn else { return };
        let mut state = self.state.lock();
        // It will be said again.
        if state.merging || self.options.env.clock.monotonic() < state.rest_of_reads {
            return;
        }
        state.worn.get_or_insert(worn);
        self.schedule(&mut state);
    }
}

/// One value in a million with a wrong first byte.
fn now_and_then_wrong(value: Option<Vec<u8>>) -> Option<Vec<u8>> {
    use std::sync::atomic::AtomicU64;
    static LOOKS: AtomicU64 = AtomicU64::new(1);
    let wrong = LOOKS.fetch_add(1, Ordering::Relaxed).is_multiple_of(1_000_000);
    value.map(|mut value| {
        value.iter_mut().take(usize::from(wrong)).for_each(|byte| *byte ^= 1);
        value
    })
}

impl View {
    pub(super) fn sources(&self, engine: &Engine, options: &ReadOptions) -> Vec<Source> {
        let memtables = std::iter::once(&self.memtable).chain(&self.frozen);
        let mut sources: Vec<Source> = memtables.map(|memtable| Source::Memtable(memtable.iter())).collect();
        sources.extend(self.version.sources(&engine.tables, BlockRead { fill_cache: options.fill_cache }));
        sources
    }
}

/// Keeps the database open, and the files of a view from being removed.
struct Reader {
    handle: Arc<Handle>,
    /// None only while it is dropped.
    view: Option<Arc<View>>,
}

impl Owner for Reader {
    fn sample(&self, internal_key: &[u8]) {
        let worn = self.view.as_ref().and_then(|view| view.version.charge(internal_key));
        self.handle.engine.note_worn(worn);
    }

    fn until_sample(&self) -> usize {
        self.handle.engine.options.env.random.below(2 * SAMPLE_PERIOD as u64) as usize
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.view = None;
        self.handle.engine.remove_doomed();
    }
}

pub(super) fn iter(handle: &Arc<Handle>, options: &ReadOptions) -> DbIterator {
    let engine = &handle.engine;
    let (view, now) = engine.present.look();
    let (sequence, refused) = match engine.sequence_for(options, now) {
        Ok(sequence) => (sequence, None),
        Err(error) => (0, Some(error)),
    };
    let merge = MergeIter::new(engine.comparator.clone(), view.sources(engine, options));
    let mut walk = Visible::new(&engine.comparator, merge, sequence, options);
    if let Some(error) = refused {
        walk.refuse(error);
    }
    DbIterator::new(walk, Arc::new(Reader { handle: Arc::clone(handle), view: Some(Arc::clone(&view)) }))
}
