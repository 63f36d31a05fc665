//! A file system with one file, which records the writes and flushes of a loop device.
//!
//! ```text
//!   database -> ext4 -> loop device -> disk, this file -> image, a file in memory
//!                                            \----------> records
//! ```
//!
//! Its own process serves it. A process that writes to the disk and also serves it can wait for
//! itself in the kernel, and then no signal ends it.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, LockOwner,
    MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request,
    WriteFlags,
};
use parking_lot::Mutex;

use super::records::RecordHeader;
use crate::harness::process_kill::writer::exit_with_parent;

/// Name of the only file.
pub(super) const DISK_FILE: &str = "disk";

const DISK_INODE: INodeNo = INodeNo(2);

/// The kernel may cache attributes forever, because nothing changes them.
const CACHE_TIME: Duration = Duration::from_secs(86_400);

/// Arguments of the serving process.
#[derive(Debug, clap::Args)]
pub(crate) struct RecorderArgs {
    /// File with the contents of the disk.
    image: PathBuf,
    /// File for the records.
    records: PathBuf,
    /// Mount point.
    mount_point: PathBuf,
}

/// Serves the file system until it is unmounted.
pub(crate) fn run_recorder(arguments: &RecorderArgs) -> ExitCode {
    exit_with_parent();
    match serve(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(arguments: &RecorderArgs) -> std::io::Result<()> {
    let image = File::options().read(true).write(true).open(&arguments.image)?;
    let records = File::options().append(true).create(true).open(&arguments.records)?;
    let disk = RecordedDisk { len: image.metadata()?.len(), image, records: Mutex::new(records) };
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName("terrace-recorder".into())];
    fuser::mount(disk, &arguments.mount_point, &config)
}

struct RecordedDisk {
    image: File,
    len: u64,
    records: Mutex<File>,
}

impl RecordedDisk {
    fn attributes(&self, inode: INodeNo) -> FileAttr {
        let is_disk = inode == DISK_INODE;
        FileAttr {
            ino: inode,
            size: if is_disk { self.len } else { 0 },
            blocks: if is_disk { self.len.div_ceil(512) } else { 0 },
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if is_disk { FileType::RegularFile } else { FileType::Directory },
            perm: if is_disk { 0o600 } else { 0o700 },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }

    fn reply_attributes(&self, inode: INodeNo, reply: ReplyAttr) {
        if inode == INodeNo::ROOT || inode == DISK_INODE {
            reply.attr(&CACHE_TIME, &self.attributes(inode));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    /// Appends a record in one call, before the kernel gets its answer.
    fn record(&self, header: RecordHeader, data: &[u8]) -> std::io::Result<()> {
        let mut bytes = header.encode().to_vec();
        bytes.extend_from_slice(data);
        self.records.lock().write_all(&bytes)
    }

    fn write(&self, offset: u64, data: &[u8]) -> std::io::Result<()> {
        self.record(RecordHeader::Write { offset, len: data.len() as u64 }, data)?;
        self.image.write_all_at(data, offset)
    }
}

impl Filesystem for RecordedDisk {
    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if parent == INodeNo::ROOT && name == DISK_FILE {
            reply.entry(&CACHE_TIME, &self.attributes(DISK_INODE), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _request: &Request, inode: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        self.reply_attributes(inode, reply);
    }

    fn open(&self, _request: &Request, _inode: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(1), FopenFlags::empty());
    }

    fn read(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let len = u64::from(size).min(self.len.saturating_sub(offset));
        let mut bytes = vec![0; len as usize];
        match self.image.read_exact_at(&mut bytes, offset) {
            Ok(()) => reply.data(&bytes),
            Err(_) => reply.error(Errno::EIO),
        }
    }

    fn write(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match RecordedDisk::write(self, offset, data) {
            Ok(()) => reply.written(data.len() as u32),
            Err(_) => reply.error(Errno::EIO),
        }
    }

    fn flush(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        _lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        // A close of the file is no flush of the disk.
        reply.ok();
    }

    fn fsync(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        match self.record(RecordHeader::Flush, &[]) {
            Ok(()) => reply.ok(),
            Err(_) => reply.error(Errno::EIO),
        }
    }

    fn fallocate(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        _offset: u64,
        _length: u64,
        _mode: i32,
        reply: ReplyEmpty,
    ) {
        // The kernel then writes zeros instead, which are recorded.
        reply.error(Errno::EOPNOTSUPP);
    }
}
