//! Fault plan in text form: the calls that fail, and their faults.
//!
//! ```text
//!   sync .log #2 once EIO            the second sync of a file that ends (or starts) with .log
//!   create * #1 forever ENOSPC       every creation
//!   read MANIFEST #3 x4 short-read   reads 3 to 6 of a MANIFEST
//!   any * #70 once EINTR             call number 70
//!   |    |        |  |  |
//!   op   file  first repeat fault
//! ```
//!
//! Rules are separated by newlines or semicolons. Each rule counts the calls that it matches, and
//! the first rule that applies decides. A plan prints as the text that it is parsed from, so that
//! the output of a failing test can repeat it.

use std::fmt::{self, Display};
use std::io;
use std::path::Path;
use std::str::FromStr;

use crate::system::system_errors;

/// Operation that can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)] // The variants are methods of the traits, or have comments.
pub enum FileOp {
    /// Open for sequential or random reads.
    Open,
    Create,
    /// Open for appending.
    OpenAppend,
    CreateLog,
    Read,
    Skip,
    /// Append of data to a file.
    Append,
    Flush,
    Close,
    WriteAt,
    /// Sync of a file or a log.
    Sync,
    TruncateAndClose,
    /// Query of existence, type or size.
    Stat,
    List,
    CreateDir,
    RemoveDir,
    Remove,
    /// Rename of a file. A rule matches the old or the new name.
    Rename,
    /// Hard link to a file. A rule matches the old or the new name.
    Link,
    SyncDir,
    Lock,
    /// Matches every operation, in a rule.
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
    (FileOp::WriteAt, "write-at"),
    (FileOp::Sync, "sync"),
    (FileOp::TruncateAndClose, "truncate-and-close"),
    (FileOp::Stat, "stat"),
    (FileOp::List, "list"),
    (FileOp::CreateDir, "create-dir"),
    (FileOp::RemoveDir, "remove-dir"),
    (FileOp::Remove, "remove"),
    (FileOp::Rename, "rename"),
    (FileOp::Link, "link"),
    (FileOp::SyncDir, "sync-dir"),
    (FileOp::Lock, "lock"),
    (FileOp::Any, "any"),
];

/// Effect on a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The call has no effect and fails with this error.
    Error(Errno),
    /// A read returns half of its bytes.
    ShortRead,
    /// An append or a log write writes half of its data and fails with `EIO`.
    ShortWrite,
    /// A sync fails with `EIO`, and every later sync of the file succeeds without an effect. A
    /// system that marks unwritten pages clean behaves so.
    SyncLosesData,
    /// The call panics without an effect, as a file system of the caller may.
    Panic,
    /// The call waits for 10 ms, and then works as without a fault.
    Delay,
}

/// Error number of the operating system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // The names are those of the operating system.
pub enum Errno {
    Eio,
    Enospc,
    Edquot,
    Emfile,
    Eintr,
    Eacces,
    Erofs,
    /// The file system does not have the operation.
    Enosys,
}

static FAULT_NAMES: &[(Fault, &str)] = &[
    (Fault::Error(Errno::Eio), "EIO"),
    (Fault::Error(Errno::Enospc), "ENOSPC"),
    (Fault::Error(Errno::Edquot), "EDQUOT"),
    (Fault::Error(Errno::Emfile), "EMFILE"),
    (Fault::Error(Errno::Eintr), "EINTR"),
    (Fault::Error(Errno::Eacces), "EACCES"),
    (Fault::Error(Errno::Erofs), "EROFS"),
    (Fault::Error(Errno::Enosys), "ENOSYS"),
    (Fault::ShortRead, "short-read"),
    (Fault::ShortWrite, "short-write"),
    (Fault::SyncLosesData, "sync-loses-data"),
    (Fault::Panic, "panic"),
    (Fault::Delay, "delay"),
];

impl Errno {
    /// Returns the error as the operating system would report it.
    pub(super) fn to_io_error(self) -> io::Error {
        io::Error::from_raw_os_error(match self {
            Errno::Eio => system_errors::EIO,
            Errno::Enospc => system_errors::ENOSPC,
            Errno::Edquot => system_errors::EDQUOT,
            Errno::Emfile => system_errors::EMFILE,
            Errno::Eintr => system_errors::EINTR,
            Errno::Eacces => system_errors::EACCES,
            Errno::Erofs => system_errors::EROFS,
            Errno::Enosys => system_errors::ENOSYS,
        })
    }
}

/// Rule of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultRule {
    /// Operation.
    pub op: FileOp,
    /// Prefix or suffix of the file name. An empty one matches every name.
    pub file_name: String,
    /// First matching call that fails, counted from 1.
    pub first_call: u64,
    /// Number of matching calls that fail from there on, or `None` for all.
    pub repeat: Option<u64>,
    /// Fault. One that does not fit the operation is an `EIO`.
    pub fault: Fault,
}

impl FaultRule {
    pub(super) fn matches(&self, op: FileOp, path: &Path) -> bool {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        (self.op == op || self.op == FileOp::Any)
            && (name.starts_with(&self.file_name) || name.ends_with(&self.file_name))
    }

    /// Returns true if the rule applies to the `n`-th matching call, counted from 1.
    pub(super) fn applies_to_call(&self, n: u64) -> bool {
        n >= self.first_call && self.repeat.is_none_or(|times| n - self.first_call < times)
    }
}

/// Fault plan. Earlier rules take precedence.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FaultPlan {
    /// Rules, in order of precedence.
    pub rules: Vec<FaultRule>,
}

/// Syntax error of a plan.
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
            op: field("an operation").lookup(OP_NAMES)?,
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

/// Word of a rule, and its expected form.
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
        wrong("fly * #1 once EIO", "fly", "an operation");
        wrong("sync * 1 once EIO", "1", "#1 or more");
        wrong("sync * #0 once EIO", "#0", "#1 or more");
        wrong("sync * #1 twice EIO", "twice", "once, forever or x2");
        wrong("sync * #1 once", "", "a fault");
        wrong("sync * #1 once EIO EIO", "EIO", "the end");
    }
}
