//! The records that the live logs of a directory contain, by LevelDB's rules.

use std::collections::BTreeMap;
use std::path::Path;

use terrace_format::DecodeErrorKind;
use terrace_format::batch::{self, BatchOp};
use terrace_format::filename::{FileName, current};
use terrace_format::key::SequenceNumber;
use terrace_format::log::{LOG_BLOCK_SIZE, LogItem, LogReader};
use terrace_format::version_edit::VersionEdit;

/// Logs of a database that is not open.
#[derive(Debug, Default, Clone)]
pub(super) struct LogScan {
    /// Last sequence number in the MANIFEST.
    pub(super) manifest_sequence: SequenceNumber,
    /// True if a table has a greater sequence number than the MANIFEST.
    pub(super) has_hidden_table: bool,
    /// True if a log has bytes after its last record that belong to no record, or damage before it.
    pub(super) is_damaged: bool,
    /// True if a record follows one that breaks off after its first fragments.
    pub(super) has_record_after_torn_one: bool,
    records: Vec<LoggedRecord>,
}

/// Complete record of a log.
#[derive(Debug, Clone)]
pub(super) struct LoggedRecord {
    pub(super) sequence: SequenceNumber,
    /// True if the record before it breaks off after its first fragments.
    pub(super) follows_torn_record: bool,
    put_keys: Vec<String>,
    deleted_keys: Vec<String>,
}

impl LogScan {
    /// Reads the logs in `dir` that the MANIFEST needs. Files that cannot be read count as empty.
    pub(super) fn of(dir: &Path) -> LogScan {
        let mut scan = LogScan::default();
        let Some((log_number, manifest_sequence, table_sequence)) = read_manifest(dir) else { return scan };
        scan.manifest_sequence = manifest_sequence;
        scan.has_hidden_table = table_sequence > manifest_sequence;
        let mut logs: Vec<u64> = logs_in(dir).filter(|&number| number >= log_number).collect();
        logs.sort_unstable();
        for number in logs {
            scan.read_log(&std::fs::read(dir.join(FileName::Log(number).to_string())).unwrap_or_default());
        }
        scan
    }

    fn read_log(&mut self, bytes: &[u8]) {
        let mut reader = LogReader::new(bytes);
        let mut follows_torn_record = false;
        while let Ok(Some(item)) = reader.next() {
            match item {
                LogItem::Record { data, .. } => {
                    self.has_record_after_torn_one |= follows_torn_record;
                    self.records.extend(decode_record(data, follows_torn_record));
                    follows_torn_record = false;
                }
                LogItem::Corruption { error, .. } => {
                    self.is_damaged = true;
                    follows_torn_record = error.kind == DecodeErrorKind::Truncated;
                }
            }
        }
        let end = reader.log_end();
        // A byte of a torn record can be zero.
        let has_torn_zeros = end.offset < bytes.len() as u64 && !bytes.len().is_multiple_of(LOG_BLOCK_SIZE);
        self.is_damaged |= !end.is_clean || has_torn_zeros;
    }

    /// Returns the record with a put or a deletion of `key`, if a log has one.
    pub(super) fn find(&self, key: &str, is_deletion: bool) -> Option<&LoggedRecord> {
        self.records.iter().find(|record| {
            let keys = if is_deletion { &record.deleted_keys } else { &record.put_keys };
            keys.iter().any(|found| found == key)
        })
    }
}

fn decode_record(data: &[u8], follows_torn_record: bool) -> Option<LoggedRecord> {
    let batch = batch::validate(data).ok()?;
    let sequence = batch.sequence();
    let mut record = LoggedRecord { sequence, follows_torn_record, put_keys: vec![], deleted_keys: vec![] };
    for operation in batch.iter() {
        match operation {
            BatchOp::Put { key, .. } => record.put_keys.push(String::from_utf8_lossy(key).into_owned()),
            BatchOp::Delete { key } => record.deleted_keys.push(String::from_utf8_lossy(key).into_owned()),
        }
    }
    Some(record)
}

