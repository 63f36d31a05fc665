//! `terrace get`: prints one value.

use std::ffi::OsString;
use std::io::Write;

use clap::Args;
use data_encoding::HEXLOWER;
use terrace::Db;

use crate::cli::Run;
use crate::database::{DamageArgs, DatabaseArgs, LiveArg};
use crate::escape::Escaped;
use crate::failure::{CommandResult, Failure};
use crate::key_args::KeyEncodingArgs;
#[cfg(feature = "store")]
use crate::store;
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
    #[command(flatten)]
    live: LiveArg,
    #[command(flatten)]
    damage: DamageArgs,
}

impl Run for Get {
    fn run(self) -> CommandResult {
        let key = self.encoding.decode(&self.key)?;
        let value = self.read(&key)?.ok_or_else(|| {
            Failure::NegativeAnswer(format!("{}: no key '{}'", self.database.dir.display(), Escaped(&key)))
        })?;
        let mut out = terminal::output();
        match (self.raw, self.encoding.hex) {
            (true, _) => out.write_all(&value)?,
            (_, true) => writeln!(out, "{}", HEXLOWER.encode(&value))?,
            _ => writeln!(out, "{}", Escaped(&value))?,
        }
        Ok(out.flush()?)
    }
}

impl Get {
    /// Returns the value of `key` in the database or store.
    fn read(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        #[cfg(feature = "store")]
        if let Some(address) = self.database.address()? {
            return Ok(store::open_for_reading(address, &self.live, &self.damage)?.get(key)?);
        }
        let db = self.database.open_for_reading(&self.live, &self.damage)?;
        self.value_of(&db, key)
    }

    /// Returns the value of `key`. With `--allow-damage`, damaged blocks and tables count as empty.
    fn value_of(&self, db: &Db, key: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        let value = db.get(key);
        if let Err(error) = value {
            self.damage.check(Err(error))?;
            let mut entries = db.raw_iter();
            entries.seek(key);
            let is_found = entries.valid() && entries.key() == key;
            return Ok(is_found.then(|| entries.value().to_vec()));
        }
        Ok(value?)
    }
}
