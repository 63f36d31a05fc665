//! `terrace count`: counts the entries of a range.

use std::io::Write;

use clap::Args;

use crate::cli::Run;
use crate::database::{DamageArgs, DatabaseArgs, LiveArg};
use crate::failure::{CommandResult, Failure};
use crate::key_args::KeyRangeArgs;
#[cfg(feature = "store")]
use crate::store;
use crate::terminal;

/// Print the number of entries of a database or of a range
#[derive(Args)]
pub(crate) struct Count {
    #[command(flatten)]
    database: DatabaseArgs,
    #[command(flatten)]
    range: KeyRangeArgs,
    #[command(flatten)]
    live: LiveArg,
    #[command(flatten)]
    damage: DamageArgs,
}

impl Run for Count {
    fn run(self) -> CommandResult {
        let count = self.count()?;
        // Plain digits, for scripts.
        let mut out = terminal::output();
        writeln!(out, "{count}")?;
        Ok(out.flush()?)
    }
}

impl Count {
    fn count(&self) -> Result<u64, Failure> {
        #[cfg(feature = "store")]
        if let Some(address) = self.database.address()? {
            let store = store::open_for_reading(address, &self.live, &self.damage)?;
            return store::count(&*store, &self.range.key_range(&self.database)?);
        }
        let options = self.range.read_options(&self.database)?;
        let db = self.database.open_for_reading(&self.live, &self.damage)?;
        let mut entries = db.raw_iter_with(&options);
        entries.seek_to_first();
        let mut count: u64 = 0;
        while entries.valid() {
            count += 1;
            entries.next();
        }
        // An iterator skips damaged blocks, so the number would be too small.
        self.damage.check(entries.status())?;
        Ok(count)
    }
}
