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
    /// Number of entries in tables, with all versions and tombstones, and of operations in logs.
    pub entries: u64,
    /// Problems, in the order of the checks.
    pub problems: Vec<Problem>,
    /// Unusual findings that lose no entry, such as bytes after the end of a table. LevelDB ignores
    /// them too.
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
}

impl fmt::Display for VerifyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in &self.problems {
            writeln!(f, "{problem}")?;
        }
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        let VerifyReport { files, bytes, entries, problems, .. } = self;
        write!(f, "{files} files, {bytes} bytes, {entries} entries: ")?;
        match problems.len() {
            0 => f.write_str("no problem"),
            1 => f.write_str("1 problem"),
            n => write!(f, "{n} problems"),
        }
    }
}
