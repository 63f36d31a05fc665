//! `terrace delete`: deletes one key, or all keys of a range.

use std::ffi::OsString;
use std::ops::Bound;

use clap::{ArgGroup, Args};

use crate::cli::Run;
use crate::condition::Condition;
use crate::database::{DatabaseArgs, FileFormatArgs, MemoryArgs, SyncArg};
use crate::failure::CommandResult;
use crate::key_args::KeyEncodingArgs;
#[cfg(feature = "store")]
use crate::store;

/// Delete a key or a range of keys; a missing key is not an error
#[derive(Args)]
#[command(group(ArgGroup::new("keys").required(true).multiple(true).args(["key", "from", "to", "all"])))]
pub(crate) struct Delete {
    #[command(flatten)]
    database: DatabaseArgs,
    /// Key, with \t \n \\ \xNN for bytes that are hard to type
    #[arg(conflicts_with_all = ["from", "to", "all"])]
    key: Option<OsString>,
    /// First key of the range
    #[arg(long, value_name = "KEY")]
    from: Option<OsString>,
    /// Key at which the range ends; this key is kept
    #[arg(long, value_name = "KEY")]
    to: Option<OsString>,
    /// Delete every key
    #[arg(long, conflicts_with_all = ["from", "to"])]
    all: bool,
    /// Only if the key has this value; otherwise exit code 5
    #[arg(long, value_name = "VALUE", conflicts_with_all = ["from", "to", "all"])]
    if_value: Option<OsString>,
    #[command(flatten)]
    encoding: KeyEncodingArgs,
    #[command(flatten)]
    sync: SyncArg,
}

impl Run for Delete {
    fn run(self) -> CommandResult {
        let key = self.encoding.decode_optional(self.key.as_ref())?;
        let from = self.encoding.decode_optional(self.from.as_ref())?;
        let to = self.encoding.decode_optional(self.to.as_ref())?;
        self.database.comparator.check_bounds(&self.database.dir, from.as_deref(), to.as_deref())?;
        let condition = self.encoding.decode_optional(self.if_value.as_ref())?.map(Condition::Value);
        #[cfg(feature = "store")]
        if let Some(address) = self.database.address()? {
            let store = store::open_for_writing(address, None)?;
            return match key {
                Some(key) => store::write_one(&*store, &key, None, condition.as_ref(), &self.sync),
                None => store::delete_range(&*store, from, to),
            };
        }
        let db = self.database.open_writable(&FileFormatArgs::default(), &MemoryArgs::default(), None)?;
        let options = self.sync.write_options();
        match (key, condition) {
            (Some(key), Some(condition)) => {
                condition.write_if_met(&db, &key, &options, |transaction| transaction.delete(&key))?;
            }
            (Some(key), None) => db.delete_with(&key, &options)?,
            // Always synced.
            (None, _) => db.delete_range((
                from.map_or(Bound::Unbounded, Bound::Included),
                to.map_or(Bound::Unbounded, Bound::Excluded),
            ))?,
        }
        Ok(db.close()?)
    }
}
