//! File names of a database, and the contents of CURRENT.
//!
//! ```text
//!   <n>.log        WAL                     CURRENT    the name of the live MANIFEST and a newline
//!   <n>.ldb        table                   LOCK       locked while the database is open
//!   <n>.sst        table, old name         LOG        info log
//!   <n>.dbtmp      unfinished file         LOG.old    info log of the run before
//!   MANIFEST-<n>   log of version edits               n: at least six digits, with leading zeros
//! ```
//!
//! Terrace ignores and keeps files whose names do not parse.

use std::fmt;

/// Name of a database file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileName {
    /// WAL.
    Log(u64),
    /// Table.
    Table(u64),
    /// Table with the file extension of LevelDB before 1.14.
    OldTable(u64),
    /// MANIFEST.
    Manifest(u64),
    /// Unfinished file that is renamed at the end.
    Temp(u64),
    /// File that names the live MANIFEST.
    Current,
    /// File whose lock marks an open database.
    Lock,
    /// Info log of this run.
    InfoLog,
    /// Info log of the run before.
    OldInfoLog,
}

const MANIFEST_PREFIX: &str = "MANIFEST-";

impl FileName {
    /// Parses `name` by LevelDB's grammar, which permits any number of digits if the number fits 64
    /// bits.
    pub fn parse(name: &str) -> Option<FileName> {
        match name {
            "CURRENT" => return Some(FileName::Current),
            "LOCK" => return Some(FileName::Lock),
            "LOG" => return Some(FileName::InfoLog),
            "LOG.old" => return Some(FileName::OldInfoLog),
            _ => {}
        }
        if let Some(digits) = name.strip_prefix(MANIFEST_PREFIX) {
            return parse_number(digits).map(FileName::Manifest);
        }
        let (digits, suffix) = name.split_once('.')?;
        let kind = match suffix {
            "log" => FileName::Log,
            "ldb" => FileName::Table,
            "sst" => FileName::OldTable,
            "dbtmp" => FileName::Temp,
            _ => return None,
        };
        parse_number(digits).map(kind)
    }

    /// Returns true for a table, with the current or the old file extension.
    pub fn is_table(&self) -> bool {
        matches!(self, FileName::Table(_) | FileName::OldTable(_))
    }

    /// Returns the file number.
    pub fn number(&self) -> Option<u64> {
        match *self {
            FileName::Log(n)
            | FileName::Table(n)
            | FileName::OldTable(n)
            | FileName::Manifest(n)
            | FileName::Temp(n) => Some(n),
            FileName::Current | FileName::Lock | FileName::InfoLog | FileName::OldInfoLog => None,
        }
    }
}

/// Parses digits only: `u64::from_str` alone would accept a sign.
fn parse_number(digits: &str) -> Option<u64> {
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileName::Log(n) => write!(f, "{n:06}.log"),
            FileName::Table(n) => write!(f, "{n:06}.ldb"),
            FileName::OldTable(n) => write!(f, "{n:06}.sst"),
            FileName::Manifest(n) => write!(f, "{MANIFEST_PREFIX}{n:06}"),
            FileName::Temp(n) => write!(f, "{n:06}.dbtmp"),
            FileName::Current => f.write_str("CURRENT"),
            FileName::Lock => f.write_str("LOCK"),
            FileName::InfoLog => f.write_str("LOG"),
            FileName::OldInfoLog => f.write_str("LOG.old"),
        }
    }
}

/// Contents of CURRENT.
pub mod current {
    use super::FileName;
    use crate::decode_error::{DecodeError, DecodeErrorKind};

    /// Returns the contents of CURRENT for the MANIFEST with number `manifest`.
    pub fn encode(manifest: u64) -> Vec<u8> {
        format!("{}\n", FileName::Manifest(manifest)).into_bytes()
    }

    /// Returns the number of the live MANIFEST.
    ///
    /// All other contents are refused, such as a path. A MANIFEST name with another count of digits
    /// is refused too, because it names another file.
    pub fn decode(contents: &[u8]) -> Result<u64, DecodeError> {
        let Some((b'\n', name)) = contents.split_last() else {
            return Err(current_error(contents.len(), contents, "a newline at its end"));
        };
        match std::str::from_utf8(name).ok().and_then(FileName::parse) {
            Some(FileName::Manifest(number)) if encode(number) == contents => Ok(number),
            _ => Err(current_error(0, name, "the name of a manifest, MANIFEST-<at least six digits>")),
        }
    }

