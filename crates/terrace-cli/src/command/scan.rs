//! `terrace scan`: prints the entries of a range, in order or in reverse.

use std::ffi::OsString;
use std::io::Write;

use clap::Args;
use terrace::ReadOptions;

use crate::cli::Run;
use crate::database::{DamageArgs, DatabaseArgs, KeyEncodingArgs};
use crate::entry_format::Format;
use crate::failure::{CommandResult, Failure};
use crate::terminal;

/// Print the entries of a range, one per line
#[derive(Args)]
pub(crate) struct Scan {
    #[command(flatten)]
    database: DatabaseArgs,
    /// Print only keys that begin with this prefix
    #[arg(long, value_name = "KEY", conflicts_with_all = ["from", "to"])]
    prefix: Option<OsString>,
    /// First key of the range
    #[arg(long, value_name = "KEY")]
    from: Option<OsString>,
    /// Key at which the range ends; this key is not printed
    #[arg(long, value_name = "KEY")]
    to: Option<OsString>,
    #[command(flatten)]
    encoding: KeyEncodingArgs,
    /// Print the last key first
    #[arg(long)]
    reverse: bool,
    /// Maximum number of entries to print
    #[arg(long, value_name = "N", default_value_t = u64::MAX, hide_default_value = true)]
    limit: u64,
    /// Print keys without their values
    #[arg(long)]
    keys_only: bool,
    /// Format of the lines
    #[arg(long, value_name = "FORMAT", default_value = "tsv")]
    format: Format,
    #[command(flatten)]
    damage: DamageArgs,
}

impl Run for Scan {
    fn run(self) -> CommandResult {
        let options = self.read_options()?;
        let db = self.database.open_read_only(&self.damage)?;
        let mut entries = db.raw_iter_with(&options);
        if self.reverse {
            entries.seek_to_last()
        } else {
            entries.seek_to_first()
        }

        let mut out = terminal::output();
        let mut remaining = self.limit;
        while remaining > 0 && entries.valid() {
            self.format.write(&mut out, entries.key(), (!self.keys_only).then(|| entries.value()))?;
            remaining -= 1;
            if self.reverse { entries.prev() } else { entries.next() }
        }
        out.flush()?;
        self.damage.check(entries.status())
    }
}

impl Scan {
    fn read_options(&self) -> Result<ReadOptions, Failure> {
        let mut options = ReadOptions::default().fill_cache(false);
        options.lower_bound = self.encoding.decode_optional(self.from.as_ref())?;
        options.upper_bound = self.encoding.decode_optional(self.to.as_ref())?;
        options.prefix = self.encoding.decode_optional(self.prefix.as_ref())?;
        Ok(options)
    }
}
