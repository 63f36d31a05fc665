//! Open files whose calls are shown to the plan.

use std::sync::Arc;

use super::{Fault, Op, Site};
use crate::error::Result;
use crate::fs::{LogFile, RandomAccessFile, SequentialFile, WritableFile};

pub(super) struct Sequential {
    pub(super) file: Box<dyn SequentialFile>,
    pub(super) site: Site,
}

impl SequentialFile for Sequential {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        match self.site.decide(Op::Read) {
            None => self.file.read(buf),
            // At least one byte: none would be the end of the file, which the trait rules out.
            Some(Fault::ShortRead) => {
                let half = buf.len().div_ceil(2);
                self.file.read(&mut buf[..half])
            }
            Some(fault) => Err(self.site.error(fault, "read")),
        }
    }

    fn skip(&mut self, n: u64) -> Result<()> {
        self.site.pass(Op::Skip, "skip")?;
        self.file.skip(n)
    }
}

#[derive(Debug)]
pub(super) struct Random {
    pub(super) file: Arc<dyn RandomAccessFile>,
    pub(super) site: Site,
}

impl RandomAccessFile for Random {
    /// A short read here looks like a file that was cut.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        match self.site.decide(Op::Read) {
            None => self.file.read_at(offset, buf),
            Some(Fault::ShortRead) => {
                let half = buf.len() / 2;
                self.file.read_at(offset, &mut buf[..half])
            }
            Some(fault) => Err(self.site.error(fault, "read")),
        }
    }

    fn len(&self) -> u64 {
        self.file.len()
    }
}

/// Has the buffer, so that a flush that fails loses what was in it: nothing of it may be written later.
pub(super) struct Writable {
    file: Box<dyn WritableFile>,
    site: Site,
    buffer: Vec<u8>,
    closed: bool,
}

/// More than this is not kept back.
const BUFFER: usize = 64 * 1024;

impl Writable {
    pub(super) fn new(file: Box<dyn WritableFile>, site: Site) -> Writable {
        Writable { file, site, buffer: Vec::new(), closed: false }
    }

    fn hand_over(&mut self) -> Result<()> {
        let buffer = std::mem::take(&mut self.buffer);
        self.file.append(&buffer)?;
        self.file.flush()
    }
}

impl WritableFile for Writable {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        match self.site.decide(Op::Append) {
            // It knows how to refuse that.
            None if self.closed => self.file.append(data),
            None => {
                self.buffer.extend_from_slice(data);
                if self.buffer.len() > BUFFER { self.hand_over() } else { Ok(()) }
            }
            Some(fault) => {
                if fault == Fault::ShortWrite {
                    self.buffer.extend_from_slice(&data[..data.len() / 2]);
                    self.hand_over()?;
                }
                Err(self.site.error(fault, "write"))
            }
        }
    }

    fn flush(&mut self) -> Result<()> {
        self.site.pass(Op::Flush, "write").inspect_err(|_| self.buffer.clear())?;
        self.hand_over()
    }

    fn sync(&mut self) -> Result<()> {
        self.hand_over()?;
        if self.site.does_sync()? { self.file.sync() } else { Ok(()) }
    }

    fn close(&mut self) -> Result<()> {
        self.site.pass(Op::Close, "close").inspect_err(|_| self.buffer.clear())?;
        self.hand_over()?;
        self.closed = true;
        self.file.close()
    }
}

impl Drop for Writable {
    fn drop(&mut self) {
        if self.closed {
            return;
        }
        let _ = self.hand_over(); // without a word about errors, as the trait says
    }
}

#[derive(Debug)]
pub(super) struct Log {
    pub(super) file: Box<dyn LogFile>,
    pub(super) site: Site,
}

impl LogFile for Log {
    fn capacity(&self) -> u64 {
        self.file.capacity()
    }

    fn hurry(&self, from: u64) {
        self.file.hurry(from);
    }

    fn prepare(&self, end: u64) -> Result<u64> {
        self.file.prepare(end)
    }

    /// Half a store is the head with the first half of the body: the worst half, since a reader takes it for whole.
    fn store(&self, offset: u64, head: &[u8], body: &[u8]) -> Result<()> {
        let Some(fault) = self.site.decide(Op::Store) else { return self.file.store(offset, head, body) };
        if fault == Fault::ShortWrite {
            self.file.store(offset, head, &body[..body.len() / 2])?;
        }
        Err(self.site.error(fault, "store"))
    }

    fn sync(&self) -> Result<()> {
        if self.site.does_sync()? { self.file.sync() } else { Ok(()) }
    }

    fn finish(&self, len: u64) -> Result<()> {
        self.site.pass(Op::Finish, "truncate")?;
        self.file.finish(len)
    }
}
