//! List of the files of a backup: `000003.files`, a text file.
//!
//! ```text
//!   terrace backup 1
//!   source /srv/cities                              path of the database
//!   sequence 81920                                  of the last write
//!   created 1760000000000000                        microseconds since 1970
//!   new 4194304                                     bytes that this backup added
//!   000012.ldb 2097152 0f1e2d3c4b5a6978             name, size, content hash
//!   ...
//!   end 8a6b4c2d0e1f3a5b                            content hash of all lines above
//! ```
//!
//! The last line shows that the list is complete and undamaged.

use std::fmt::Write;
use std::path::Path;
use std::str::FromStr;

use terrace_format::filename::FileName;
use terrace_format::key::SequenceNumber;

use super::content_hash::ContentHash;
use super::file_copy::FileDigest;
use crate::error::{Error, Result};

const FIRST_LINE: &str = "terrace backup 1";

/// Description of a complete backup.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupInfo {
    /// Identifier: 1 for the first backup of a directory, never used twice while a later backup
    /// exists.
    pub id: u64,
    /// Absolute path of the database at the time of the backup, with escaped control characters.
    pub source: String,
    /// Sequence number of the last write in the backup.
    pub sequence: SequenceNumber,
    /// Time of the creation in microseconds since 1970-01-01 UTC.
    pub created_us: u64,
    /// Size of all files of the backup, in bytes.
    pub bytes: u64,
    /// Bytes of `bytes` that no earlier backup had stored.
    pub new_bytes: u64,
}

/// File of a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ListedFile {
    pub(super) name: FileName,
    pub(super) digest: FileDigest,
}

impl ListedFile {
    /// Returns the name of the table in the directory of all tables. None for other files.
    ///
    /// The content makes two tables equal, not the file number: a restored database uses file
    /// numbers again that later backups of the original have.
    pub(super) fn stored_name(&self) -> Option<String> {
        let number = self.name.number().filter(|_| self.name.is_table())?;
        Some(stored_table_name(number, self.digest))
    }
}

/// Returns the name under which a table is stored once for all backups.
pub(super) fn stored_table_name(number: u64, digest: FileDigest) -> String {
    format!("{number:06}-{}-{:016x}.ldb", digest.size, digest.hash)
}

/// Description and files of one backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BackupList {
    pub(super) info: BackupInfo,
    pub(super) files: Vec<ListedFile>,
}

impl BackupList {
    pub(super) fn encode(&self) -> Vec<u8> {
        let BackupInfo { source, sequence, created_us, new_bytes, .. } = &self.info;
        let mut text = format!(
            "{FIRST_LINE}\nsource {source}\nsequence {sequence}\ncreated {created_us}\nnew {new_bytes}\n"
        );
        for ListedFile { name, digest } in &self.files {
            // A write to a string cannot fail.
            let _ = writeln!(text, "{name} {} {:016x}", digest.size, digest.hash);
        }
        let _ = writeln!(text, "end {:016x}", ContentHash::of(text.as_bytes()));
        text.into_bytes()
    }

    /// Decodes the list of backup `id`. Errors name the file at `path`.
    pub(super) fn decode(id: u64, bytes: &[u8], path: &Path) -> Result<BackupList> {
        decode(id, bytes).ok_or_else(|| {
            Error::corruption(path, None, "is no complete list of a backup: its last line does not match")
        })
    }
}

fn decode(id: u64, bytes: &[u8]) -> Option<BackupList> {
    let text = std::str::from_utf8(bytes).ok()?.strip_suffix('\n')?;
    let (lines, end) = text.rsplit_once('\n')?;
    let hash = u64::from_str_radix(end.strip_prefix("end ")?, 16).ok()?;
    if ContentHash::of(&bytes[..lines.len() + 1]) != hash {
        return None;
    }
    let mut lines = lines.lines();
    if lines.next()? != FIRST_LINE {
        return None;
    }
    let source = lines.next()?.strip_prefix("source ")?.to_owned();
    let sequence = number_after("sequence ", lines.next()?)?;
    let created_us = number_after("created ", lines.next()?)?;
    let new_bytes = number_after("new ", lines.next()?)?;
    let files = lines.map(decode_file).collect::<Option<Vec<_>>>()?;
    let bytes = files.iter().fold(0u64, |sum, file| sum.saturating_add(file.digest.size));
    let info = BackupInfo { id, source, sequence, created_us, bytes, new_bytes };
    Some(BackupList { info, files })
}

fn number_after<T: FromStr>(prefix: &str, line: &str) -> Option<T> {
    line.strip_prefix(prefix)?.parse().ok()
}

fn decode_file(line: &str) -> Option<ListedFile> {
    let mut words = line.split(' ');
    let name = FileName::parse(words.next()?)?;
    let size = words.next()?.parse().ok()?;
    let hash = u64::from_str_radix(words.next()?, 16).ok()?;
    words.next().is_none().then_some(ListedFile { name, digest: FileDigest { size, hash } })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> BackupList {
        let file = |name, size, hash| ListedFile { name, digest: FileDigest { size, hash } };
        BackupList {
            info: BackupInfo {
                id: 3,
                source: "/srv/the cities".into(),
                sequence: 7,
                created_us: 9,
                bytes: 116,
                new_bytes: 16,
            },
            files: vec![file(FileName::Table(12), 100, u64::MAX), file(FileName::Current, 16, 1)],
        }
    }

    #[test]
    fn encoded_lists_are_decoded() {
        let list = example();
        assert_eq!(BackupList::decode(3, &list.encode(), Path::new("000003.files")).unwrap(), list);
        assert_eq!(example().files[0].stored_name().as_deref(), Some("000012-100-ffffffffffffffff.ldb"));
        assert_eq!(example().files[1].stored_name(), None);
    }

    #[test]
    fn damage_is_an_error() {
        let bytes = example().encode();
        for len in 0..bytes.len() {
            assert!(BackupList::decode(3, &bytes[..len], Path::new("000003.files")).is_err(), "{len} bytes");
            let mut flipped = bytes.clone();
            flipped[len] ^= 1;
            assert!(BackupList::decode(3, &flipped, Path::new("000003.files")).is_err(), "byte {len}");
        }
    }
}
