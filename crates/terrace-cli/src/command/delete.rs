//! `terrace delete`: one key gone.

use std::ffi::OsString;

use clap::Args;

use crate::cli::Run;
use crate::database::{Database, Words, Writing};
use crate::failure::Outcome;

/// Remove a key; it is no error if there is none
#[derive(Args)]
pub(crate) struct Delete {
    #[command(flatten)]
    database: Database,
    /// Key, with \t \n \\ \xNN for bytes that are hard to type
    key: OsString,
    #[command(flatten)]
    words: Words,
    #[command(flatten)]
    writing: Writing,
}

impl Run for Delete {
    fn run(self) -> Outcome {
        let key = self.words.bytes(&self.key)?;
        let db = self.database.open_to_write(&self.writing.tables, false)?;
        db.delete_with(&key, &self.writing.options())?;
        Ok(db.close()?)
    }
}
