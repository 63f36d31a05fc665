//! Reader of a single table file without a database. Its keys are those that the builder got.

use std::fmt;
use std::path::Path;

use terrace_env::RandomAccessFile;

use super::table_iter::TableIter;
use super::table_reader::{BlockReadOptions, TableReader, TableReaderContext};
use crate::cache::{self, BlockCache};
use crate::error::Result;
use crate::internal_iterator::{InternalIterator, delegate_iterator};
use crate::options::Options;
use crate::stats::Statistics;
use crate::sync::Arc;

/// Open table file. Any number of threads may read it.
///
/// ```
/// use std::path::Path;
/// use terrace::env::AccessMode;
/// use terrace::table::{SstFileReader, TableBuilder, TableOptions};
/// use terrace::{Env, Options};
///
/// let env = Env::in_memory();
/// let path = Path::new("swiss.ldb");
/// let options = Options::default().env(env.clone());
///
/// let mut table = TableBuilder::new(TableOptions::from(&options), Vec::new());
/// table.add(b"Bern", b"46.95,7.45").unwrap();
/// table.add(b"Chur", b"46.85,9.53").unwrap();
/// table.finish().unwrap();
/// let mut file = env.fs.create(path)?;
/// file.append(&table.into_inner())?;
/// file.close()?;
///
/// let file = env.fs.open_random_access(path, AccessMode::Pread)?;
/// let table = SstFileReader::open(file, path, &options)?;
/// let mut iter = table.iter(true);
/// iter.seek(b"C");
/// assert_eq!(iter.value(), b"46.85,9.53");
/// # Ok::<(), terrace::Error>(())
/// ```
pub struct SstFileReader {
    reader: Arc<TableReader>,
}

impl SstFileReader {
    /// Opens the table in `file`. Error messages call it `path`. Only the comparator, the filter
    /// policy and the block cache of `options` have an effect; without a block cache, no block is
    /// cached.
    ///
    /// # Errors
    ///
    /// Returns an error if the file is damaged or cannot be read. A damaged filter is ignored.
    pub fn open(file: Arc<dyn RandomAccessFile>, path: &Path, options: &Options) -> Result<SstFileReader> {
        let context = TableReaderContext {
            order: Arc::clone(&options.comparator).into(),
            filter_policy: options.filter_policy.clone(),
            cache: options.block_cache.clone().unwrap_or_else(|| BlockCache::new(0)),
            cache_id: cache::new_cache_id(),
            metrics: Statistics::default(),
            memory: Arc::default(),
        };
        let size = file.len();
        let table = TableReader::open(file, path.to_path_buf(), size, 0, Arc::new(context))?;
        Ok(SstFileReader { reader: Arc::new(table) })
    }

    /// Returns an iterator, which is not valid before a seek. `fill_cache` inserts the blocks that
    /// it fetches into the block cache.
    pub fn iter(&self, fill_cache: bool) -> SstIterator {
        SstIterator {
            iter: TableIter::new(
                Arc::clone(&self.reader),
                BlockReadOptions { fill_cache, verify_checksums: false, only_in_memory: false },
            ),
        }
    }

    /// Returns the approximate offset of `key` in the file, in bytes. The table need not contain
    /// `key`.
    pub fn approximate_offset(&self, key: &[u8]) -> u64 {
        self.reader.approximate_offset(key)
    }
}

impl fmt::Debug for SstFileReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SstFileReader")
    }
}

/// Iterator over a [`SstFileReader`]. It skips damaged blocks and reports them in its status.
pub struct SstIterator {
    iter: TableIter,
}

impl SstIterator {
    delegate_iterator! {
        iter in [SstIterator { iter }];

        /// Returns true if the iterator is at an entry.
        pub fn valid;
        /// Moves to the first entry.
        pub fn seek_to_first;
        /// Moves to the last entry.
        pub fn seek_to_last;
        /// Moves to the first entry that is not below `target`.
        pub fn seek;
        /// Returns the first error since the iterator was created.
        pub fn status;
    }

    /// Moves to the next entry. Does nothing if the iterator is not valid.
    pub fn next(&mut self) {
        if self.valid() {
            self.iter.next();
        }
    }

