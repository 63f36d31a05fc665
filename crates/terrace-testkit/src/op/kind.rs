//! The kinds of operations, by name: what a run is counted by.

use super::{Harm, Op, Step, Upheaval, Write};

/// Every kind.
pub static KINDS: &[&str] = &[
    "put",
    "put, synced",
    "put of an empty value",
    "put of a MiB",
    "put of the empty key",
    "delete",
    "delete, synced",
    "batch",
    "batch, synced",
    "batch of nothing",
    "batch with a key twice",
    "get",
    "get at a snapshot",
    "get of many",
    "scan",
    "scan at a snapshot",
    "snapshot",
    "release",
    "cursor",
    "cursor at a snapshot",
    "cursor with bounds",
    "cursor with a prefix",
    "first",
    "last",
    "seek",
    "next",
    "prev",
    "close",
    "flush",
    "compact all",
    "compact a range",
    "delete a range",
    "reopen",
    "reopen with other options",
    "size",
    "property",
    "kill",
    "power cut",
    "repair of a healthy one",
    "repair without CURRENT",
    "repair without a manifest",
    "destroy and create",
    "copy",
    "verify",
    "read-only",
];

impl Op {
    /// Its kind, one of [`KINDS`].
    pub fn kind(&self) -> &'static str {
        match self {
            Op::Put { key, .. } if key.is_empty() => "put of the empty key",
            Op::Put { value, .. } if value.len == 0 => "put of an empty value",
            Op::Put { value, .. } if value.len >= 1 << 20 => "put of a MiB",
            Op::Put { sync: true, .. } => "put, synced",
            Op::Put { .. } => "put",
            Op::Delete { sync: true, .. } => "delete, synced",
            Op::Delete { .. } => "delete",
            Op::Batch { writes, .. } if writes.is_empty() => "batch of nothing",
            Op::Batch { writes, .. } if has_a_key_twice(writes) => "batch with a key twice",
            Op::Batch { sync: true, .. } => "batch, synced",
            Op::Batch { .. } => "batch",
            Op::Get { at: None, .. } => "get",
            Op::Get { .. } => "get at a snapshot",
            Op::GetMany { .. } => "get of many",
            Op::Scan { at: None } => "scan",
            Op::Scan { .. } => "scan at a snapshot",
            Op::Take { .. } => "snapshot",
            Op::Release { .. } => "release",
            Op::Open { range, .. } if range.prefix.is_some() => "cursor with a prefix",
            Op::Open { range, .. } if range.lower.is_some() || range.upper.is_some() => "cursor with bounds",
            Op::Open { at: Some(_), .. } => "cursor at a snapshot",
            Op::Open { .. } => "cursor",
            Op::Step { step, .. } => step.kind(),
            Op::Close { .. } => "close",
            Op::Flush => "flush",
            Op::Compact { begin: None, end: None } => "compact all",
            Op::Compact { .. } => "compact a range",
            Op::Erase { .. } => "delete a range",
            Op::Reopen => "reopen",
            Op::ReopenWith { .. } => "reopen with other options",
            Op::Size { .. } => "size",
            Op::Property { .. } => "property",
            Op::Upheaval(what) => what.kind(),
        }
    }
}

fn has_a_key_twice(writes: &[Write]) -> bool {
    writes.iter().enumerate().any(|(at, write)| writes[..at].iter().any(|other| other.key() == write.key()))
}

impl Step {
    fn kind(&self) -> &'static str {
        match self {
            Step::First => "first",
            Step::Last => "last",
            Step::Seek(_) => "seek",
            Step::Next => "next",
            Step::Prev => "prev",
        }
    }
}

impl Upheaval {
    fn kind(self) -> &'static str {
        match self {
            Upheaval::Kill => "kill",
            Upheaval::PowerCut => "power cut",
            Upheaval::Repair(Harm::Nothing) => "repair of a healthy one",
            Upheaval::Repair(Harm::Current) => "repair without CURRENT",
            Upheaval::Repair(Harm::Manifest) => "repair without a manifest",
            Upheaval::Destroy => "destroy and create",
            Upheaval::Copy => "copy",
            Upheaval::Verify => "verify",
            Upheaval::ReadOnly => "read-only",
        }
    }
}
