//! Memory limit of the process.

use std::fs::read_to_string;
use std::path::{Path, PathBuf};

use rustix::process::{Resource, getrlimit};

use super::platform;

/// Returns the smallest of these limits in bytes: the memory of the machine, the limits of the
/// process's control group and its ancestors, and the resource limits of the process. Returns the
/// greatest number if none is known.
pub(super) fn detect() -> u64 {
    let groups = read_to_string("/proc/self/cgroup").unwrap_or_default();
    groups
        .lines()
        .flat_map(cgroup_limit_files)
        .filter_map(|file| read_limit(&file))
        .chain([platform::physical_memory()])
        .chain(address_space_limit())
        .chain(data_limit())
        .min()
        .unwrap_or(u64::MAX)
}

/// Returns the part of the free address space (`ulimit -v`) that counts as memory, or `None` if it
/// is unlimited.
///
/// That is a quarter. glibc reserves 64 MiB for each of the first threads that allocate, mapped
/// logs count in full, and the program needs space, too.
fn address_space_limit() -> Option<u64> {
    let limit = getrlimit(Resource::As).current?;
    Some(limit.saturating_sub(status_bytes("VmSize:")) / 4)
}

/// Address space in bytes below which the process should start few threads. The 64 MiB of the
/// allocator for each thread of a pool would be a large part of it.
const LITTLE_ADDRESS_SPACE: u64 = 4 << 30;

/// Returns true if the process should start few threads, because its address space is limited.
pub(crate) fn has_little_address_space() -> bool {
    cfg!(target_pointer_width = "32")
        || getrlimit(Resource::As).current.is_some_and(|limit| limit < LITTLE_ADDRESS_SPACE)
}

/// Returns the free part of the limit on private memory (`ulimit -d`), or `None` if it is
/// unlimited.
fn data_limit() -> Option<u64> {
    let limit = getrlimit(Resource::Data).current?;
    Some(limit.saturating_sub(status_bytes("VmData:")))
}

/// Returns the bytes of mapped files that are in the memory of the process.
pub(super) fn resident_mapped_bytes() -> Option<u64> {
    status_row("RssFile:")
}

/// Returns a size in `/proc/self/status`, or 0 on a system without this file.
fn status_bytes(row: &str) -> u64 {
    status_row(row).unwrap_or(0)
}

fn status_row(row: &str) -> Option<u64> {
    parse_status(&read_to_string("/proc/self/status").ok()?, row)
}

/// Parses a row such as `VmSize:      5252 kB`, and returns the number of bytes.
fn parse_status(status: &str, row: &str) -> Option<u64> {
    let size = status.lines().find_map(|line| line.strip_prefix(row))?;
    let kib: u64 = size.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1 << 10)
}

/// Returns the files that may limit a control group.
///
/// `group` is a line of `/proc/self/cgroup`: `0::/path` for version 2 of control groups,
/// `4:memory:/path` for version 1. In a container, the path may not exist, and the root is the
/// container's group.
fn cgroup_limit_files(group: &str) -> Vec<PathBuf> {
    let mut fields = group.splitn(3, ':').skip(1);
    let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { return Vec::new() };
    let (root, name) = match controllers {
        "" => ("/sys/fs/cgroup", "memory.max"),
        _ if controllers.split(',').any(|controller| controller == "memory") => {
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
        }
        _ => return Vec::new(),
    };
    let path = Path::new(path.trim_start_matches('/'));
    path.ancestors().map(|group| Path::new(root).join(group).join(name)).collect()
}

/// Reads the limit of a file, or `None` if it says "max".
fn read_limit(file: &Path) -> Option<u64> {
    read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_files_of_a_cgroup_and_its_ancestors() {
        let files = |group| {
            cgroup_limit_files(group).iter().map(|file| file.display().to_string()).collect::<Vec<_>>()
        };
        let version_2 =
            ["a/b/memory.max", "a/memory.max", "memory.max"].map(|file| format!("/sys/fs/cgroup/{file}"));
        assert_eq!(files("0::/a/b"), version_2);
        assert_eq!(files("4:memory:/"), ["/sys/fs/cgroup/memory/memory.limit_in_bytes"]);
        assert_eq!(files("4:memory:/a")[0], "/sys/fs/cgroup/memory/a/memory.limit_in_bytes");
        for other in ["3:cpu,cpuacct:/a", "", "nonsense", "1:"] {
            assert!(cgroup_limit_files(other).is_empty(), "{other}");
        }
    }

    #[test]
    fn sizes_in_the_status_of_a_process() {
        let status = "Name:\tcat\nVmSize:\t    5252 kB\nVmData:\t 244 kB\nThreads:\t1\n";
        let sizes = ["VmSize:", "VmData:", "VmLck:", "Threads:"].map(|row| parse_status(status, row));
        assert_eq!(sizes, [Some(5252 << 10), Some(244 << 10), None, None]);
    }

    #[test]
    fn detects_a_limit() {
        assert!(detect() >= 16 << 20);
    }
}
