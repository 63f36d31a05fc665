//! `terrace get`: prints one value.

use std::ffi::OsString;
use std::io::Write;

use clap::Args;
use data_encoding::HEXLOWER;

use crate::cli::Run;
use crate::database::{DatabaseArgs, KeyEncodingArgs};
use crate::escape::Escaped;
use crate::failure::{CommandResult, Failure};
use crate::terminal;

/// Print the value of a key; exit code 1 if the key is not found
#[derive(Args)]
pub(crate) struct Get {
    #[command(flatten)]
    database: DatabaseArgs,
    /// Key, with \t \n \\ \xNN for bytes that are hard to type
    key: OsString,
    #[command(flatten)]
    encoding: KeyEncodingArgs,
    /// Print the unmodified bytes of the value, without a line feed at the end
    #[arg(long, conflicts_with = "hex")]
    raw: bool,
}

impl Run for Get {
    fn run(self) -> CommandResult {
        let key = self.encoding.decode(&self.key)?;
        let Some(value) = self.database.open_read_only()?.get(&key)? else {
            return Err(Failure::NegativeAnswer(format!(
                "{}: no key '{}'",
                self.database.dir.display(),
                Escaped(&key)
            )));
        };
        let mut out = terminal::output();
        match (self.raw, self.encoding.hex) {
            (true, _) => out.write_all(&value)?,
            (_, true) => writeln!(out, "{}", HEXLOWER.encode(&value))?,
            _ => writeln!(out, "{}", Escaped(&value))?,
        }
        Ok(out.flush()?)
    }
}
