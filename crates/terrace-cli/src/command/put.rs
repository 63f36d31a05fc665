//! `terrace put`: writes one entry.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};

use crate::cli::Run;
use crate::condition::ConditionArgs;
use crate::database::{DatabaseArgs, FileFormatArgs, MemoryArgs, SyncArg};
use crate::failure::{CommandResult, Failure};
use crate::input;
use crate::key_args::KeyEncodingArgs;
#[cfg(feature = "store")]
use crate::store;

/// Set the value of a key, replacing the old value
#[derive(Args)]
pub(crate) struct Put {
    #[command(flatten)]
    database: DatabaseArgs,
    /// Key, with \t \n \\ \xNN for bytes that are hard to type
    key: OsString,
    /// Value, with the same escapes; - reads it from standard input, unmodified
    #[arg(required_unless_present = "value_file", conflicts_with = "value_file")]
    value: Option<OsString>,
    /// Read the value from this file, unmodified
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    value_file: Option<PathBuf>,
    #[command(flatten)]
    encoding: KeyEncodingArgs,
    /// Create the database if it does not exist
    #[arg(long)]
    create: bool,
    #[command(flatten)]
    condition: ConditionArgs,
    #[command(flatten)]
    sync: SyncArg,
}

impl Run for Put {
    fn run(self) -> CommandResult {
        let key = self.encoding.decode(&self.key)?;
        let value = self.read_value()?;
        let condition = self.condition.condition(&self.encoding)?;
        #[cfg(feature = "store")]
        if let Some(address) = self.database.address()? {
            let store = store::open_for_writing(address, Some(self.create))?;
            return store::write_one(&*store, &key, Some(&value), condition.as_ref(), &self.sync);
        }
        let db = self.database.open_writable(
            &FileFormatArgs::default(),
            &MemoryArgs::default(),
            Some(self.create),
        )?;
        let options = self.sync.write_options();
        match condition {
            Some(condition) => {
                condition.write_if_met(&db, &key, &options, |transaction| transaction.put(&key, &value))?;
            }
            None => db.put_with(&key, &value, &options)?,
        }
        Ok(db.close()?)
    }
}

impl Put {
    fn read_value(&self) -> Result<Vec<u8>, Failure> {
        match (&self.value, &self.value_file) {
            (_, Some(file)) => input::read_file(file),
            (Some(value), None) if value == "-" => input::read_file(Path::new("-")),
            (Some(value), None) => self.encoding.decode(value),
            // The parser requires one of the two.
            (None, None) => Ok(Vec::new()),
        }
    }
}
