//! Description of the machine of a run.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::report::model::Machine;

/// Commit of the Terrace build, or empty.
pub const COMMIT: &str = env!("TERRACE_COMMIT");

/// Describes this machine and the file system of `dir`.
pub fn describe(dir: &Path) -> Machine {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let dir = fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
    let memory =
        value_of_line(&read("/proc/meminfo"), "MemTotal").and_then(|kib| kib.split(' ').next()?.parse().ok());
    Machine {
        cpu: value_of_line(&read("/proc/cpuinfo"), "model name").unwrap_or_default(),
        cores: thread::available_parallelism().map_or(0, usize::from),
        memory_bytes: memory.map_or(0, |kib: u64| kib * 1024),
        kernel: format!("Linux {}", read("/proc/sys/kernel/osrelease").trim()),
        filesystem: filesystem(&read("/proc/self/mounts"), &dir).unwrap_or_default(),
        directory: dir.display().to_string(),
    }
}

/// Value after the colon of the first line that begins with `name`.
fn value_of_line(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// Type of the innermost mount that contains `dir`.
fn filesystem(mounts: &str, dir: &Path) -> Option<String> {
    let mounts = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        Some((words.next()?, words.next()?))
    });
    let containing = mounts.filter(|(point, _)| dir.starts_with(point));
    containing.max_by_key(|(point, _)| point.len()).map(|(_, kind)| kind.to_owned())
}

/// Current time in UTC, as `2026-01-31T23:59:59Z`.
pub fn utc_now() -> String {
    format_utc(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
}

fn format_utc(seconds: u64) -> String {
    let day = seconds / 86_400;
    let second = seconds % 86_400;
    let (year, month, date) = civil_from_days(day);
    let hour = second / 3600;
    let minute = second / 60 % 60;
    format!("{year:04}-{month:02}-{date:02}T{hour:02}:{minute:02}:{:02}Z", second % 60)
}

/// Converts a day since 1970-01-01 to year, month and day. The calculation starts years in March,
/// so that a leap day is the last day of its year.
fn civil_from_days(day: u64) -> (u64, u64, u64) {
    let since_year_0 = day + 719_468;
    let era = since_year_0 / 146_097;
    let day_of_era = since_year_0 % 146_097;
    let year = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let date = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + next, month, date)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_798_761_599, "2026-12-31T23:59:59Z"),
        ] {
            assert_eq!(format_utc(seconds), text);
        }
    }

    #[test]
    fn innermost_mount() {
        let mounts = "/dev/a / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n/dev/b /tmpx xfs rw 0 0\n";
        for (dir, kind) in [("/home", "ext4"), ("/tmp/x", "tmpfs"), ("/tmpx", "xfs")] {
            assert_eq!(filesystem(mounts, Path::new(dir)).as_deref(), Some(kind));
        }
    }
}
