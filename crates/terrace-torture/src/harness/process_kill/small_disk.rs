//! A disk of a few megabytes that is full until a process frees space.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// A tmpfs mount. Dropping it unmounts it.
pub(in super::super) struct SmallDisk {
    dir: TempDir,
}

impl SmallDisk {
    /// Mounts a disk of `megabytes` MiB. Returns None if this process may not mount.
    pub(in super::super) fn mount(megabytes: u64) -> Option<SmallDisk> {
        let dir = tempfile::tempdir().ok()?;
        let size = format!("size={megabytes}m");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(dir.path());
        let mounted = mount.stdout(Stdio::null()).stderr(Stdio::null()).status().ok()?.success();
        mounted.then(|| SmallDisk { dir })
    }

    /// Returns the mount point.
    pub(in super::super) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the path of the file that fills the disk.
    pub(in super::super) fn ballast_path(&self) -> PathBuf {
        self.path().join("ballast")
    }

    /// Fills the disk up to `free_bytes` bytes.
    pub(in super::super) fn fill(&self, free_bytes: u64) -> Result<(), String> {
        let describe = |error: std::io::Error| format!("ballast: {error}");
        let mut file = std::fs::File::create(self.ballast_path()).map_err(describe)?;
        let mut len = 0_u64;
        while let Ok(written) = file.write(&[0; 16 << 10]) {
            len += written as u64;
        }
        file.set_len(len.saturating_sub(free_bytes)).map_err(describe)
    }

    /// Frees the space.
    pub(in super::super) fn free_space(&self) {
        // A child between its fork and its exec keeps files of this process open. A removal alone
        // may therefore free the space too late. The writer may have removed the file already.
        let _ = std::fs::OpenOptions::new().write(true).truncate(true).open(self.ballast_path());
        let _ = std::fs::remove_file(self.ballast_path());
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // After a failed unmount, a temporary directory is left over. A lazy one succeeds while a
        // child of this process, before its exec, still has a file of the disk open.
        let _ = Command::new("umount").arg("--lazy").arg(self.dir.path()).stderr(Stdio::null()).status();
    }
}
