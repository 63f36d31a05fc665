//! Which calls fail, and how: a plan that can be written down.
//!
//! ```text
//!   sync .log #2 once EIO            the second sync of a file whose name ends in .log (or begins so)
//!   create * #1 forever ENOSPC       every creation
//!   read MANIFEST #3 x4 short-read   reads 3 to 6 of a manifest
//!   any * #70 once EINTR             the seventieth call
//!   |    |        |  |  |
//!   call file  from  for what
//! ```
//!
//! Rules stand on lines of their own or are separated by semicolons. Each counts the calls that it matches; the first
//! rule whose turn it is decides. A plan prints as the text it is parsed from, so a failing test can name it.

use std::fmt::{self, Display};
use std::io;
use std::path::Path;
use std::str::FromStr;

/// A call that can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)] // The names are the trait's; those that are not are explained.
pub enum Op {
    /// Opening for reading, either way.
    Open,
    Create,
    /// Opening for writing at the end.
    OpenAppend,
    CreateLog,
    Read,
    Skip,
    /// Appending data to a file.
    Append,
    Flush,
    Close,
    Store,
    /// Syncing a file, of either kind.
    Sync,
    Finish,
    /// Asking whether something exists, what it is, or how long.
    Stat,
    List,
    CreateDir,
    RemoveDir,
    Remove,
    /// Matched by the old or the new name.
    Rename,
    SyncDir,
    Lock,
    /// In a rule: every call, whatever it is.
    Any,
}

static OPS: &[(Op, &str)] = &[
    (Op::Open, "open"),
    (Op::Create, "create"),
    (Op::OpenAppend, "open-append"),
    (Op::CreateLog, "create-log"),
    (Op::Read, "read"),
    (Op::Skip, "skip"),
    (Op::Append, "append"),
    (Op::Flush, "flush"),
    (Op::Close, "close"),
    (Op::Store, "store"),
    (Op::Sync, "sync"),
    (Op::Finish, "finish"),
    (Op::Stat, "stat"),
    (Op::List, "list"),
    (Op::CreateDir, "create-dir"),
    (Op::RemoveDir, "remove-dir"),
    (Op::Remove, "remove"),
    (Op::Rename, "rename"),
    (Op::SyncDir, "sync-dir"),
    (Op::Lock, "lock"),
    (Op::Any, "any"),
];

/// What a call does instead of its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing, and fails with this.
    Error(Errno),
    /// A read gives half of what it found.
    ShortRead,
    /// An append or a store leaves half of its data, then fails with `EIO`.
    ShortWrite,
    /// A sync fails with `EIO`, and every later one of the file succeeds without doing anything: what a system does
    /// that takes the pages it could not write for clean.
    SyncForgets,
}

/// The system's reason for a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // The names are the system's.
pub enum Errno {
    Eio,
    Enospc,
    Edquot,
    Emfile,
    Eintr,
    Eacces,
    Erofs,
}

static FAULTS: &[(Fault, &str)] = &[
    (Fault::Error(Errno::Eio), "EIO"),
    (Fault::Error(Errno::Enospc), "ENOSPC"),
    (Fault::Error(Errno::Edquot), "EDQUOT"),
    (Fault::Error(Errno::Emfile), "EMFILE"),
    (Fault::Error(Errno::Eintr), "EINTR"),
    (Fault::Error(Errno::Eacces), "EACCES"),
    (Fault::Error(Errno::Erofs), "EROFS"),
    (Fault::ShortRead, "short-read"),
    (Fault::ShortWrite, "short-write"),
    (Fault::SyncForgets, "sync-forgets"),
];

impl Errno {
    /// The error as the system would give it.
    pub(super) fn error(self) -> io::Error {
        #[cfg(unix)]
        let number = match self {
            Errno::Eio => libc::EIO,
            Errno::Enospc => libc::ENOSPC,
            Errno::Edquot => libc::EDQUOT,
            Errno::Emfile => libc::EMFILE,
            Errno::Eintr => libc::EINTR,
            Errno::Eacces => libc::EACCES,
            Errno::Erofs => libc::EROFS,
        };
        #[cfg(unix)]
        return io::Error::from_raw_os_error(number);
        #[cfg(not(unix))]
        io::Error::other(format!("planned {self:?}"))
    }
}

/// A row of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The call.
    pub op: Op,
    /// How the file's name begins or ends; any name if empty.
    pub name: String,
    /// The first matching call that is hit, counted from 1.
    pub from: u64,
    /// How many matching calls are hit from there on; `None` for all.
    pub times: Option<u64>,
    /// What happens. A fault that makes no sense for the call is an `EIO`.
    pub fault: Fault,
}

impl Rule {
    pub(super) fn matches(&self, op: Op, path: &Path) -> bool {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        (self.op == op || self.op == Op::Any) && (name.starts_with(&self.name) || name.ends_with(&self.name))
    }

