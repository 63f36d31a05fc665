//! A disk of a few megabytes that is full until somebody makes room.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// A tmpfs of its own. Unmounted when it is dropped.
pub(super) struct SmallDisk {
    dir: TempDir,
}

impl SmallDisk {
    /// A disk of so many megabytes, if this process may mount one.
    pub(super) fn mount(megabytes: u64) -> Option<SmallDisk> {
        let dir = tempfile::tempdir().ok()?;
        let size = format!("size={megabytes}m");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(dir.path());
        let mounted = mount.stdout(Stdio::null()).stderr(Stdio::null()).status().ok()?.success();
        mounted.then(|| SmallDisk { dir })
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// The file that takes the room.
    pub(super) fn ballast_path(&self) -> PathBuf {
        self.path().join("ballast")
    }

    /// Takes all of its room but some bytes.
    pub(super) fn fill(&self, but: u64) -> Result<(), String> {
        let say = |error: std::io::Error| format!("ballast: {error}");
        let mut file = std::fs::File::create(self.ballast_path()).map_err(say)?;
        let (piece, mut len) = ([0; 16 << 10], 0_u64);
        while let Ok(written) = file.write(&piece) {
            len += written as u64;
        }
        file.set_len(len.saturating_sub(but)).map_err(say)
    }

    /// Gives it back.
    pub(super) fn free_space(&self) {
        // The writer may have done it.
        let _ = std::fs::remove_file(self.ballast_path());
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Should it fail, a temporary directory stays behind.
        let _ = Command::new("umount").arg(self.dir.path()).stderr(Stdio::null()).status();
    }
}
