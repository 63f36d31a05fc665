//! All of one table, from the first block to the footer.
//!
//! ```text
//!   footer ──> metaindex ──> each named block          checksum
//!     |                          | filter
//!     '──> index ──> each data block ──> each entry    checksum, order, between the separators, let in by the filter
//! ```
//!
//! Damage is reported and passed over: what stands behind it is still read. An error of a read is no damage, and ends
//! the walk. Holds one block at a time.

use std::path::Path;

use terrace_env::RandomAccessFile;
use terrace_format::block::{Block, BlockIter};
use terrace_format::comparator::{Comparator, bytewise};
use terrace_format::compress::CODECS;
use terrace_format::filter::FilterPolicy;
use terrace_format::filter_block::FilterBlock;
use terrace_format::key::{self, InternalComparator};
use terrace_format::table::{BlockHandle, FOOTER_SIZE, TRAILER_SIZE};

use crate::error::{Corruption, Error, Result};
use crate::sync::Arc;
use crate::tables::{fetch, fetch_bytes, read_exact, read_footer};

/// What a walk meets.
pub(crate) enum Met<'a> {
    /// A well-formed entry of a block whose checksum is right.
    Entry { key: &'a [u8], value: &'a [u8] },
    /// The end of a data block of so many bytes; whether stock LevelDB can read it.
    Block { bytes: u64, portable: bool },
    /// Something is wrong.
    Damage { kind: Harm, found: Corruption },
}

/// What damage costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Harm {
    /// The entries of a block can't be read.
    Lost,
    /// Nothing says where the blocks are; they may be there all the same.
    Unindexed,
    /// Every entry is there, but look-ups may miss it.
    Hidden,
    /// Entries are there in another order than the comparator's.
    Disorder,
}

/// A table to walk over.
pub(crate) struct TableWalk<'a> {
    pub(crate) file: &'a dyn RandomAccessFile,
    pub(crate) path: &'a Path,
    pub(crate) order: &'a InternalComparator,
    /// Over internal keys.
    pub(crate) filter: Option<Arc<dyn FilterPolicy>>,
}

type Meet<'a> = &'a mut dyn FnMut(Met<'_>) -> Result<()>;

impl TableWalk<'_> {
    /// Walks over the whole table. If the index does not lead to all of it, returns the place in the file from which
    /// on nobody knows where the blocks are.
    pub(crate) fn run(&self, meet: Meet<'_>) -> Result<Option<u64>> {
        let footer = match damage(read_footer(self.file, self.path))? {
            Ok(footer) => footer,
            Err(found) => return report(meet, Harm::Unindexed, found).map(|()| Some(0)),
        };
        let filter = self.named_blocks(footer.metaindex, meet)?;
        match damage(fetch(self.file, self.path, footer.index))? {
            Ok(index) => self.data_blocks(index, filter.as_ref(), meet),
            Err(found) => {
                let found = Corruption { what: format!("index: {}", found.what), ..found };
                report(meet, Harm::Unindexed, found).map(|()| Some(0))
            }
        }
    }

    /// Checks the metaindex and the blocks it names, and returns the filter of our policy.
    fn named_blocks(&self, metaindex: BlockHandle, meet: Meet<'_>) -> Result<Option<FilterBlock>> {
        let block = match damage(fetch(self.file, self.path, metaindex))? {
            Ok(block) => Arc::new(block),
            Err(found) => return hidden(meet, found, "metaindex").map(|()| None),
        };
        let mut entries = BlockIter::new(block, bytewise());
        let mut ours = None;
        entries.seek_to_first();
        while entries.valid() {
            let name = entries.key().escape_ascii().to_string();
            let contents = match BlockHandle::decode(entries.value()) {
                Ok((handle, _)) => fetch_bytes(self.file, self.path, handle),
                Err(flaw) => Err(Error::corruption(self.path, Some(metaindex.offset), flaw.to_string())),
            };
            match damage(contents)? {
                Ok(contents) => ours = self.as_filter(&name, contents).or(ours),
                Err(found) => hidden(meet, found, &format!("block '{name}'"))?,
            }
            entries.next();
        }
        match entries.flaw() {
            Some(flaw) => {
                let found = self.corruption(metaindex.offset, flaw.to_string());
                hidden(meet, found, "metaindex").map(|()| ours)
            }
            None => Ok(ours),
        }
    }

    fn as_filter(&self, name: &str, contents: Vec<u8>) -> Option<FilterBlock> {
        let policy = self.filter.as_ref().filter(|policy| name == format!("filter.{}", policy.name()))?;
        Some(FilterBlock::new(Arc::clone(policy), contents))
    }

    fn data_blocks(&self, index: Block, filter: Option<&FilterBlock>, meet: Meet<'_>) -> Result<Option<u64>> {
        if let Err(flaw) = index.check_searches() {
            hidden(meet, self.corruption(0, flaw.to_string()), "index")?;
        }
        let mut index = BlockIter::new(Arc::new(index), self.order);
        let mut blocks =
            Blocks { walk: self, filter, last: Vec::new(), separator: Vec::new(), exact: false, end: 0 };
        index.seek_to_first();
        while index.valid() {
            match BlockHandle::decode(index.value()) {
                Ok((handle, _)) => blocks.read(handle, index.key(), meet)?,
                Err(flaw) => lost(meet, self.corruption(blocks.end, format!("index entry: {flaw}")))?,
            }
            index.next();
        }
        let Some(flaw) = index.flaw() else { return Ok(None) };
        let found = self.corruption(blocks.end, format!("index entry: {flaw}"));
        report(meet, Harm::Unindexed, found)?;
        Ok(Some(blocks.end))
    }

    fn corruption(&self, at: u64, what: String) -> Corruption {
        Corruption { path: self.path.to_path_buf(), at: Some(at), what }
    }
}

