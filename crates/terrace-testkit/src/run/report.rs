//! What a failed run says: how to repeat it, what came before, what was found.

use std::fmt;

use super::{Entry, Plan};
use crate::op::Value;

/// A run that went wrong: how to repeat it, and what came before.
pub struct Report<'a> {
    pub(super) plan: &'a Plan,
    pub(super) at: usize,
    pub(super) what: String,
}

impl Report<'_> {
    /// The number of the operation that went wrong, or of all if the contents did at the end.
    pub fn at(&self) -> usize {
        self.at
    }

    /// What was found and what was expected.
    pub fn what(&self) -> &str {
        &self.what
    }
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan { seed, shape, settings, ops } = self.plan;
        writeln!(f, "TERRACE_SEED={seed:#x} repeats this: operation {} of {}", self.at, ops.len())?;
        writeln!(f, "  {shape:?}\n  options: {settings}")?;
        let last = self.at.min(ops.len().saturating_sub(1));
        for (at, op) in ops.iter().enumerate().take(last + 1).skip(last.saturating_sub(20)) {
            writeln!(f, "  {at:6} {op}")?;
        }
        writeln!(f, "{}", self.what)
    }
}

impl fmt::Debug for Report<'_> {
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

pub(super) fn show_expected(value: Option<Value>) -> String {
    value.map_or("nothing".into(), |value| format!("{} ({value})", show_value(Some(&value.bytes()))))
}

pub(super) fn show_entry(entry: Option<&Entry>) -> String {
    entry.map_or("the end".into(), |(key, value)| {
        format!("\"{}\" with {}", key.escape_ascii(), show_value(Some(value)))
    })
}

pub(super) fn show_expected_entry(entry: Option<(&[u8], Value)>) -> String {
    entry.map_or("the end".into(), |(key, value)| {
        format!("\"{}\" with {}", key.escape_ascii(), show_expected(Some(value)))
    })
}
