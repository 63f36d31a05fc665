//! `terrace get`: one value.

use std::ffi::OsString;
use std::io::Write;

use clap::Args;
use data_encoding::HEXLOWER;

use crate::cli::Run;
use crate::database::{Database, Words};
use crate::escape::Escaped;
use crate::failure::{Failure, Outcome};
use crate::terminal;

/// Print the value of a key; exit code 1 if there is none
#[derive(Args)]
pub(crate) struct Get {
    #[command(flatten)]
    database: Database,
    /// Key, with \t \n \\ \xNN for bytes that are hard to type
    key: OsString,
    #[command(flatten)]
    words: Words,
    /// Print the value's bytes as they are, without a line feed behind them
    #[arg(long, conflicts_with = "hex")]
    raw: bool,
}

impl Run for Get {
    fn run(self) -> Outcome {
        let key = self.words.bytes(&self.key)?;
        let Some(value) = self.database.open_to_read()?.get(&key)? else {
            return Err(Failure::No(format!("{}: no key '{}'", self.database.dir.display(), Escaped(&key))));
        };
        let mut out = terminal::output();
        match (self.raw, self.words.hex) {
            (true, _) => out.write_all(&value)?,
            (_, true) => writeln!(out, "{}", HEXLOWER.encode(&value))?,
            _ => writeln!(out, "{}", Escaped(&value))?,
        }
        Ok(out.flush()?)
    }
}
