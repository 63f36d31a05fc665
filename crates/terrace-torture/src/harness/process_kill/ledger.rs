//! What writers acknowledged: a number for each thread, in a file in shared memory, which outlives its writers.
//!
//! A number is eight bytes, written by one call: a kill leaves the old one or the new one.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

const ENTRY_SIZE: u64 = 8;

/// The ledger of a process and those that watch it.
pub(super) struct Ledger {
    file: File,
    threads: usize,
}

impl Ledger {
    /// A new one in place of any that is there.
    pub(super) fn create(path: &Path, numbers: &[u64]) -> Result<Ledger, String> {
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        std::fs::write(path, bytes).map_err(|error| format!("{}: {error}", path.display()))?;
        Ledger::open(path, numbers.len())
    }

    /// One that is there.
    pub(super) fn open(path: &Path, threads: usize) -> Result<Ledger, String> {
        let opened = File::options().read(true).write(true).open(path);
        Ok(Ledger { file: opened.map_err(|error| format!("{}: {error}", path.display()))?, threads })
    }

    /// Notes that a thread's write of that number, and all before it, were acknowledged.
    pub(super) fn record(&self, thread: u64, number: u64) -> Result<(), String> {
        let noted = self.file.write_all_at(&number.to_le_bytes(), thread * ENTRY_SIZE);
        noted.map_err(|error| format!("ledger: {error}"))
    }

    /// The number of each thread.
    pub(super) fn read(&self) -> Result<Vec<u64>, String> {
        let word = |thread| {
            let mut word = [0; ENTRY_SIZE as usize];
            let read = self.file.read_exact_at(&mut word, thread as u64 * ENTRY_SIZE);
            read.map(|()| u64::from_le_bytes(word)).map_err(|error| format!("ledger: {error}"))
        };
        (0..self.threads).map(word).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_last_number_of_each_thread() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ledger");
        Ledger::create(&path, &[7, 8]).unwrap();
        let writer = Ledger::open(&path, 2).unwrap();
        writer.record(1, 9).unwrap();
        writer.record(1, 10).unwrap();
        assert_eq!(writer.read().unwrap(), [7, 10]);
    }
}
