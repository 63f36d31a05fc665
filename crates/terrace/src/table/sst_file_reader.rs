//! A table without a database around it: its keys are what its builder was given, in the order of the options.

use std::fmt;
use std::path::Path;

use terrace_env::RandomAccessFile;

use super::table_iter::TableIter;
use super::table_reader::{BlockReadOptions, TableReader, TableReaderContext};
use crate::cache::{self, BlockCache};
use crate::error::Result;
use crate::internal_iterator::InternalIterator;
use crate::options::Options;
use crate::stats::Statistics;
use crate::sync::Arc;

/// An open table file. Any number of threads may read it.
///
/// ```
/// use std::path::Path;
/// use terrace::env::Access;
/// use terrace::table::{TableBuilder, TableFile, TableOptions};
/// use terrace::{Env, Options};
///
/// let (env, path) = (Env::memory(), Path::new("swiss.ldb"));
/// let options = Options { env: env.clone(), ..Options::default() };
///
/// let mut table = TableBuilder::new(TableOptions::from(&options), Vec::new());
/// table.add(b"Bern", b"46.95,7.45").unwrap();
/// table.add(b"Chur", b"46.85,9.53").unwrap();
/// table.finish().unwrap();
/// let mut file = env.fs.create(path)?;
/// file.append(&table.into_inner())?;
/// file.close()?;
///
/// let table = TableFile::open(env.fs.open_random(path, Access::Read)?, path, &options)?;
/// let mut cursor = table.cursor(true);
/// cursor.seek(b"C");
/// assert_eq!(cursor.value(), b"46.85,9.53");
/// # Ok::<(), terrace::Error>(())
/// ```
pub struct SstFileReader {
    reader: Arc<TableReader>,
}

impl SstFileReader {
    /// Opens the table in `file`, whose name in messages is `path`. Of the options, order of keys, filter policy and
    /// block cache count; without a cache nothing is kept.
    ///
    /// # Errors
    ///
    /// Damage in, or failure of, the file. A damaged filter is done without.
    pub fn open(file: Arc<dyn RandomAccessFile>, path: &Path, options: &Options) -> Result<SstFileReader> {
        let context = TableReaderContext {
            order: Arc::clone(&options.comparator).into(),
            filter_policy: options.filter_policy.clone(),
            cache: options.block_cache.clone().unwrap_or_else(|| BlockCache::new(0)),
            cache_id: cache::new_cache_id(),
            metrics: Statistics::default(),
            memory: Arc::default(),
        };
        let table = TableReader::open(file, path.to_path_buf(), 0, Arc::new(context))?;
        Ok(SstFileReader { reader: Arc::new(table) })
    }

    /// A place in the table, not yet valid. Blocks that it fetches are kept in the cache if `fill_cache`.
    pub fn iter(&self, fill_cache: bool) -> SstIterator {
        SstIterator { iter: TableIter::new(Arc::clone(&self.reader), BlockReadOptions { fill_cache }) }
    }

    /// About where in the file the entry of `key` is, or would be, in bytes.
    pub fn approximate_offset(&self, key: &[u8]) -> u64 {
        self.reader.approximate_offset(key)
    }
}

impl fmt::Debug for SstFileReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TableFile")
    }
}

/// A place in a [`SstFileReader`]: at an entry, or not valid. It goes on behind damage, which its status tells.
pub struct SstIterator {
    iter: TableIter,
}

impl SstIterator {
    /// True at an entry.
    pub fn valid(&self) -> bool {
        self.iter.valid()
    }

    /// To the first entry.
    pub fn seek_to_first(&mut self) {
        self.iter.seek_to_first();
    }

    /// To the last entry.
    pub fn seek_to_last(&mut self) {
        self.iter.seek_to_last();
    }

    /// To the first entry that is not below `target`.
    pub fn seek(&mut self, target: &[u8]) {
        self.iter.seek(target);
    }

    /// To the next entry. Does nothing where there is none.
    pub fn next(&mut self) {
        if self.valid() {
            self.iter.next();
        }
    }

    /// To the entry before. Does nothing where there is none.
    pub fn prev(&mut self) {
        if self.valid() {
            self.iter.prev();
        }
    }

    /// The key here; empty where there is none.
    pub fn key(&self) -> &[u8] {
        if self.valid() { self.iter.key() } else { &[] }
    }

    /// The value here; empty where there is none.
    pub fn value(&self) -> &[u8] {
        if self.valid() { self.iter.value() } else { &[] }
    }

    /// The first damage or failure that was met.
    pub fn status(&self) -> Result<()> {
        self.iter.status()
    }
}