    /// True if the `n`-th matching call, counted from 1, is hit.
    pub(super) fn hits(&self, n: u64) -> bool {
        n >= self.from && self.times.is_none_or(|times| n - self.from < times)
    }
}

/// Rules, the first of which has the first word.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// The rules.
    pub rules: Vec<Rule>,
}

/// A plan that can't be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("fault plan: {found:?} where {expected} is expected, in {rule:?}")]
pub struct PlanError {
    rule: String,
    found: String,
    expected: &'static str,
}

impl FromStr for Plan {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Plan, PlanError> {
        let lines = text.split([';', '\n']).map(str::trim).filter(|line| !line.is_empty());
        Ok(Plan { rules: lines.map(str::parse).collect::<Result<_, _>>()? })
    }
}

impl FromStr for Rule {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Rule, PlanError> {
        let mut words = text.split_whitespace();
        let mut field = |expected| Field { rule: text, word: words.next().unwrap_or_default(), expected };
        let rule = Rule {
            op: field("a call").find_in(OPS)?,
            name: field("a name or *")
                .parse(|word| Some(word.strip_prefix('*').unwrap_or(word).to_owned()))?,
            from: field("#1 or more")
                .parse(|word| word.strip_prefix('#')?.parse().ok().filter(|&n| n > 0))?,
            times: field("once, forever or x2").parse(times)?,
            fault: field("a fault").find_in(FAULTS)?,
        };
        match words.next() {
            None => Ok(rule),
            Some(word) => Field { rule: text, word, expected: "the end" }.parse(|_| None),
        }
    }
}

/// A word of a rule, and what it should be.
struct Field<'a> {
    rule: &'a str,
    word: &'a str,
    expected: &'static str,
}

impl Field<'_> {
    fn parse<T>(&self, read: impl FnOnce(&str) -> Option<T>) -> Result<T, PlanError> {
        let read = if self.word.is_empty() { None } else { read(self.word) };
        read.ok_or_else(|| PlanError {
            rule: self.rule.to_owned(),
            found: self.word.to_owned(),
            expected: self.expected,
        })
    }

    fn find_in<T: Copy>(&self, table: &[(T, &str)]) -> Result<T, PlanError> {
        self.parse(|word| table.iter().find(|(_, name)| *name == word).map(|(value, _)| *value))
    }
}

fn times(word: &str) -> Option<Option<u64>> {
    match word {
        "once" => Some(Some(1)),
        "forever" => Some(None),
        _ => Some(Some(word.strip_prefix('x')?.parse().ok()?)),
    }
}

fn name_in<T: Copy + PartialEq>(table: &[(T, &'static str)], value: T) -> &'static str {
    table.iter().find(|(row, _)| *row == value).map_or("?", |(_, name)| name)
}

impl Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, rule) in self.rules.iter().enumerate() {
            write!(f, "{}{rule}", if i == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

impl Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.name.is_empty() { "*" } else { &self.name };
        write!(f, "{} {name} #{} ", name_in(OPS, self.op), self.from)?;
        match self.times {
            Some(1) => f.write_str("once")?,
            None => f.write_str("forever")?,
            Some(times) => write!(f, "x{times}")?,
        }
        write!(f, " {}", name_in(FAULTS, self.fault))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: &str) {
        let read = text.parse::<Plan>().map_or_else(|e| e.to_string(), |plan| plan.to_string());
        assert_eq!(read, expect);
    }

    #[test]
    fn prints_what_it_reads() {
        check("sync .log #2 once EIO", "sync .log #2 once EIO");
        check(
            "\n  create  * #1 forever ENOSPC ;read MANIFEST #3 x4 short-read\n",
            "create * #1 forever ENOSPC; read MANIFEST #3 x4 short-read",
        );
        check("", "");
    }

    #[test]
    fn every_call_and_fault_has_its_name() {
        for (op, name) in OPS {
            assert_eq!(format!("{name} * #1 once EIO").parse::<Rule>().unwrap().op, *op);
        }
        for (fault, name) in FAULTS {
            assert_eq!(format!("sync * #1 once {name}").parse::<Rule>().unwrap().fault, *fault);
        }
    }

    #[test]
    fn says_which_word_is_wrong() {
        let wrong = |rule: &str, found: &str, expected: &str| {
            check(rule, &format!("fault plan: {found:?} where {expected} is expected, in {rule:?}"));
        };
        wrong("fly * #1 once EIO", "fly", "a call");
        wrong("sync * 1 once EIO", "1", "#1 or more");
        wrong("sync * #0 once EIO", "#0", "#1 or more");
        wrong("sync * #1 twice EIO", "twice", "once, forever or x2");
        wrong("sync * #1 once", "", "a fault");
        wrong("sync * #1 once EIO EIO", "EIO", "the end");
    }
}
