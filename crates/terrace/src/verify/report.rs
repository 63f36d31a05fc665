//! Report of a check, for programs and for people.

use std::fmt;

/// A problem with a file. Prints as `000042.ldb at 81920: checksum 0x0000000e, expected 0x0000000f
/// as stored`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Name of the file in the directory of the database.
    pub file: String,
    /// Offset in bytes, if there is one.
    pub offset: Option<u64>,
    /// Found and expected values.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(offset) = self.offset {
            write!(f, " at {offset}")?;
        }
        write!(f, ": {}", self.message)
    }
}

/// Findings of [`verify`](fn@crate::verify). Prints as one line per problem or note and a summary
/// line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Number of files read.
    pub files: u64,
    /// Number of bytes read.
    pub bytes: u64,
    /// Number of keys that a scan shows. None without a readable manifest.
    pub keys: Option<u64>,
    /// Number of stored versions of keys, with tombstones: the entries of tables and the operations
    /// in logs.
    pub versions: u64,
    /// Problems, in the order of the checks.
    pub problems: Vec<Problem>,
    /// Unusual findings that lose no entry, such as bytes after the end of a table, or the record
    /// at the end of a log that a killed process has not completed. LevelDB ignores them too.
    pub notes: Vec<Problem>,
}

impl VerifyReport {
    /// Returns whether the check found no problem.
    ///
    /// ```
    /// # use terrace::{Db, Env, Options, verify};
    /// # let env = Env::in_memory();
    /// # let options = Options::default().create_if_missing(true).env(env);
    /// # Db::open("cities", &options)?.close()?;
    /// let report = verify("cities", &options)?;
    /// if !report.is_clean() {
    ///     eprintln!("{report}");
    /// }
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn is_clean(&self) -> bool {
        self.problems.is_empty()
    }

    /// Describes the counts of keys and versions: `19,450 entries in 20,011 versions`. An entry is
    /// a key with its newest value, as in a scan.
    pub fn entry_counts(&self) -> String {
        let versions = count_noun(self.versions, "version", "versions");
        match self.keys {
            Some(keys) => format!("{} in {versions}", count_noun(keys, "entry", "entries")),
            None => versions,
        }
    }
}

impl fmt::Display for VerifyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in &self.problems {
            writeln!(f, "{problem}")?;
        }
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        let files = count_noun(self.files, "file", "files");
        let bytes = count_noun(self.bytes, "byte", "bytes");
        let problems = self.problems.len() as u64;
        write!(f, "{files}, {bytes}, {}: ", self.entry_counts())?;
        match problems {
            0 => f.write_str("no problem"),
            n => f.write_str(&count_noun(n, "problem", "problems")),
        }
    }
}

/// Formats a number with its noun: `1 entry`, `2,210 entries`.
pub(crate) fn count_noun(n: u64, one: &str, many: &str) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text + " " + if n == 1 { one } else { many }
}
