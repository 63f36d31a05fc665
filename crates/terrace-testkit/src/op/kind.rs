//! The kinds of operations, by name: what a run is counted by.

use super::{IteratorMove, LifecycleOp, MissingFile, Op, Write};

/// Every kind.
pub static OP_KINDS: &[&str] = &[
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
            Op::Batch { writes, .. } if has_duplicate_key(writes) => "batch with a key twice",
            Op::Batch { sync: true, .. } => "batch, synced",
            Op::Batch { .. } => "batch",
            Op::Get { snapshot: None, .. } => "get",
            Op::Get { .. } => "get at a snapshot",
            Op::MultiGet { .. } => "get of many",
            Op::Scan { snapshot: None } => "scan",
            Op::Scan { .. } => "scan at a snapshot",
            Op::TakeSnapshot { .. } => "snapshot",
            Op::ReleaseSnapshot { .. } => "release",
            Op::OpenIterator { range, .. } if range.prefix.is_some() => "cursor with a prefix",
            Op::OpenIterator { range, .. } if range.lower.is_some() || range.upper.is_some() => {
                "cursor with bounds"
            }
            Op::OpenIterator { snapshot: Some(_), .. } => "cursor at a snapshot",
            Op::OpenIterator { .. } => "cursor",
            Op::MoveIterator { movement: step, .. } => step.kind(),
            Op::CloseIterator { .. } => "close",
            Op::Flush => "flush",
            Op::CompactRange { begin: None, end: None } => "compact all",
            Op::CompactRange { .. } => "compact a range",
            Op::DeleteRange { .. } => "delete a range",
            Op::Reopen => "reopen",
            Op::ReopenWith { .. } => "reopen with other options",
            Op::ApproximateSize { .. } => "size",
            Op::Property { .. } => "property",
            Op::Lifecycle(what) => what.kind(),
        }
    }
}

fn has_duplicate_key(writes: &[Write]) -> bool {
    writes.iter().enumerate().any(|(at, write)| writes[..at].iter().any(|other| other.key() == write.key()))
}

impl IteratorMove {
    fn kind(&self) -> &'static str {
        match self {
            IteratorMove::SeekToFirst => "first",
            IteratorMove::SeekToLast => "last",
            IteratorMove::Seek(_) => "seek",
            IteratorMove::Next => "next",
            IteratorMove::Prev => "prev",
        }
    }
}

impl LifecycleOp {
    fn kind(self) -> &'static str {
        match self {
            LifecycleOp::Kill => "kill",
            LifecycleOp::PowerCut => "power cut",
            LifecycleOp::Repair(MissingFile::None) => "repair of a healthy one",
            LifecycleOp::Repair(MissingFile::Current) => "repair without CURRENT",
            LifecycleOp::Repair(MissingFile::Manifest) => "repair without a manifest",
            LifecycleOp::Destroy => "destroy and create",
            LifecycleOp::Copy => "copy",
            LifecycleOp::Verify => "verify",
            LifecycleOp::ReadOnly => "read-only",
        }
    }
}
