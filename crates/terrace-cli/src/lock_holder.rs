//! Processes that hold a lock on a file, as Linux lists them in `/proc/locks`.
//!
//! The list covers every kind of lock that the engine and LevelDB take, unless the lock belongs to
//! an open file only. Other systems have no such list, so a message there names no process.

use std::path::Path;

use terrace_env::{Env, FileIdentity};

use crate::input::read_file;

/// Describes the other processes that hold a lock on the file `path`, if the system lists them:
/// `process 3740 (terrace)`.
pub(crate) fn describe_lock_holders(path: &Path) -> Option<String> {
    let identity = Env::default().fs.identity(path).ok()?;
    let locks = read_file(Path::new("/proc/locks")).ok()?;
    let holders = holders(&String::from_utf8_lossy(&locks), &identity);
    let names: Vec<String> = holders.into_iter().map(describe_process).collect();
    match names.len() {
        0 => None,
        1 => Some(format!("process {}", names[0])),
        _ => Some(format!("processes {}", names.join(", "))),
    }
}

/// Returns the other processes with a lock on the file, each once.
fn holders(locks: &str, identity: &FileIdentity) -> Vec<u32> {
    // Linux puts the low bits of both numbers into the low 32 bits of this value.
    let device = identity.device;
    let major = (device >> 8 & 0xfff) | (device >> 32 & !0xfff);
    let minor = (device & 0xff) | (device >> 12 & 0xffff_ff00);
    let file = format!("{major:02x}:{minor:02x}:{}", identity.inode);
    let mut holders = Vec::new();
    for line in locks.lines() {
        // A line is `1: FLOCK  ADVISORY  WRITE 3740 fe:00:9978202 0 EOF`. A process that waits for
        // the lock has `->` after the number.
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.get(5) != Some(&file.as_str()) {
            continue;
        }
        // The process is 0 in another namespace, and -1 for the lock of an open file.
        let process = words[4].parse().ok().filter(|&id| id > 0 && id != std::process::id());
        holders.extend(process.filter(|id| !holders.contains(id)));
    }
    holders
}

/// Returns the number of the process `id`, and its name if that is known.
fn describe_process(id: u32) -> String {
    match read_file(Path::new(&format!("/proc/{id}/comm"))) {
        Ok(name) => format!("{id} ({})", String::from_utf8_lossy(&name).trim_end()),
        Err(_) => id.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_holder_once() {
        let locks = "1: FLOCK  ADVISORY  WRITE 11 fe:00:77 0 EOF\n\
            2: OFDLCK ADVISORY  WRITE -1 fe:00:77 0 EOF\n\
            3: POSIX  ADVISORY  READ 12 fe:00:77 0 EOF\n\
            3: -> POSIX  ADVISORY  WRITE 15 fe:00:77 0 EOF\n\
            4: POSIX  ADVISORY  READ 12 fe:00:77 1 2\n\
            5: FLOCK  ADVISORY  WRITE 13 fe:00:78 0 EOF\n\
            6: FLOCK  ADVISORY  WRITE 0 fe:00:77 0 EOF\n";
        let identity = FileIdentity { device: 0xfe00, inode: 77, created_at: None };
        assert_eq!(holders(locks, &identity), [11, 12]);
    }
}
