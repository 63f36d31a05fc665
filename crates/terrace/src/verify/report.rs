//! What a check found, for programs and for people.

use std::fmt;

/// Something wrong with a file. Prints as `000042.ldb at 81920: checksum 0x0000000e, expected 0x0000000f as stored`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The name of the file in the database's directory.
    pub file: String,
    /// The offset in bytes, if there is one.
    pub offset: Option<u64>,
    /// What was found and what was expected.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(at) = self.offset {
            write!(f, " at {at}")?;
        }
        write!(f, ": {}", self.message)
    }
}

/// What [`verify`](crate::verify) found. Prints as a line per problem and one that sums up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Files read.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Entries in tables, all versions and deletes included, and operations in logs.
    pub entries: u64,
    /// What is wrong, in the order in which it was met.
    pub problems: Vec<Problem>,
}

impl VerifyReport {
    /// True if nothing is wrong.
    ///
    /// ```
    /// # use terrace::{Db, Env, Options, verify};
    /// # let options = Options { create_if_missing: true, env: Env::memory(), ..Options::default() };
    /// # Db::open("cities", &options)?.close()?;
    /// let report = verify("cities", &options, &mut |_, _| {})?;
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
        let VerifyReport { files, bytes, entries, problems } = self;
        write!(f, "{files} files, {bytes} bytes, {entries} entries: ")?;
        match problems.len() {
            0 => f.write_str("no problem"),
            1 => f.write_str("1 problem"),
            n => write!(f, "{n} problems"),
        }
    }
}