/// Returns the log number and the last sequence number of the MANIFEST, and the greatest sequence
/// number in the key ranges of its tables.
fn read_manifest(dir: &Path) -> Option<(u64, SequenceNumber, SequenceNumber)> {
    let current = std::fs::read(dir.join(FileName::Current.to_string())).ok()?;
    let number = current::decode(&current).ok()?;
    let bytes = std::fs::read(dir.join(FileName::Manifest(number).to_string())).ok()?;
    let mut reader = LogReader::new(bytes.as_slice());
    let mut numbers = (0, 0);
    let mut tables = BTreeMap::new();
    while let Ok(Some(item)) = reader.next() {
        let LogItem::Record { data, .. } = item else { continue };
        let edit = VersionEdit::decode(data).ok()?;
        numbers = (edit.log_number.unwrap_or(numbers.0), edit.last_sequence.unwrap_or(numbers.1));
        tables.retain(|table, _| !edit.deleted_files.contains(table));
        tables.extend(edit.new_files.into_iter().map(|(level, file)| {
            ((level, file.number), file.smallest.sequence().max(file.largest.sequence()))
        }));
    }
    Some((numbers.0, numbers.1, tables.into_values().max().unwrap_or(0)))
}

/// Returns the numbers of all logs in a directory.
fn logs_in(dir: &Path) -> impl Iterator<Item = u64> {
    let files = std::fs::read_dir(dir).into_iter().flatten().flatten();
    files.filter_map(|file| match FileName::parse(file.file_name().to_str()?)? {
        FileName::Log(number) => Some(number),
        _ => None,
    })
}

/// Returns the size in bytes of the newest log, or 0 if there is none.
pub(super) fn newest_log_size(dir: &Path) -> u64 {
    let newest = logs_in(dir).max().map(|number| dir.join(FileName::Log(number).to_string()));
    newest.and_then(|path| path.metadata().ok()).map_or(0, |metadata| metadata.len())
}

#[cfg(test)]
mod tests {
    use terrace_format::batch::encode_single_op;
    use terrace_format::log::RecordWriter;

    use super::*;

    /// Returns the records in a log: keys of puts, each with the size of its value in bytes. The
    /// next record follows the first `cut` bytes of the first one.
    fn scan(keys: &[(&str, usize)], cut: Option<usize>) -> LogScan {
        let mut log = Vec::new();
        for (index, (key, value_len)) in keys.iter().enumerate() {
            let mut record = Vec::new();
            encode_single_op(&mut record, 1 + index as u64, key.as_bytes(), Some(&vec![b'v'; *value_len]));
            for fragment in RecordWriter::resume_at(log.len() as u64).add_record(&record) {
                log.resize(fragment.offset as usize, 0);
                log.extend_from_slice(&fragment.header);
                log.extend_from_slice(fragment.payload);
            }
            if let Some(cut) = cut.filter(|_| index == 0) {
                log.truncate(cut);
            }
        }
        let mut scan = LogScan::default();
        scan.read_log(&log);
        scan
    }

    #[test]
    fn complete_records_are_found() {
        let scan = scan(&[("a", 10), ("b", 70_000), ("c", 0)], None);
        assert_eq!(scan.find("b", false).map(|record| record.sequence), Some(2));
        assert!(scan.find("b", true).is_none() && scan.find("d", false).is_none());
        assert!(!scan.is_damaged && !scan.has_record_after_torn_one);
    }

    #[test]
    fn record_after_first_fragments_is_marked() {
        // The first block of the torn record is complete.
        let scan = scan(&[("a", 70_000), ("b", 10), ("c", 10)], Some(32 << 10));
        assert!(scan.find("a", false).is_none());
        assert_eq!(scan.find("b", false).map(|record| record.follows_torn_record), Some(true));
        assert_eq!(scan.find("c", false).map(|record| record.follows_torn_record), Some(false));
        assert!(scan.is_damaged && scan.has_record_after_torn_one);
    }

    #[test]
    fn zeros_after_the_last_record() {
        let mut log = Vec::new();
        let mut is_damaged = |len| {
            log.resize(len, 0);
            let mut scan = LogScan::default();
            scan.read_log(&log);
            scan.is_damaged
        };
        assert!(!is_damaged(0), "an empty log");
        assert!(is_damaged(1), "a part of a torn record");
        assert!(!is_damaged(LOG_BLOCK_SIZE), "a mapped log");
    }

    #[test]
    fn records_after_a_torn_fragment_are_lost() {
        let scan = scan(&[("a", 100), ("b", 10), ("c", 10)], Some(50));
        assert!(["a", "b", "c"].iter().all(|key| scan.find(key, false).is_none()));
        assert!(scan.is_damaged && !scan.has_record_after_torn_one);
    }
}
