//! Memory limit of a measuring process, including the system's cache of its files: a control group.
//!
//! Supports both versions of control groups. Creating a group needs permission to write to their
//! file system.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::engine::Result;

/// A control group, removed on drop if no process is in it.
#[derive(Debug)]
pub(super) struct MemoryCgroup {
    path: PathBuf,
}

/// Parent directory of memory control groups and the name of their limit file, for both versions.
const CGROUP_ROOTS: [(&str, &str); 2] =
    [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];

impl MemoryCgroup {
    /// Creates a group whose processes may use `bytes` of memory together.
    pub(super) fn new(bytes: u64) -> Result<MemoryCgroup> {
        let attempts =
            CGROUP_ROOTS.map(|(root, file)| MemoryCgroup::create_under(Path::new(root), file, bytes));
        let mut errors = Vec::new();
        for attempt in attempts {
            match attempt {
                Ok(group) => return Ok(group),
                Err(error) => errors.push(error),
            }
        }
        Err(format!("a memory limit needs a control group: {}", errors.join("; ")))
    }

    fn create_under(root: &Path, file: &str, bytes: u64) -> Result<MemoryCgroup> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        // Without the memory controller these files are missing, and a directory would not be a
        // group.
        let has_controller = ["cgroup.procs", "memory.stat"].iter().all(|name| root.join(name).exists());
        if !has_controller {
            return Err(format!("{}: no memory controller", root.display()));
        }
        let path = root.join(format!("terrace-bench-{}-{next}", process::id()));
        fs::create_dir(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let group = MemoryCgroup { path };
        group.write(file, &bytes.to_string())?;
        Ok(group)
    }

    /// Adds a process, and all processes that it starts afterwards.
    pub(super) fn add_process(&self, process: u32) -> Result<()> {
        self.write("cgroup.procs", &process.to_string())
    }

    fn write(&self, file: &str, text: &str) -> Result<()> {
        let path = self.path.join(file);
        fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))
    }
}

impl Drop for MemoryCgroup {
    fn drop(&mut self) {
        // A group that cannot be removed is empty and limits no other process.
        let _ = fs::remove_dir(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_without_memory_controller_is_rejected() {
        let dir = tempfile::tempdir().expect("a directory for the test");
        let refused = MemoryCgroup::create_under(dir.path(), "memory.max", 1 << 20)
            .expect_err("the root has no controller");
        assert!(refused.ends_with("no memory controller"), "{refused}");
        assert_eq!(fs::read_dir(dir.path()).expect("it is there").count(), 0);
    }

    #[test]
    fn limit_is_written() {
        // The directory imitates a group of version 2.
        let dir = tempfile::tempdir().expect("a directory for the test");
        for name in ["cgroup.procs", "memory.stat"] {
            fs::write(dir.path().join(name), "").expect("it is writable");
        }
        let group = MemoryCgroup::create_under(dir.path(), "memory.max", 1 << 20).expect("all is there");
        group.add_process(7).expect("it is writable");
        let said = |name| fs::read_to_string(group.path.join(name)).expect("it was written");
        assert_eq!([said("memory.max"), said("cgroup.procs")], ["1048576", "7"]);
    }
}