    /// Moves to the previous entry. Does nothing if the iterator is not valid.
    pub fn prev(&mut self) {
        if self.valid() {
            self.iter.prev();
        }
    }

    /// Returns the current key, or an empty slice if the iterator is not valid.
    pub fn key(&self) -> &[u8] {
        if self.valid() { self.iter.key() } else { &[] }
    }

    /// Returns the value of the current entry, or an empty slice if the iterator is not valid.
    pub fn value(&self) -> &[u8] {
        if self.valid() { self.iter.value() } else { &[] }
    }
}

impl fmt::Debug for SstIterator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SstIterator(valid: {})", self.valid())
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use terrace_env::Result as FileResult;
    use terrace_format::table::{TableBuilder, TableOptions};

    use super::*;
    use crate::sync::Mutex;

    /// File that records prefetch requests.
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

    /// Returns a recorder with a table of 20,000 entries.
    fn recorded_table(mapped: bool) -> (Arc<PrefetchRecorder>, SstFileReader) {
        let block_cache = Some(BlockCache::new(1 << 20));
        let compression = Some(&terrace_format::compress::NO_COMPRESSION);
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

    /// Steps to the end and returns the number of steps.
    fn count_steps(iter: &mut SstIterator, step: fn(&mut SstIterator)) -> usize {
        let mut steps = 0;
        while iter.valid() {
            steps += 1;
            step(iter);
        }
        steps
    }

    #[test]
    fn backward_scan_uses_readahead() {
        let (file, table) = recorded_table(false);
        let mut iter = table.iter(false);
        iter.seek_to_first();
        count_steps(&mut iter, SstIterator::next);
        iter.seek_to_last();
        iter.prev();
        assert!(
            file.prefetched.lock().is_empty(),
            "the system detects forward scans, and one step is no scan"
        );
        assert_eq!(count_steps(&mut iter, SstIterator::prev), 19_999);
        let requests = file.prefetched.lock();
        assert!((2..=file.len() as usize / (128 << 10) + 1).contains(&requests.len()), "{requests:?}");
        assert!(requests.windows(2).all(|pair| pair[1].start < pair[0].start), "{requests:?}");
        assert_eq!(requests.last().map(|last| last.start), Some(0));
        let gaps = requests.windows(2).filter(|pair| pair[1].end + (8 << 10) < pair[0].start).count();
        assert_eq!(gaps, 0, "{requests:?}");
    }

    #[test]
    fn forward_scan_of_mapped_file_uses_readahead() {
        let (file, table) = recorded_table(true);
        let mut iter = table.iter(false);
        iter.seek_to_first();
        assert_eq!(count_steps(&mut iter, SstIterator::next), 20_000);
        let requests = file.prefetched.lock();
        let (blocks, readaheads): (Vec<_>, Vec<_>) =
            requests.iter().cloned().partition(|request| request.end - request.start < 8 << 10);
        assert!(blocks.len() > 200, "each block is requested before its read: {requests:?}");
        assert!((2..=file.len() as usize / (128 << 10) + 1).contains(&readaheads.len()), "{readaheads:?}");
        assert!(readaheads.windows(2).all(|pair| pair[1].start == pair[0].end), "no gap: {readaheads:?}");
    }

    #[test]
    fn prefetch_requests_only_the_needed_block() {
        let (file, table) = recorded_table(false);
        let key = 7000u32.to_be_bytes();
        assert!(!table.reader.prefetch(&key), "without a filter the key may be in the next table");
        let requests = std::mem::take(&mut *file.prefetched.lock());
        assert_eq!(requests.len(), 1);
        assert_eq!(requests[0].start, table.approximate_offset(&key));
        assert!((4 << 10..8 << 10).contains(&(requests[0].end - requests[0].start)), "{requests:?}");
        table.iter(true).seek(&key);
        table.reader.prefetch(&key);
        table.reader.prefetch(&[255; 5]);
        assert!(
            file.prefetched.lock().is_empty(),
            "a cached block and a key after the last block need no request"
        );
    }
}
