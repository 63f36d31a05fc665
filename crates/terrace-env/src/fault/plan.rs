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
pub enum FileOp {
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
    WriteAt,
    /// Syncing a file, of either kind.
    Sync,
    TruncateAndClose,
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

static OP_NAMES: &[(FileOp, &str)] = &[
    (FileOp::Open, "open"),
    (FileOp::Create, "create"),
    (FileOp::OpenAppend, "open-append"),
    (FileOp::CreateLog, "create-log"),
    (FileOp::Read, "read"),
    (FileOp::Skip, "skip"),
    (FileOp::Append, "append"),
    (FileOp::Flush, "flush"),
    (FileOp::Close, "close"),
    (FileOp::WriteAt, "store"),
    (FileOp::Sync, "sync"),
    (FileOp::TruncateAndClose, "finish"),
    (FileOp::Stat, "stat"),
    (FileOp::List, "list"),
    (FileOp::CreateDir, "create-dir"),
    (FileOp::RemoveDir, "remove-dir"),
    (FileOp::Remove, "remove"),
    (FileOp::Rename, "rename"),
    (FileOp::SyncDir, "sync-dir"),
    (FileOp::Lock, "lock"),
    (FileOp::Any, "any"),
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
    SyncLosesData,
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

static FAULT_NAMES: &[(Fault, &str)] = &[
    (Fault::Error(Errno::Eio), "EIO"),
    (Fault::Error(Errno::Enospc), "ENOSPC"),
    (Fault::Error(Errno::Edquot), "EDQUOT"),
    (Fault::Error(Errno::Emfile), "EMFILE"),
    (Fault::Error(Errno::Eintr), "EINTR"),
    (Fault::Error(Errno::Eacces), "EACCES"),
    (Fault::Error(Errno::Erofs), "EROFS"),
    (Fault::ShortRead, "short-read"),
    (Fault::ShortWrite, "short-write"),
    (Fault::SyncLosesData, "sync-forgets"),
];

impl Errno {
    /// The error as the system would give it.
    pub(super) fn to_io_error(self) -> io::Error {
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
pub struct FaultRule {
    /// The call.
    pub op: FileOp,
    /// How the file's name begins or ends; any name if empty.
    pub file_name: String,
    /// The first matching call that is hit, counted from 1.
    pub first_call: u64,
    /// How many matching calls are hit from there on; `None` for all.
    pub repeat: Option<u64>,
    /// What happens. A fault that makes no sense for the call is an `EIO`.
    pub fault: Fault,
}

impl FaultRule {
    pub(super) fn matches(&self, op: FileOp, path: &Path) -> bool {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        (self.op == op || self.op == FileOp::Any)
            && (name.starts_with(&self.file_name) || name.ends_with(&self.file_name))
    }

    /// True if the `n`-th matching call, counted from 1, is hit.
    pub(super) fn applies_to_call(&self, n: u64) -> bool {
        n >= self.first_call && self.repeat.is_none_or(|times| n - self.first_call < times)
    }
}

/// Rules, the first of which has the first word.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FaultPlan {
    /// The rules.
    pub rules: Vec<FaultRule>,
}

/// A plan that can't be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("fault plan: {found:?} where {expected} is expected, in {rule:?}")]
pub struct FaultPlanError {
    rule: String,
    found: String,
    expected: &'static str,
}

impl FromStr for FaultPlan {
    type Err = FaultPlanError;

    fn from_str(text: &str) -> Result<FaultPlan, FaultPlanError> {
        let lines = text.split([';', '\n']).map(str::trim).filter(|line| !line.is_empty());
        Ok(FaultPlan { rules: lines.map(str::parse).collect::<Result<_, _>>()? })
    }
}

impl FromStr for FaultRule {
    type Err = FaultPlanError;

    fn from_str(text: &str) -> Result<FaultRule, FaultPlanError> {
        let mut words = text.split_whitespace();
        let mut field = |expected| RuleWord { rule: text, word: words.next().unwrap_or_default(), expected };
        let rule = FaultRule {
            op: field("a call").lookup(OP_NAMES)?,
            file_name: field("a name or *")
                .parse(|word| Some(word.strip_prefix('*').unwrap_or(word).to_owned()))?,
            first_call: field("#1 or more")
                .parse(|word| word.strip_prefix('#')?.parse().ok().filter(|&n| n > 0))?,
            repeat: field("once, forever or x2").parse(parse_repeat)?,
            fault: field("a fault").lookup(FAULT_NAMES)?,
        };
        match words.next() {
            None => Ok(rule),
            Some(word) => RuleWord { rule: text, word, expected: "the end" }.parse(|_| None),
        }
    }
}

/// A word of a rule, and what it should be.
struct RuleWord<'a> {
    rule: &'a str,
    word: &'a str,
    expected: &'static str,
}

impl RuleWord<'_> {
    fn parse<T>(&self, read: impl FnOnce(&str) -> Option<T>) -> Result<T, FaultPlanError> {
        let read = if self.word.is_empty() { None } else { read(self.word) };
        read.ok_or_else(|| FaultPlanError {
            rule: self.rule.to_owned(),
            found: self.word.to_owned(),
            expected: self.expected,
        })
    }

    fn lookup<T: Copy>(&self, table: &[(T, &str)]) -> Result<T, FaultPlanError> {
        self.parse(|word| table.iter().find(|(_, name)| *name == word).map(|(value, _)| *value))
    }
}

fn parse_repeat(word: &str) -> Option<Option<u64>> {
    match word {
        "once" => Some(Some(1)),
        "forever" => Some(None),
        _ => Some(Some(word.strip_prefix('x')?.parse().ok()?)),
    }
}

fn name_of<T: Copy + PartialEq>(table: &[(T, &'static str)], value: T) -> &'static str {
    table.iter().find(|(row, _)| *row == value).map_or("?", |(_, name)| name)
}

impl Display for FaultPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, rule) in self.rules.iter().enumerate() {
            write!(f, "{}{rule}", if i == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

impl Display for FaultRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.file_name.is_empty() { "*" } else { &self.file_name };
        write!(f, "{} {name} #{} ", name_of(OP_NAMES, self.op), self.first_call)?;
        match self.repeat {
            Some(1) => f.write_str("once")?,
            None => f.write_str("forever")?,
            Some(times) => write!(f, "x{times}")?,
        }
        write!(f, " {}", name_of(FAULT_NAMES, self.fault))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: &str) {
        let read = text.parse::<FaultPlan>().map_or_else(|e| e.to_string(), |plan| plan.to_string());
        assert_eq!(read, expect);
    }

    #[test]
    fn display_round_trips() {
        check("sync .log #2 once EIO", "sync .log #2 once EIO");
        check(
            "\n  create  * #1 forever ENOSPC ;read MANIFEST #3 x4 short-read\n",
            "create * #1 forever ENOSPC; read MANIFEST #3 x4 short-read",
        );
        check("", "");
    }

    #[test]
    fn every_op_and_fault_has_a_name() {
        for (op, name) in OP_NAMES {
            assert_eq!(format!("{name} * #1 once EIO").parse::<FaultRule>().unwrap().op, *op);
        }
        for (fault, name) in FAULT_NAMES {
            assert_eq!(format!("sync * #1 once {name}").parse::<FaultRule>().unwrap().fault, *fault);
        }
    }

    #[test]
    fn error_names_the_wrong_word() {
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
