//! A measuring process that may have only so much memory, the system's cache of its files included: a control group of its own.
//!
//! Both versions of control groups will do, where the group can be made: that needs the right to write in their file system.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::engine::Result;

/// A control group. Dropped, it is removed, if nothing is in it any more.
#[derive(Debug)]
pub(super) struct MemoryCgroup {
    path: PathBuf,
}

/// Where the groups are that limit memory, and the file that says how much; of both versions.
const CGROUP_ROOTS: [(&str, &str); 2] =
    [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];

impl MemoryCgroup {
    /// A group for processes that may have `bytes` together.
    pub(super) fn new(bytes: u64) -> Result<MemoryCgroup> {
        let tried = CGROUP_ROOTS.map(|(root, file)| MemoryCgroup::create_under(Path::new(root), file, bytes));
        let mut errors = Vec::new();
        for tried in tried {
            match tried {
                Ok(group) => return Ok(group),
                Err(error) => errors.push(error),
            }
        }
        Err(format!("a limit for memory needs a control group: {}", errors.join("; ")))
    }

    fn create_under(root: &Path, file: &str, bytes: u64) -> Result<MemoryCgroup> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        // Where nothing limits memory there is no such file, and a folder would be no group.
        let limits = ["cgroup.procs", "memory.stat"].iter().all(|name| root.join(name).exists());
        if !limits {
            return Err(format!("{}: limits no memory", root.display()));
        }
        let path = root.join(format!("terrace-bench-{}-{next}", process::id()));
        fs::create_dir(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let group = MemoryCgroup { path };
        group.write(file, &bytes.to_string())?;
        Ok(group)
    }

    /// Puts a process in it, and all that it starts from now on.
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
        // What is left limits nobody, and is empty.
        let _ = fs::remove_dir(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_without_memory_controller_is_rejected() {
        let dir = tempfile::tempdir().expect("a directory for the test");
        let refused =
            MemoryCgroup::create_under(dir.path(), "memory.max", 1 << 20).expect_err("it limits nothing");
        assert!(refused.ends_with("limits no memory"), "{refused}");
        assert_eq!(fs::read_dir(dir.path()).expect("it is there").count(), 0);
    }

    #[test]
    fn limit_is_written() {
        // Looks like a group of the second version.
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
