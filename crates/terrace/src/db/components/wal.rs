//! End of the WAL, where writes are appended.
//!
//! ```text
//!   log 7 (immutable, not synced)   log 9 (current)
//!   [ r r r r r r r r ]             [ r r r r | zeros to the end of the block ]
//!                                             ^ record writer
//! ```

use std::path::Path;
use std::time::Duration;

use terrace_env::{LogFile, StickySync};
use terrace_format::filename::FileName;
use terrace_format::key::SequenceNumber;
use terrace_format::log::{FRAGMENT_HEADER_SIZE, Fragment, LOG_BLOCK_SIZE, RecordWriter};
use terrace_sync::mutant;

use super::watched_keys::WatchList;
use crate::error::Result;
use crate::memtable::Memtable;
use crate::options::Options;
use crate::sync::Arc;

/// Size in bytes at which fragments are appended to a log, even if their record continues. It
/// bounds the memory for them.
const MAX_APPENDED_BYTES: usize = 1 << 20;

/// Minimum length in bytes of a value or batch that a mapped log takes from the caller's slice. The
/// system calls for a shorter one cost more than the copy and the page faults that they save.
const MIN_SPLIT_BYTES: usize = 64 << 10;
/// Bytes of memory for each fragment of such a record, rounded up: the fragment and its slices.
const SPLIT_FRAGMENT_BYTES: usize = 128;

/// Log file that the database still needs.
#[derive(Clone)]
pub(crate) struct WalFile {
    pub(crate) number: u64,
    pub(crate) file: Arc<dyn LogFile>,
    syncs: Arc<StickySync>,
}

impl WalFile {
    pub(crate) fn new(number: u64, file: Arc<dyn LogFile>) -> WalFile {
        WalFile { number, file, syncs: Arc::default() }
    }

    /// Makes the log durable. After an error, every later or concurrent call fails, too: a custom
    /// file system may report an error only once.
    pub(crate) fn sync(&self) -> Result<()> {
        Ok(self.syncs.sync_with(|| self.file.sync())?)
    }

    /// Creates log `number`, whose mapping holds `capacity` bytes. After an error the file does not
    /// exist.
    pub(crate) fn create(
        options: &Options,
        directory: &Path,
        number: u64,
        capacity: usize,
    ) -> Result<WalFile> {
        let fs = &options.env.fs;
        let path = directory.join(FileName::Log(number).to_string());
        let file = fs.create_log(&path, capacity as u64, options.mapped_logs).inspect_err(|_| {
            // On a full disk, every write retries this: no files may accumulate.
            let _ = fs.remove(&path);
        })?;
        Ok(WalFile::new(number, Arc::from(file)))
    }

    /// Opens log `number`, which was closed with `length` bytes, for reuse. Returns None if the
    /// file system does not support this.
    pub(crate) fn reopen(
        options: &Options,
        directory: &Path,
        number: u64,
        length: u64,
    ) -> Result<Option<(WalFile, RecordWriter)>> {
        let path = directory.join(FileName::Log(number).to_string());
        let capacity = length.saturating_add(options.initial_memtable_size() as u64);
        match options.env.fs.reopen_log(&path, capacity, options.mapped_logs) {
            Err(error) if error.is_unsupported() => Ok(None),
            file => Ok(Some((WalFile::new(number, Arc::from(file?)), RecordWriter::resume_at(length)))),
        }
    }
}

/// State of the WAL for the next write.
pub(crate) struct WalWriter {
    pub(crate) wal: WalFile,
    pub(crate) record_writer: RecordWriter,
    /// End of the log at which the next check of the fill rate is due.
    pub(crate) next_fill_check: u64,
    /// Time of the last check of the fill rate. None if the log is known to fill fast.
    pub(crate) fill_rate_checked_at: Option<Duration>,
    pub(crate) memtable: Arc<Memtable>,
    /// Bytes at which the memtable is full. Fixed when the memtable is created, because the log is
    /// preallocated for this size.
    pub(crate) memtable_full_at: usize,
    /// Time when the memtable was created.
    pub(crate) memtable_created_at: Duration,
    /// Last used sequence number.
    pub(crate) last_sequence: SequenceNumber,
    /// Bytes of keys and values in the memtable, as the write controller counts them.
    pub(crate) user_bytes: u64,
    /// True after a write failed for lack of space: the log ends here, and the next write starts a
    /// new one.
    pub(crate) is_torn: bool,
    /// Length of the log in bytes when this run began to use it, or None for a new log.
    pub(crate) reused_len: Option<u64>,
    /// Keys that conditional writes check meanwhile.
    pub(crate) watches: WatchList,
    /// Buffer of the last record after [`FRAGMENT_HEADER_SIZE`] bytes for its header, for reuse.
    pub(crate) record_buffer: Vec<u8>,
    /// Buffer of the fragments of the last record in an appended log, for reuse.
    pub(crate) fragment_buffer: Vec<u8>,
}

