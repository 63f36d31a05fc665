//! Open files with injected faults.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Fault, FaultInjector, FileOp};
use crate::error::Result;
use crate::fs::{LogFile, RandomAccessFile, SequentialFile, WritableFile};

pub(super) struct FaultySequentialFile {
    pub(super) file: Box<dyn SequentialFile>,
    pub(super) injector: FaultInjector,
}

impl SequentialFile for FaultySequentialFile {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        match self.injector.fault_for_call(FileOp::Read) {
            None => self.file.read(buf),
            // At least one byte: 0 bytes would mean the end of the file, which the trait rules out.
            Some(Fault::ShortRead) => {
                let half = buf.len().div_ceil(2);
                self.file.read(&mut buf[..half])
            }
            Some(fault) => Err(self.injector.injected_error(fault, "read")),
        }
    }

    fn skip(&mut self, n: u64) -> Result<()> {
        self.injector.check_call(FileOp::Skip, "skip")?;
        self.file.skip(n)
    }

    fn skip_hole(&mut self, unit: u64) -> Result<u64> {
        self.file.skip_hole(unit)
    }
}

#[derive(Debug)]
pub(super) struct FaultyRandomAccessFile {
    pub(super) file: Arc<dyn RandomAccessFile>,
    pub(super) injector: FaultInjector,
    /// True if the file is mapped if `file` is.
    pub(super) is_mapped: bool,
}

impl RandomAccessFile for FaultyRandomAccessFile {
    /// A short read looks like a truncated file.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        match self.injector.fault_for_call(FileOp::Read) {
            None => self.file.read_at(offset, buf),
            Some(Fault::ShortRead) => {
                let half = buf.len() / 2;
                self.file.read_at(offset, &mut buf[..half])
            }
            Some(fault) => Err(self.injector.injected_error(fault, "read")),
        }
    }

    fn len(&self) -> u64 {
        self.file.len()
    }

    fn mapped_slice(&self) -> Option<&[u8]> {
        if self.is_mapped { self.file.mapped_slice() } else { None }
    }
}

/// Writable file with its own buffer. A failed flush loses the buffer, because no later call may
/// write any of it.
pub(super) struct FaultyWritableFile {
    file: Box<dyn WritableFile>,
    injector: FaultInjector,
    buffer: Vec<u8>,
    closed: bool,
}

/// Size of the buffer, in bytes.
const FAULTY_FILE_BUFFER_SIZE: usize = 64 * 1024;

impl FaultyWritableFile {
    pub(super) fn new(file: Box<dyn WritableFile>, injector: FaultInjector) -> FaultyWritableFile {
        FaultyWritableFile { file, injector, buffer: Vec::new(), closed: false }
    }

    fn flush_buffer(&mut self) -> Result<()> {
        let buffer = std::mem::take(&mut self.buffer);
        self.file.append(&buffer)?;
        self.file.flush()
    }
}

impl WritableFile for FaultyWritableFile {
    fn use_huge_pages(&mut self) {
        self.file.use_huge_pages();
    }

    fn append(&mut self, data: &[u8]) -> Result<()> {
        match self.injector.fault_for_call(FileOp::Append) {
            // The inner file returns the error.
            None if self.closed => self.file.append(data),
            None => {
                self.buffer.extend_from_slice(data);
                if self.buffer.len() > FAULTY_FILE_BUFFER_SIZE { self.flush_buffer() } else { Ok(()) }
            }
            Some(fault) => {
                if fault == Fault::ShortWrite {
                    self.buffer.extend_from_slice(&data[..data.len() / 2]);
                    self.flush_buffer()?;
                }
                Err(self.injector.injected_error(fault, "write"))
            }
        }
    }

    fn flush(&mut self) -> Result<()> {
        self.injector.check_call(FileOp::Flush, "write").inspect_err(|_| self.buffer.clear())?;
        self.flush_buffer()
    }

    fn sync(&mut self) -> Result<()> {
        self.flush_buffer()?;
        if self.injector.should_sync()? { self.file.sync() } else { Ok(()) }
    }

    fn close(&mut self) -> Result<()> {
        self.injector.check_call(FileOp::Close, "close").inspect_err(|_| self.buffer.clear())?;
        self.flush_buffer()?;
        self.closed = true;
        self.file.close()
    }
}

impl Drop for FaultyWritableFile {
    fn drop(&mut self) {
        if self.closed {
            return;
        }
        let _ = self.flush_buffer(); // Ignores errors, as the trait documents.
    }
}

#[derive(Debug)]
pub(super) struct FaultyLogFile {
    file: Box<dyn LogFile>,
    injector: FaultInjector,
    is_torn: AtomicBool,
}

impl FaultyLogFile {
    pub(super) fn new(file: Box<dyn LogFile>, injector: FaultInjector) -> FaultyLogFile {
        FaultyLogFile { file, injector, is_torn: AtomicBool::new(false) }
    }
}

impl LogFile for FaultyLogFile {
    fn capacity(&self) -> u64 {
        self.file.capacity()
    }

    fn may_lose_pages(&self) -> bool {
        self.file.may_lose_pages()
    }

    fn is_reusable(&self) -> bool {
        self.file.is_reusable()
    }

    fn write_method(&self) -> String {
        self.file.write_method()
    }

    fn expect_fast_fill(&self) {
        self.file.expect_fast_fill();
    }

    /// A short write has the head and the first half of the body. This is the worst half, because a
    /// reader takes it for complete. Without a body, it has the first half of the head.
    fn write_at(&self, offset: u64, head: &[u8], body: &[u8]) -> Result<()> {
        let Some(fault) = self.injector.fault_for_call(FileOp::WriteAt) else {
            return self.file.write_at(offset, head, body);
        };
        if fault == Fault::ShortWrite {
            self.is_torn.store(true, Ordering::Relaxed);
            let head = if body.is_empty() && head.len() >= 8 { &head[..head.len() / 2] } else { head };
            self.file.write_at(offset, head, &body[..body.len() / 2])?;
        }
        Err(self.injector.injected_error(fault, "write"))
    }

    fn takes_large_records(&self) -> bool {
        self.file.takes_large_records()
    }

    /// A short write has the first half of the parts.
    fn write_large_record(&self, offset: u64, parts: &[&[u8]]) -> Result<()> {
        let Some(fault) = self.injector.fault_for_call(FileOp::WriteAt) else {
            return self.file.write_large_record(offset, parts);
        };
        if fault == Fault::ShortWrite {
            self.is_torn.store(true, Ordering::Relaxed);
            self.file.write_large_record(offset, &parts[..parts.len() / 2])?;
        }
        Err(self.injector.injected_error(fault, "write"))
    }

    fn is_intact(&self) -> bool {
        self.file.is_intact() && !self.is_torn.load(Ordering::Relaxed)
    }

    fn sync(&self) -> Result<()> {
        if self.injector.should_sync()? { self.file.sync() } else { Ok(()) }
    }

    fn truncate_and_close(&self, len: u64) -> Result<()> {
        self.injector.check_call(FileOp::TruncateAndClose, "truncate")?;
        self.file.truncate_and_close(len)
    }
}
