//! Conditions of writes: the value that a key must have.

use std::ffi::OsString;

use clap::Args;
use terrace::{Db, Transaction, TransactionOptions, WriteOptions};

use crate::escape::Escaped;
use crate::failure::{CommandResult, Failure};
use crate::key_args::KeyEncodingArgs;

/// Condition on the current value of a key.
#[derive(Debug, PartialEq)]
pub(crate) enum Condition {
    /// The key does not exist.
    Absent,
    /// The key has this value.
    Value(Vec<u8>),
}

impl Condition {
    /// Returns a failure with an exit code of its own if `found` does not fit.
    pub(crate) fn check(&self, key: &[u8], found: Option<&[u8]>) -> CommandResult {
        let reason = match (self, found) {
            (Condition::Absent, None) => return Ok(()),
            (Condition::Value(expected), Some(found)) if expected == found => return Ok(()),
            (_, None) => "does not exist".to_owned(),
            (_, Some(found)) => format!("has the value '{}'", Escaped(found)),
        };
        Err(Failure::ConditionNotMet(format!("condition not met: '{}' {reason}", Escaped(key))))
    }

    /// Executes `write` if the condition holds for `key`. Check and write are one step.
    pub(crate) fn write_if_met(
        &self,
        db: &Db,
        key: &[u8],
        options: &WriteOptions,
        mut write: impl FnMut(&mut Transaction) -> terrace::Result<()>,
    ) -> CommandResult {
        let options = TransactionOptions::default().memory(usize::MAX).sync(options.sync);
        db.transact_with(&options, |transaction| {
            let checked = self.check(key, transaction.get(key)?.as_deref());
            if checked.is_ok() {
                write(transaction)?;
            }
            Ok(checked)
        })?
    }
}

/// Arguments for a write with a condition.
#[derive(Args)]
pub(crate) struct ConditionArgs {
    /// Only if the key has this value; otherwise exit code 5
    #[arg(long, value_name = "VALUE", conflicts_with = "if_absent")]
    if_value: Option<OsString>,
    /// Only if the key does not exist; otherwise exit code 5
    #[arg(long)]
    if_absent: bool,
}

impl ConditionArgs {
    /// Returns the condition, if there is one.
    pub(crate) fn condition(&self, encoding: &KeyEncodingArgs) -> Result<Option<Condition>, Failure> {
        match &self.if_value {
            Some(value) => Ok(Some(Condition::Value(encoding.decode(value)?))),
            None => Ok(self.if_absent.then_some(Condition::Absent)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(condition: &Condition, found: Option<&[u8]>, expect: &str) {
        let checked = condition.check(b"a", found);
        assert_eq!(
            checked.err().and_then(|failure| failure.message().map(str::to_owned)).unwrap_or_default(),
            expect
        );
    }

    #[test]
    fn conditions() {
        let value = Condition::Value(b"1".to_vec());
        check(&value, Some(b"1"), "");
        check(&value, Some(b"2"), "condition not met: 'a' has the value '2'");
        check(&value, None, "condition not met: 'a' does not exist");
        check(&Condition::Absent, None, "");
        check(&Condition::Absent, Some(b""), "condition not met: 'a' has the value ''");
    }
}
