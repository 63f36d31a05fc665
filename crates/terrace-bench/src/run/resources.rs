//! Resource usage of this process: processor time, memory, bytes written to storage, disk space.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use terrace_env::ProcessTimes;

/// Resource counters of this process; `None` where the system does not provide them.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResourceUsage {
    /// Processor time of all threads since the process started.
    pub cpu_time: Option<Duration>,
    /// Bytes in pages that the process dirtied, without pages that were dropped before writeback.
    pub bytes_written: Option<u64>,
}

impl ResourceUsage {
    /// Reads the current counters.
    pub fn read() -> ResourceUsage {
        ResourceUsage { cpu_time: process_cpu_time(), bytes_written: storage_bytes_written() }
    }
}

/// Processor time of all threads.
fn process_cpu_time() -> Option<Duration> {
    ProcessTimes::current().map(|times| times.user + times.system)
}

fn storage_bytes_written() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/io").ok()?;
    Some(parse_field(&text, "write_bytes:")?.saturating_sub(parse_field(&text, "cancelled_write_bytes:")?))
}

fn parse_field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Resets [`peak_memory`]. Has no effect if the system does not permit it.
pub fn reset_peak_memory() {
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// Peak memory of this process since it started, or since [`reset_peak_memory`].
pub fn peak_memory() -> Option<u64> {
    Some(parse_field(&fs::read_to_string("/proc/self/status").ok()?, "VmHWM:")? * 1024)
}

/// Disk space of the files below `dir`.
pub fn disk_usage(dir: &Path) -> Option<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(dir).ok()? {
        let entry = entry.ok()?;
        // A file may be removed between the listing and this call.
        let Ok(metadata) = entry.metadata() else { continue };
        sum += if metadata.is_dir() { disk_usage(&entry.path())? } else { allocated(&metadata) };
    }
    Some(sum)
}

/// Disk space of a file, or its length on a system that does not tell the space.
fn allocated(metadata: &fs::Metadata) -> u64 {
    #[cfg(unix)]
    return std::os::unix::fs::MetadataExt::blocks(metadata) * 512;
    #[cfg(not(unix))]
    metadata.len()
}

/// Interval at which the processor time is polled.
const IDLE_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Processor time per poll that counts as idle: 2 % of the interval.
const IDLE_CPU_PER_POLL: Duration = Duration::from_micros(400);
/// Number of consecutive idle polls after which background work has ended. Terrace begins the
/// compactions after a load up to a second after its end.
const IDLE_POLLS: u32 = 60;
/// Maximum wait for background work.
const QUIET_TIMEOUT: Duration = Duration::from_secs(600);

/// Waits until the other threads of the process are idle. Returns how long they were busy, or
/// `None` if that is unknown or they are still busy after `QUIET_TIMEOUT`.
pub fn wait_until_quiet() -> Option<Duration> {
    let start = Instant::now();
    let mut busy_until = Duration::ZERO;
    let mut quiet = 0;
    let mut before = process_cpu_time()?;
    while quiet < IDLE_POLLS {
        thread::sleep(IDLE_POLL_INTERVAL);
        let now = process_cpu_time()?;
        if now.saturating_sub(before) > IDLE_CPU_PER_POLL {
            busy_until = start.elapsed();
            quiet = 0;
        } else {
            quiet += 1;
        }
        before = now;
        if start.elapsed() > QUIET_TIMEOUT {
            return None;
        }
    }
    Some(busy_until)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields() {
        let text = "write_bytes: 4096\ncancelled_write_bytes: 1\nVmHWM:\t  12 kB\n";
        assert_eq!(
            ["write_bytes:", "VmHWM:", "none:"].map(|name| parse_field(text, name)),
            [Some(4096), Some(12), None]
        );
    }

    #[test]
    fn space_of_files_and_folders() {
        let dir = tempfile::tempdir().expect("a directory for the test");
        fs::create_dir(dir.path().join("a")).expect("it is writable");
        fs::write(dir.path().join("a/b"), [1; 10_000]).expect("it is writable");
        assert!(disk_usage(dir.path()).is_some_and(|bytes| bytes >= 8192));
    }

    #[test]
    fn waits_for_busy_threads() {
        let stop = Instant::now() + Duration::from_millis(100);
        let worker = thread::spawn(move || while Instant::now() < stop {});
        assert!(wait_until_quiet().is_some_and(|busy| busy > Duration::ZERO));
        assert!(worker.is_finished());
        worker.join().expect("it does not panic");
    }
}