/// The data blocks, in the order of the index.
struct Blocks<'a> {
    walk: &'a TableWalk<'a>,
    filter: Option<&'a FilterBlock>,
    /// The greatest key so far.
    last: Vec<u8>,
    /// The index's key of the block before: where a look-up of keys up to it goes.
    separator: Vec<u8>,
    /// It is that block's last key. Else no version of its user key may stand behind it.
    exact: bool,
    /// Where the block before ends.
    end: u64,
}

impl Blocks<'_> {
    fn read(&mut self, handle: BlockHandle, separator: &[u8], meet: Meet<'_>) -> Result<()> {
        let TableWalk { file, path, .. } = *self.walk;
        if let Err(flaw) = handle.check(file.len().saturating_sub(FOOTER_SIZE as u64)) {
            return lost(meet, self.walk.corruption(handle.offset, flaw.to_string()));
        }
        if handle.offset < self.end {
            // So that no index, however hostile, makes us read more than the file.
            let what = format!("a block at {}, expected none before {}", handle.offset, self.end);
            return lost(meet, self.walk.corruption(handle.offset, what));
        }
        self.end = handle.offset + handle.size + TRAILER_SIZE as u64;
        match damage(fetch(file, path, handle))? {
            Ok(block) => self.entries(block, handle, separator, meet)?,
            Err(found) => lost(meet, found)?,
        }
        self.separator.clear();
        self.separator.extend_from_slice(separator);
        self.exact = self.last == separator;
        let mut codec = [0];
        read_exact(file, path, handle.offset + handle.size, &mut codec)?;
        let portable = CODECS.iter().all(|known| known.id != codec[0] || known.portable);
        meet(Met::Block { bytes: handle.size + TRAILER_SIZE as u64, portable })
    }

    fn entries(&mut self, block: Block, at: BlockHandle, separator: &[u8], meet: Meet<'_>) -> Result<()> {
        let order = self.walk.order;
        let unfound = block.check_searches().err().map(|flaw| flaw.to_string());
        let mut entries = BlockIter::new(Arc::new(block), order);
        // One report of a kind for a block is enough.
        let (mut disorder, mut above, mut below, mut denied) = (None, None, None, None);
        entries.seek_to_first();
        while entries.valid() {
            let key = entries.key();
            if let Err(flaw) = key::parse(key) {
                lost(meet, self.walk.corruption(at.offset, format!("{} in {}", flaw, shown(key))))?;
                entries.next();
                continue;
            }
            meet(Met::Entry { key, value: entries.value() })?;
            if !self.last.is_empty() && order.compare(&self.last, key).is_ge() {
                disorder.get_or_insert_with(|| format!("{} behind {}", shown(key), shown(&self.last)));
            } else {
                self.last.clear();
                self.last.extend_from_slice(key);
            }
            if order.compare(key, separator).is_gt() {
                let what =
                    || format!("{} in a block that the index says ends by {}", shown(key), shown(separator));
                above.get_or_insert_with(what);
            }
            if self.is_below_separator(key) {
                let before = shown(&self.separator);
                below.get_or_insert_with(|| {
                    format!("{} behind a block that the index says ends by {before}", shown(key))
                });
            }
            if self.filter.is_some_and(|filter| !filter.may_match(at.offset, key)) {
                denied.get_or_insert_with(|| format!("{}, which the filter denies", shown(key)));
            }
            entries.next();
        }
        let flaw = entries.flaw().map(|flaw| format!("entry at {} of the block: {flaw}", flaw.at));
        let harms = [
            (Harm::Lost, flaw),
            (Harm::Disorder, disorder),
            (Harm::Hidden, unfound),
            (Harm::Hidden, above),
            (Harm::Hidden, below),
            (Harm::Hidden, denied),
        ];
        for (kind, what) in harms {
            if let Some(what) = what {
                report(meet, kind, self.walk.corruption(at.offset, what))?;
            }
        }
        Ok(())
    }
}

impl Blocks<'_> {
    /// True if a look-up of `key` goes to a block before this one, and finds nothing there.
    fn is_below_separator(&self, key: &[u8]) -> bool {
        let order = self.walk.order;
        let same = || order.user().compare(key::user_key(key), key::user_key(&self.separator)).is_eq();
        !self.separator.is_empty() && (order.compare(key, &self.separator).is_le() || !self.exact && same())
    }
}

/// An internal key for people.
fn shown(key: &[u8]) -> String {
    format!("the key '{}' of write {}", key::user_key(key).escape_ascii(), key::trailer(key) >> 8)
}

/// Tells damage, which is met and passed over, from errors, which are not.
fn damage<T>(result: Result<T>) -> Result<std::result::Result<T, Corruption>> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(Error::Corruption(found)) => Ok(Err(found)),
        Err(error) => Err(error),
    }
}

fn report(meet: Meet<'_>, kind: Harm, found: Corruption) -> Result<()> {
    meet(Met::Damage { kind, found })
}

fn lost(meet: Meet<'_>, found: Corruption) -> Result<()> {
    report(meet, Harm::Lost, found)
}

fn hidden(meet: Meet<'_>, found: Corruption, of: &str) -> Result<()> {
    let found = Corruption { what: format!("{of}: {}", found.what), ..found };
    report(meet, Harm::Hidden, found)
}
