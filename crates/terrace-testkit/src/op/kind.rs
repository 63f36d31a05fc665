//! Names of the kinds of operations. Tests count operations by kind.

use super::{IteratorMove, LifecycleOp, MissingFile, Op, Write};

/// All kinds.
pub static OP_KINDS: &[&str] = &[
    "put",
    "put, synced",
    "put of an empty value",
    "put of 1 MiB",
    "put of the empty key",
    "delete",
    "delete, synced",
    "batch",
    "batch, synced",
    "empty batch",
    "batch with a duplicate key",
    "get",
    "get at a snapshot",
    "multi-get",
    "scan",
    "scan at a snapshot",
    "snapshot",
    "release",
    "iterator",
    "iterator at a snapshot",
    "iterator with bounds",
    "iterator with a prefix",
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
    "ingest",
    "bulk load",
    "reopen",
    "reopen with other options",
    "approximate size",
    "property",
    "kill",
    "power cut",
    "repair of an undamaged database",
    "repair without CURRENT",
    "repair without a MANIFEST",
    "destroy and create",
    "copy",
    "verify",
    "read-only",
];

impl Op {
    /// Returns the kind, which is one of [`OP_KINDS`].
    pub fn kind(&self) -> &'static str {
        match self {
            Op::Put { key, .. } if key.is_empty() => "put of the empty key",
            Op::Put { value, .. } if value.len == 0 => "put of an empty value",
            Op::Put { value, .. } if value.len >= 1 << 20 => "put of 1 MiB",
            Op::Put { sync: true, .. } => "put, synced",
            Op::Put { .. } => "put",
            Op::Delete { sync: true, .. } => "delete, synced",
            Op::Delete { .. } => "delete",
            Op::Batch { writes, .. } if writes.is_empty() => "empty batch",
            Op::Batch { writes, .. } if has_duplicate_key(writes) => "batch with a duplicate key",
            Op::Batch { sync: true, .. } => "batch, synced",
            Op::Batch { .. } => "batch",
            Op::Get { snapshot: None, .. } => "get",
            Op::Get { .. } => "get at a snapshot",
            Op::MultiGet { .. } => "multi-get",
            Op::Scan { snapshot: None } => "scan",
            Op::Scan { .. } => "scan at a snapshot",
            Op::TakeSnapshot { .. } => "snapshot",
            Op::ReleaseSnapshot { .. } => "release",
            Op::OpenIterator { range, .. } if range.prefix.is_some() => "iterator with a prefix",
            Op::OpenIterator { range, .. } if range.lower.is_some() || range.upper.is_some() => {
                "iterator with bounds"
            }
            Op::OpenIterator { snapshot: Some(_), .. } => "iterator at a snapshot",
            Op::OpenIterator { .. } => "iterator",
            Op::MoveIterator { movement, .. } => movement.kind(),
            Op::CloseIterator { .. } => "close",
            Op::Flush => "flush",
            Op::CompactRange { begin: None, end: None } => "compact all",
            Op::CompactRange { .. } => "compact a range",
            Op::DeleteRange { .. } => "delete a range",
            Op::Ingest { .. } => "ingest",
            Op::BulkLoad { .. } => "bulk load",
            Op::Reopen => "reopen",
            Op::ReopenWith { .. } => "reopen with other options",
            Op::ApproximateSize { .. } => "approximate size",
            Op::Property { .. } => "property",
            Op::Lifecycle(op) => op.kind(),
        }
    }
}

fn has_duplicate_key(writes: &[Write]) -> bool {
    writes
        .iter()
        .enumerate()
        .any(|(index, write)| writes[..index].iter().any(|other| other.key() == write.key()))
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
            LifecycleOp::Repair(MissingFile::None) => "repair of an undamaged database",
            LifecycleOp::Repair(MissingFile::Current) => "repair without CURRENT",
            LifecycleOp::Repair(MissingFile::Manifest) => "repair without a MANIFEST",
            LifecycleOp::Destroy => "destroy and create",
            LifecycleOp::Copy => "copy",
            LifecycleOp::Verify => "verify",
            LifecycleOp::ReadOnly => "read-only",
        }
    }
}
