//! Table of the file systems.

/// Kind and options of a file system.
#[derive(Debug)]
pub(in crate::harness) struct FileSystemRow {
    /// Name in violations and in lines `NOT TESTED`.
    pub(in crate::harness) name: &'static str,
    /// Program that creates the file system and its arguments, without the image. Empty for tmpfs.
    pub(in crate::harness) mkfs: &'static [&'static str],
    pub(in crate::harness) image_mib: u64,
    /// Type and options of the mount.
    pub(in crate::harness) mount: (&'static str, &'static str),
    /// True if the database is on an overlayfs whose upper directory is on this file system.
    pub(in crate::harness) has_overlay: bool,
    /// Start of the log method that `LOG` must name.
    pub(in crate::harness) log_method: &'static str,
    /// False if the file system loses synced writes at a power cut.
    pub(in crate::harness) survives_power_cuts: bool,
    /// True if files can share blocks.
    pub(in crate::harness) has_reflinks: bool,
}

const EXT4_LOG: &str = "mapped: ext4 writes in place";
const XFS_REFLINK_LOG: &str = "appended: XFS with reflinks copies shared blocks on write";
const BTRFS_LOG: &str = "appended: a file system of type 0x9123683e may copy on write";
const OVERLAY_LOG: &str = "appended: a file system of type 0x794c7630 may copy on write";

/// Arguments of `mkfs.ext4`, without those of a row. No space is reserved for the root user.
macro_rules! mkfs_ext {
    ($program:literal $(, $argument:literal)*) => { &[$program, "-q", "-F", "-m", "0" $(, $argument)*] };
}

const fn ext(name: &'static str, mkfs: &'static [&'static str], options: &'static str) -> FileSystemRow {
    FileSystemRow {
        name,
        mkfs,
        image_mib: 24,
        mount: ("ext4", options),
        has_overlay: false,
        log_method: EXT4_LOG,
        survives_power_cuts: true,
        has_reflinks: false,
    }
}

/// XFS has at least 300 MiB.
const fn xfs(name: &'static str, mkfs: &'static [&'static str], has_reflinks: bool) -> FileSystemRow {
    let log_method =
        if has_reflinks { XFS_REFLINK_LOG } else { "mapped: XFS without reflinks writes in place" };
    FileSystemRow { image_mib: 300, mount: ("xfs", ""), log_method, has_reflinks, ..ext(name, mkfs, "") }
}

/// btrfs has at least 109 MiB.
const fn btrfs(name: &'static str, options: &'static str) -> FileSystemRow {
    FileSystemRow {
        image_mib: 128,
        mount: ("btrfs", options),
        log_method: BTRFS_LOG,
        has_reflinks: true,
        ..ext(name, &["mkfs.btrfs", "-q", "-f"], "")
    }
}

const fn overlay(name: &'static str, base: FileSystemRow) -> FileSystemRow {
    FileSystemRow { name, has_overlay: true, log_method: OVERLAY_LOG, ..base }
}

/// All file systems.
pub(in crate::harness) static FILE_SYSTEMS: &[FileSystemRow] = &[
    ext("ext4", mkfs_ext!("mkfs.ext4"), ""),
    ext("ext4 with blocks of 1 KiB", mkfs_ext!("mkfs.ext4", "-b", "1024"), ""),
    ext("ext4 with data=writeback", mkfs_ext!("mkfs.ext4"), "data=writeback"),
    FileSystemRow {
        survives_power_cuts: false,
        ..ext("ext4 without a journal", mkfs_ext!("mkfs.ext4", "-O", "^has_journal"), "")
    },
    // The ballast writes zeros here, so the image is smaller.
    FileSystemRow {
        image_mib: 12,
        mount: ("ext3", ""),
        log_method: "appended: the system allocates no space: ",
        ..ext("ext3", mkfs_ext!("mkfs.ext3"), "")
    },
    xfs("XFS with reflinks", &["mkfs.xfs", "-q", "-f", "-m", "reflink=1"], true),
    xfs("XFS without reflinks", &["mkfs.xfs", "-q", "-f", "-m", "reflink=0"], false),
    btrfs("btrfs", ""),
    btrfs("btrfs with compression", "compress-force=zstd"),
    overlay("overlayfs on ext4", ext("", mkfs_ext!("mkfs.ext4"), "")),
    overlay("overlayfs on XFS", xfs("", &["mkfs.xfs", "-q", "-f", "-m", "reflink=1"], true)),
    overlay("overlayfs on btrfs", btrfs("", "")),
    FileSystemRow {
        image_mib: 16,
        mount: ("tmpfs", ""),
        log_method: "mapped: tmpfs writes in place",
        survives_power_cuts: false,
        ..ext("tmpfs", &[], "")
    },
];
