//! Report of a failed run: its seed, its last operations, and the difference.

use std::fmt;

use super::{Entry, Workload};
use crate::op::ValueSpec;

/// Report of a failed run.
pub struct FailureReport<'a> {
    pub(super) workload: &'a Workload,
    pub(super) op_index: usize,
    pub(super) message: String,
}

impl FailureReport<'_> {
    /// Returns the index of the failed operation, or the number of operations if the final
    /// comparison failed.
    pub fn op_index(&self) -> usize {
        self.op_index
    }

    /// Returns the difference between the found and the expected answer.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for FailureReport<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Workload { seed, params, settings, ops } = self.workload;
        writeln!(f, "TERRACE_SEED={seed:#x} repeats this: operation {} of {}", self.op_index, ops.len())?;
        writeln!(f, "  {params:?}\n  options: {settings}")?;
        let last = self.op_index.min(ops.len().saturating_sub(1));
        for (index, op) in ops.iter().enumerate().take(last + 1).skip(last.saturating_sub(20)) {
            writeln!(f, "  {index:6} {op}")?;
        }
        writeln!(f, "{}", self.message)
    }
}

impl fmt::Debug for FailureReport<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

pub(super) fn show_value(value: Option<&[u8]>) -> String {
    value.map_or("nothing".into(), |value| {
        let head = &value[..value.len().min(16)];
        format!("{} bytes, \"{}\"", value.len(), head.escape_ascii())
    })
}

pub(super) fn show_expected(value: Option<ValueSpec>) -> String {
    value.map_or("nothing".into(), |value| format!("{} ({value})", show_value(Some(&value.bytes()))))
}

pub(super) fn show_entry(entry: Option<&Entry>) -> String {
    entry.map_or("no entry".into(), |(key, value)| {
        format!("\"{}\" with {}", key.escape_ascii(), show_value(Some(value)))
    })
}

pub(super) fn show_expected_entry(entry: Option<(&[u8], ValueSpec)>) -> String {
    entry.map_or("no entry".into(), |(key, value)| {
        format!("\"{}\" with {}", key.escape_ascii(), show_expected(Some(value)))
    })
}