impl fmt::Debug for SstIterator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TableCursor(valid: {})", self.valid())
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use terrace_env::Result as FileResult;
    use terrace_format::table::{TableBuilder, TableOptions};

    use super::*;
    use crate::sync::Mutex;

    /// A file that remembers what it was told to be read soon.
    #[derive(Debug, Default)]
    struct PrefetchRecorder {
        bytes: Vec<u8>,
        mapped: bool,
        prefetched: Mutex<Vec<Range<u64>>>,
    }

    impl RandomAccessFile for PrefetchRecorder {
        fn read_at(&self, offset: u64, buf: &mut [u8]) -> FileResult<usize> {
            let rest = self.bytes.get(offset as usize..).unwrap_or_default();
            let len = rest.len().min(buf.len());
            buf[..len].copy_from_slice(&rest[..len]);
            Ok(len)
        }

        fn len(&self) -> u64 {
            self.bytes.len() as u64
        }

        fn mapped_slice(&self) -> Option<&[u8]> {
            self.mapped.then_some(&self.bytes)
        }

        fn prefetch(&self, offset: u64, len: u64) {
            self.prefetched.lock().push(offset..offset + len);
        }
    }

    /// A table of that, with 20,000 entries.
    fn told(mapped: bool) -> (Arc<PrefetchRecorder>, SstFileReader) {
        let block_cache = Some(BlockCache::new(1 << 20));
        let compression = &terrace_format::compress::NO_COMPRESSION;
        let options = Options { block_cache, compression, ..Options::default() };
        let mut table = TableBuilder::new(TableOptions::from(&options), Vec::new());
        for n in 0..20_000u32 {
            table.add(&n.to_be_bytes(), &[n as u8; 60]).unwrap();
        }
        table.finish().unwrap();
        let file =
            Arc::new(PrefetchRecorder { bytes: table.into_inner(), mapped, ..PrefetchRecorder::default() });
        let table = SstFileReader::open(Arc::clone(&file) as _, Path::new("t"), &options).unwrap();
        file.prefetched.lock().clear();
        (file, table)
    }

    /// Steps until the end, and how many there were.
    fn walk(cursor: &mut SstIterator, step: fn(&mut SstIterator)) -> usize {
        let mut steps = 0;
        while cursor.valid() {
            steps += 1;
            step(cursor);
        }
        steps
    }

    #[test]
    fn backward_scan_uses_readahead() {
        let (file, table) = told(false);
        let mut cursor = table.iter(false);
        cursor.seek_to_first();
        walk(&mut cursor, SstIterator::next);
        cursor.seek_to_last();
        cursor.prev();
        assert!(file.prefetched.lock().is_empty(), "the system sees a walk ahead, and one step is no walk");
        assert_eq!(walk(&mut cursor, SstIterator::prev), 19_999);
        let soon = file.prefetched.lock();
        assert!((2..=file.len() as usize / (128 << 10) + 1).contains(&soon.len()), "{soon:?}");
        assert!(soon.windows(2).all(|pair| pair[1].start < pair[0].start), "{soon:?}");
        assert_eq!(soon.last().map(|last| last.start), Some(0));
        let gaps = soon.windows(2).filter(|pair| pair[1].end + (8 << 10) < pair[0].start).count();
        assert_eq!(gaps, 0, "{soon:?}");
    }

    #[test]
    fn forward_scan_of_mapped_file_uses_readahead() {
        let (file, table) = told(true);
        let mut cursor = table.iter(false);
        cursor.seek_to_first();
        assert_eq!(walk(&mut cursor, SstIterator::next), 20_000);
        let soon = file.prefetched.lock();
        let (blocks, pieces): (Vec<_>, Vec<_>) =
            soon.iter().cloned().partition(|asked| asked.end - asked.start < 8 << 10);
        assert!(blocks.len() > 200, "each block is asked for before it is looked at: {soon:?}");
        assert!((2..=file.len() as usize / (128 << 10) + 1).contains(&pieces.len()), "{pieces:?}");
        assert!(pieces.windows(2).all(|pair| pair[1].start == pair[0].end), "no gap: {pieces:?}");
    }

    #[test]
    fn prefetch_requests_only_the_needed_block() {
        let (file, table) = told(false);
        let key = 7000u32.to_be_bytes();
        assert!(!table.reader.prefetch(&key), "without a filter it may be in the next table");
        let asked = std::mem::take(&mut *file.prefetched.lock());
        assert_eq!(asked.len(), 1);
        assert_eq!(asked[0].start, table.approximate_offset(&key));
        assert!((4 << 10..8 << 10).contains(&(asked[0].end - asked[0].start)), "{asked:?}");
        table.iter(true).seek(&key);
        table.reader.prefetch(&key);
        table.reader.prefetch(&[255; 5]);
        assert!(file.prefetched.lock().is_empty(), "what is at hand, or in no block, is not asked for");
    }
}
