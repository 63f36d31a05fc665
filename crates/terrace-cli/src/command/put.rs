//! `terrace put`: writes one entry.

use std::ffi::OsString;

use clap::Args;

use crate::cli::Run;
use crate::database::{DatabaseArgs, KeyEncodingArgs, WriteArgs};
use crate::failure::CommandResult;

/// Set the value of a key, replacing the old value
#[derive(Args)]
pub(crate) struct Put {
    #[command(flatten)]
    database: DatabaseArgs,
    /// Key, with \t \n \\ \xNN for bytes that are hard to type
    key: OsString,
    /// Value, with the same escapes
    value: OsString,
    #[command(flatten)]
    encoding: KeyEncodingArgs,
    /// Create the database if it does not exist
    #[arg(long)]
    create: bool,
    #[command(flatten)]
    write_args: WriteArgs,
}

impl Run for Put {
    fn run(self) -> CommandResult {
        let key = self.encoding.decode(&self.key)?;
        let value = self.encoding.decode(&self.value)?;
        let db = self.database.open_writable(&self.write_args.file_format, Some(self.create))?;
        db.put_with(&key, &value, &self.write_args.write_options())?;
        Ok(db.close()?)
    }
}
