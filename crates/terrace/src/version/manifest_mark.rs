//! Marks of Terrace in a MANIFEST.
//!
//! ```text
//!   each edit         compact pointer of level 6: "terrace wrote MANIFEST-000007, logs mapped"
//!   last, at close    compact pointer of level 6: "terrace closed 000009.log at 34567"
//!   after a repair    first pointer of the first edit: "terrace repaired MANIFEST-000012"
//! ```
//!
//! A compact pointer is the key at which the next compaction of a level starts. The last level has
//! no compactions, so every reader of the format ignores its pointer. LevelDB copies the pointer to
//! its own MANIFEST. The file numbers in the marks show that such a copy is not valid there.

use terrace_env::LogFile;
use terrace_format::filename::FileName;
use terrace_format::key::{InternalKey, ValueType};
use terrace_format::version_edit::{NUM_LEVELS, VersionEdit};
use terrace_format::{DecodeError, DecodeErrorKind};

/// Log that a clean close has made durable and has truncated to its records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClosedLog {
    pub(crate) number: u64,
    /// Length of the log in bytes.
    pub(crate) len: u64,
}

impl ClosedLog {
    /// Returns the damage of the log if its records, which end at `end`, are not all that it had at
    /// its close. It has `length` bytes now. Another program may have continued it.
    pub(crate) fn damage(self, end: u64, length: u64) -> Option<DecodeError> {
        if length < self.len {
            let found = format!("a log of {length} bytes");
            let expected = format!("{}, its length at the close", self.len);
            return Some(DecodeError::new(DecodeErrorKind::Truncated, end, found, expected));
        }
        // A flipped bit in a length makes a record seem incomplete and hides all later records.
        let is_incomplete = length == self.len && end < length;
        let found = "an incomplete record in a closed log";
        is_incomplete.then(|| DecodeError::new(DecodeErrorKind::Truncated, end, found, "complete records"))
    }
}

/// Method by which a run writes its logs. It decides which writes a power cut may lose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogWriteMethod {
    /// Stores into a mapping. A power cut may lose any page.
    Mapped,
    /// Appends. A power cut loses the end.
    Appended,
    /// Appends to a file of a custom file system, which may lose any page.
    Custom,
}

impl LogWriteMethod {
    /// Returns the method of the log `file`.
    pub(crate) fn of(file: &dyn LogFile) -> LogWriteMethod {
        match (file.capacity() > 0, file.may_lose_pages()) {
            (true, _) => LogWriteMethod::Mapped,
            (false, true) => LogWriteMethod::Custom,
            (false, false) => LogWriteMethod::Appended,
        }
    }

    const ALL: [(LogWriteMethod, &str); 3] = [
        (LogWriteMethod::Mapped, "mapped"),
        (LogWriteMethod::Appended, "appended"),
        (LogWriteMethod::Custom, "custom"),
    ];
}

/// Statement of Terrace in a MANIFEST.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ManifestMark {
    /// Terrace wrote the edit, in the MANIFEST with this number.
    Written { number: u64, log_method: LogWriteMethod },
    /// The database was closed, and its last log is durable.
    Closed(ClosedLog),
    /// A repair wrote the MANIFEST with this number. Every later MANIFEST of Terrace says so, too.
    Repaired { number: u64 },
}

impl ManifestMark {
    /// Returns the compact pointer with the mark.
    pub(super) fn to_compact_pointer(self) -> (usize, InternalKey) {
        let text = match self {
            ManifestMark::Written { number, log_method } => {
                let name = LogWriteMethod::ALL
                    .iter()
                    .find(|(method, _)| *method == log_method)
                    .map_or("", |row| row.1);
                format!("terrace wrote {}, logs {name}", FileName::Manifest(number))
            }
            ManifestMark::Closed(ClosedLog { number, len }) => {
                format!("terrace closed {} at {len}", FileName::Log(number))
            }
            ManifestMark::Repaired { number } => {
                format!("terrace repaired {}", FileName::Manifest(number))
            }
        };
        (NUM_LEVELS - 1, InternalKey::new(text.as_bytes(), 0, ValueType::Value))
    }

    /// Returns the number of the MANIFEST that a repair wrote, if `edit` states it.
    pub(super) fn repaired_manifest(edit: &VersionEdit) -> Option<u64> {
        let last_level = edit.compact_pointers.iter().filter(|(level, _)| *level == NUM_LEVELS - 1);
        last_level.filter_map(|(_, key)| ManifestMark::text(key)).find_map(|text| {
            match FileName::parse(text.strip_prefix("repaired ")?)? {
                FileName::Manifest(number) => Some(number),
                _ => None,
            }
        })
    }

    /// Returns the last mark in `edit`, if there is one.
    pub(super) fn in_edit(edit: &VersionEdit) -> Option<ManifestMark> {
        let (_, key) = edit.compact_pointers.iter().rfind(|(level, _)| *level == NUM_LEVELS - 1)?;
        ManifestMark::parse(ManifestMark::text(key)?)
    }

    /// Returns the text of the mark with which a compact pointer of the last level has replaced its
    /// key, without "terrace".
    fn text(key: &InternalKey) -> Option<&str> {
        std::str::from_utf8(key.user_key().strip_prefix(b"terrace ")?).ok()
    }

    fn parse(text: &str) -> Option<ManifestMark> {
        let (verb, rest) = text.split_once(' ')?;
        let (name, rest) = rest.split_once([',', ' ']).unwrap_or((rest, ""));
        match (verb, FileName::parse(name)?) {
            ("repaired", FileName::Manifest(number)) if rest.is_empty() => {
                Some(ManifestMark::Repaired { number })
            }
            ("wrote", FileName::Manifest(number)) => {
                let method = rest.strip_prefix(" logs ")?;
                let (log_method, _) = *LogWriteMethod::ALL.iter().find(|(_, name)| *name == method)?;
                Some(ManifestMark::Written { number, log_method })
            }
            ("closed", FileName::Log(number)) => {
                let len = rest.strip_prefix("at ")?.parse().ok()?;
                Some(ManifestMark::Closed(ClosedLog { number, len }))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mark_is_found_again() {
        for mark in [
            ManifestMark::Written { number: 7, log_method: LogWriteMethod::Mapped },
            ManifestMark::Written { number: 1_234_567, log_method: LogWriteMethod::Appended },
            ManifestMark::Written { number: 8, log_method: LogWriteMethod::Custom },
            ManifestMark::Closed(ClosedLog { number: 9, len: 34_567 }),
            ManifestMark::Repaired { number: 12 },
        ] {
            let compact_pointers =
                vec![(0, InternalKey::new(b"d", 2, ValueType::Value)), mark.to_compact_pointer()];
            let edit = VersionEdit { compact_pointers, ..VersionEdit::default() };
            assert_eq!(ManifestMark::in_edit(&edit), Some(mark));
            let is_repaired = mark == ManifestMark::Repaired { number: 12 };
            assert_eq!(ManifestMark::repaired_manifest(&edit), is_repaired.then_some(12));
        }
    }

    #[test]
    fn other_pointers_are_no_marks() {
        for text in [
            "",
            "terrace",
            "terrace wrote 000009.log",
            "terrace wrote MANIFEST-000009, logs",
            "terrace closed 000009.log at",
            "terrace closed MANIFEST-000001 at 5",
        ] {
            let pointer = (NUM_LEVELS - 1, InternalKey::new(text.as_bytes(), 0, ValueType::Value));
            let edit = VersionEdit { compact_pointers: vec![pointer], ..VersionEdit::default() };
            assert_eq!(ManifestMark::in_edit(&edit), None, "{text}");
        }
    }
}
