//! `terrace put`: one entry.

use std::ffi::OsString;

use clap::Args;

use crate::cli::Run;
use crate::database::{Database, Words, Writing};
use crate::failure::Outcome;

/// Give a key a value, replacing what it had
#[derive(Args)]
pub(crate) struct Put {
    #[command(flatten)]
    database: Database,
    /// Key, with \t \n \\ \xNN for bytes that are hard to type
    key: OsString,
    /// Value, in the same form
    value: OsString,
    #[command(flatten)]
    words: Words,
    /// Make the database if there is none
    #[arg(long)]
    create: bool,
    #[command(flatten)]
    writing: Writing,
}

impl Run for Put {
    fn run(self) -> Outcome {
        let (key, value) = (self.words.bytes(&self.key)?, self.words.bytes(&self.value)?);
        let db = self.database.open_to_write(&self.writing.tables, Some(self.create))?;
        db.put_with(&key, &value, &self.writing.options())?;
        Ok(db.close()?)
    }
}
