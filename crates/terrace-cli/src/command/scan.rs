//! `terrace scan`: prints the entries of a range, in order or in reverse.

use std::io::Write;

use clap::Args;

use crate::cli::Run;
use crate::database::{DamageArgs, DatabaseArgs, LiveArg};
use crate::entry_format::Format;
use crate::failure::CommandResult;
use crate::key_args::KeyRangeArgs;
#[cfg(feature = "store")]
use crate::store;
use crate::terminal;

/// Print the entries of a range, one per line
#[derive(Args)]
pub(crate) struct Scan {
    #[command(flatten)]
    database: DatabaseArgs,
    #[command(flatten)]
    range: KeyRangeArgs,
    /// Print the last key first
    #[arg(long)]
    reverse: bool,
    /// Maximum number of entries to print
    #[arg(long, value_name = "N", default_value_t = u64::MAX, hide_default_value = true)]
    limit: u64,
    /// Print keys without their values
    #[arg(long)]
    keys_only: bool,
    /// Format of the lines [default: tsv, or hex with --hex]
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
    #[command(flatten)]
    live: LiveArg,
    #[command(flatten)]
    damage: DamageArgs,
}

impl Run for Scan {
    fn run(self) -> CommandResult {
        let format = Format::for_output(self.format, self.range.encoding.hex);
        #[cfg(feature = "store")]
        if let Some(address) = self.database.address()? {
            let store = store::open_for_reading(address, &self.live, &self.damage)?;
            let print = store::Print {
                format,
                is_reverse: self.reverse,
                is_without_values: self.keys_only,
                limit: self.limit,
            };
            return print.entries(&*store, &self.range.key_range(&self.database)?, &mut terminal::output());
        }
        let options = self.range.read_options(&self.database)?;
        let db = self.database.open_for_reading(&self.live, &self.damage)?;
        let mut entries = db.raw_iter_with(&options);
        if self.reverse {
            entries.seek_to_last()
        } else {
            entries.seek_to_first()
        }

        let mut out = terminal::output();
        let mut remaining = self.limit;
        while remaining > 0 && entries.valid() {
            format.write(&mut out, entries.key(), (!self.keys_only).then(|| entries.value()))?;
            remaining -= 1;
            if self.reverse { entries.prev() } else { entries.next() }
        }
        out.flush()?;
        self.damage.check(entries.status())
    }
}