impl WalWriter {
    /// Appends the record in `buffer` to the log. Space for a header of [`FRAGMENT_HEADER_SIZE`]
    /// bytes precedes it. An error does not move the end of the log.
    pub(crate) fn append(&mut self, buffer: &mut [u8]) -> Result<()> {
        if self.wal.file.capacity() == 0 {
            return self.append_whole(buffer);
        }
        let (_, record) = buffer.split_at(FRAGMENT_HEADER_SIZE);
        let mut record_writer = self.record_writer.clone();
        let mut fragments = record_writer.add_record(record).peekable();
        if let Some(whole) = fragments.next_if(|first| first.payload.len() == record.len()) {
            self.write(whole.offset, &whole.header, whole.payload, false)?;
        }
        // LevelDB with `paranoid_checks` refuses a log that has only the first fragments of a
        // record. A kill before the headers leaves none, and a kill between these is unlikely.
        let fragments: Vec<Fragment<'_>> = fragments.collect();
        for (index, fragment) in fragments.iter().enumerate() {
            self.write(fragment.offset, &[0; FRAGMENT_HEADER_SIZE], fragment.payload, index > 0)?;
        }
        for fragment in &fragments {
            self.write(fragment.offset, &fragment.header, &[], true)?;
        }
        self.record_writer = record_writer;
        Ok(())
    }

    /// Writes a part of a record. `has_earlier` is true if other parts are in the log.
    #[inline]
    fn write(&mut self, offset: u64, head: &[u8], body: &[u8], has_earlier: bool) -> Result<()> {
        let stored = self.wal.file.write_at(offset, head, body);
        self.note_stored(&stored, offset + (head.len() + body.len()) as u64, has_earlier);
        Ok(stored?)
    }

    /// Returns true if a record that ends with `len` bytes of the caller should be written from
    /// there, without a copy.
    #[inline]
    pub(crate) fn should_split(&self, len: usize) -> bool {
        len >= MIN_SPLIT_BYTES && self.wal.file.takes_large_records()
    }

    /// Appends the record that consists of two slices. An error does not move the end of the log.
    pub(crate) fn append_split(&mut self, record: [&[u8]; 2]) -> Result<()> {
        let mut record_writer = self.record_writer.clone();
        let start = record_writer.next_offset();
        let fragments: Vec<_> = record_writer.add_split_record(record).collect();
        let parts: Vec<&[u8]> = fragments
            .iter()
            .flat_map(|fragment| [&fragment.header[..], fragment.payload[0], fragment.payload[1]])
            .collect();
        let stored = self.wal.file.write_large_record(start, &parts);
        self.note_stored(&stored, record_writer.end_offset(), false);
        stored?;
        self.record_writer = record_writer;
        Ok(())
    }

    /// Appends a record to a log without a mapping by one system call for each mebibyte. A record
    /// that fits its block is not copied.
    fn append_whole(&mut self, buffer: &mut [u8]) -> Result<()> {
        let (header, record) = buffer.split_at_mut(FRAGMENT_HEADER_SIZE);
        let start = self.record_writer.end_offset();
        let mut record_writer = self.record_writer.clone();
        let whole = record_writer
            .add_record(record)
            .next()
            .filter(|fragment| fragment.offset == start && fragment.payload.len() == record.len());
        let Some(fragment) = whole else {
            return self.append_records(std::iter::once(&*record));
        };
        header.copy_from_slice(&fragment.header);
        self.write(start, buffer, &[], false)?;
        self.record_writer = record_writer;
        Ok(())
    }

    /// Appends records to a log without a mapping by one system call for each mebibyte. An error
    /// does not move the end of the log.
    pub(crate) fn append_records<'a>(&mut self, records: impl Iterator<Item = &'a [u8]>) -> Result<()> {
        let mut record_writer = self.record_writer.clone();
        let first_start = record_writer.end_offset();
        let mut start = first_start;
        let mut end = start;
        let mut bytes = std::mem::take(&mut self.fragment_buffer);
        bytes.clear();
        for record in records {
            for fragment in record_writer.add_record(record) {
                if bytes.len() >= MAX_APPENDED_BYTES {
                    self.write(start, &bytes, &[], start > first_start)?;
                    bytes.clear();
                    start = end;
                }
                fragment.append_to(&mut bytes, start);
                end = fragment.end();
            }
        }
        self.write(start, &bytes, &[], start > first_start)?;
        self.fragment_buffer = bytes;
        self.record_writer = record_writer;
        Ok(())
    }

    /// Ensures that an append of a record of `len` bytes needs no more memory, or has some for its
    /// fragments. Returns false if there is none.
    pub(crate) fn try_reserve_fragments(&mut self, len: usize) -> bool {
        if self.should_split(len) {
            let list = (len / LOG_BLOCK_SIZE + 2) * SPLIT_FRAGMENT_BYTES;
            return Vec::<u8>::new().try_reserve_exact(list).is_ok();
        }
        let most = MAX_APPENDED_BYTES + LOG_BLOCK_SIZE;
        self.fragment_buffer.clear();
        self.wal.file.capacity() > 0
            || self.fragment_buffer.try_reserve(len.saturating_add(len / 64).min(most)).is_ok()
    }

    /// Notes the result of a write of fragments up to `end`. Earlier ones of the same record stay
    /// in the log, even if this write failed.
    fn note_stored(&mut self, stored: &terrace_env::Result<()>, end: u64, has_earlier: bool) {
        if mutant!(TornRecordLeftAfterNoSpace) {
            self.record_writer = RecordWriter::resume_at(end);
        }
        self.is_torn |= stored.is_err() && (has_earlier || !self.wal.file.is_intact());
    }
}
