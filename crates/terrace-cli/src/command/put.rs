//! `terrace put`: one entry.

use std::ffi::OsString;

use clap::Args;

use crate::cli::Run;
use crate::database::{DatabaseArgs, KeyEncodingArgs, WriteArgs};
use crate::failure::CommandResult;

/// Give a key a value, replacing what it had
#[derive(Args)]
pub(crate) struct Put {
    #[command(flatten)]
    database: DatabaseArgs,
    /// Key, with \t \n \\ \xNN for bytes that are hard to type
    key: OsString,
    /// Value, in the same form
    value: OsString,
    #[command(flatten)]
    encoding: KeyEncodingArgs,
    /// Make the database if there is none
    #[arg(long)]
    create: bool,
    #[command(flatten)]
    write_args: WriteArgs,
}

impl Run for Put {
    fn run(self) -> CommandResult {
        let (key, value) = (self.encoding.decode(&self.key)?, self.encoding.decode(&self.value)?);
        let db = self.database.open_writable(&self.write_args.file_format, Some(self.create))?;
        db.put_with(&key, &value, &self.write_args.write_options())?;
        Ok(db.close()?)
    }
}