    fn current_error(offset: usize, found: &[u8], expected: &str) -> DecodeError {
        const MAX_SHOWN: usize = 40;
        let shown = &found[..found.len().min(MAX_SHOWN)];
        let dots = if found.len() > MAX_SHOWN { ".." } else { "" };
        DecodeError::new(
            DecodeErrorKind::Malformed,
            offset as u64,
            format!("\"{}\"{dots}", shown.escape_ascii()),
            expected,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use FileName::*;

    #[test]
    fn names_of_leveldb() {
        let rows: &[(&str, FileName)] = &[
            ("000100.log", Log(100)),
            ("000000.log", Log(0)),
            ("000007.ldb", Table(7)),
            ("000007.sst", OldTable(7)),
            ("123456789.dbtmp", Temp(123_456_789)),
            ("MANIFEST-000002", Manifest(2)),
            ("MANIFEST-1234567", Manifest(1_234_567)),
            ("18446744073709551615.log", Log(u64::MAX)),
            ("CURRENT", Current),
            ("LOCK", Lock),
            ("LOG", InfoLog),
            ("LOG.old", OldInfoLog),
        ];
        for (name, file) in rows {
            assert_eq!(FileName::parse(name), Some(*file), "{name}");
            assert_eq!(file.to_string(), *name);
        }
    }

    #[test]
    fn other_counts_of_digits_are_read() {
        assert_eq!(FileName::parse("100.log"), Some(Log(100)));
        assert_eq!(FileName::parse("0.sst"), Some(OldTable(0)));
        assert_eq!(FileName::parse("MANIFEST-2"), Some(Manifest(2)));
        assert_eq!(FileName::parse("00000000000000000000000000000007.ldb"), Some(Table(7)));
    }

    #[test]
    fn foreign_names_are_rejected() {
        #[rustfmt::skip]
        let names = [
            "", "foo", "foo-dx-100.log", ".log", "manifest", "CURREN", "CURRENTX", "MANIFES", "MANIFEST", "MANIFEST-",
            "XMANIFEST-3", "MANIFEST-3x", "MANIFEST-+3", "LOC", "LOCKx", "LO", "LOGx", "LOG.", "LOG.old2", "100", "100.",
            "100.lop", "100.log.", "100.log.bak", "+1.log", "-1.log", " 1.log", "1 .log", "0x1.log", "../000001.log",
            "000001.LDB", "\u{0661}.log", "18446744073709551616.log", "184467440737095516150.log",
        ];
        for name in names {
            assert_eq!(FileName::parse(name), None, "{name}");
        }
    }

    #[test]
    fn numbers() {
        assert_eq!(
            [Log(1), Table(2), OldTable(3), Manifest(4), Temp(5)].map(|f| f.number().unwrap()),
            [1, 2, 3, 4, 5]
        );
        assert!([Current, Lock, InfoLog, OldInfoLog].iter().all(|file| file.number().is_none()));
    }

    #[test]
    fn current_file() {
        assert_eq!(current::encode(5), b"MANIFEST-000005\n");
        for number in [0, 1, 999_999, 1_000_000, u64::MAX] {
            assert_eq!(current::decode(&current::encode(number)), Ok(number));
        }
    }

    #[track_caller]
    fn check_current(contents: &[u8], expect: &str) {
        assert_eq!(current::decode(contents).unwrap_err().to_string(), expect);
    }

    #[test]
    fn hostile_current_files() {
        let name = "expected the name of a manifest, MANIFEST-<at least six digits>";
        check_current(b"", "\"\", expected a newline at its end");
        check_current(b"MANIFEST-000005", "\"MANIFEST-000005\", expected a newline at its end");
        check_current(b"\n", &format!("\"\", {name}"));
        check_current(b"MANIFEST-000005\n\n", &format!("\"MANIFEST-000005\\n\", {name}"));
        check_current(b"MANIFEST-5\n", &format!("\"MANIFEST-5\", {name}"));
        check_current(b"MANIFEST-0000005\n", &format!("\"MANIFEST-0000005\", {name}"));
        check_current(
            b"MANIFEST-18446744073709551616\n",
            &format!("\"MANIFEST-18446744073709551616\", {name}"),
        );
        check_current(b"../MANIFEST-000005\n", &format!("\"../MANIFEST-000005\", {name}"));
        check_current(b"000005.log\n", &format!("\"000005.log\", {name}"));
        check_current(b"MANIFEST-00000\xff\n", &format!("\"MANIFEST-00000\\xff\", {name}"));
        check_current(&[b'M'; 50], &format!("\"{}\".., expected a newline at its end", "M".repeat(40)));
    }
}
