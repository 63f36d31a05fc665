//! Acknowledged writes: one number per thread, in a file in shared memory that outlives the writer.
//!
//! One call writes the eight bytes of a number, so a kill leaves the old number or the new one.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

const ENTRY_SIZE: u64 = 8;

/// Ledger, shared by a writer process and the process that checks it.
pub(in crate::harness) struct Ledger {
    file: File,
    threads: usize,
}

impl Ledger {
    /// Creates a ledger with the given numbers, and replaces an existing file.
    pub(in crate::harness) fn create(path: &Path, numbers: &[u64]) -> Result<Ledger, String> {
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        std::fs::write(path, bytes).map_err(|error| format!("{}: {error}", path.display()))?;
        Ledger::open(path, numbers.len())
    }

    /// Opens an existing ledger.
    pub(in crate::harness) fn open(path: &Path, threads: usize) -> Result<Ledger, String> {
        let opened = File::options().read(true).write(true).open(path);
        Ok(Ledger { file: opened.map_err(|error| format!("{}: {error}", path.display()))?, threads })
    }

    /// Records that the write `number` of a thread, and all earlier ones, were acknowledged.
    pub(in crate::harness) fn record(&self, thread: u64, number: u64) -> Result<(), String> {
        let written = self.file.write_all_at(&number.to_le_bytes(), thread * ENTRY_SIZE);
        written.map_err(|error| format!("ledger: {error}"))
    }

    /// Returns the number of each thread.
    pub(in crate::harness) fn read(&self) -> Result<Vec<u64>, String> {
        (0..self.threads as u64).map(|thread| self.read_entry(thread)).collect()
    }

    fn read_entry(&self, thread: u64) -> Result<u64, String> {
        let mut entry = [0; ENTRY_SIZE as usize];
        let read = self.file.read_exact_at(&mut entry, thread * ENTRY_SIZE);
        read.map(|()| u64::from_le_bytes(entry)).map_err(|error| format!("ledger: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ledger_returns_last_number_of_each_thread() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ledger");
        Ledger::create(&path, &[7, 8]).unwrap();
        let writer = Ledger::open(&path, 2).unwrap();
        writer.record(1, 9).unwrap();
        writer.record(1, 10).unwrap();
        assert_eq!(writer.read().unwrap(), [7, 10]);
    }
}
