//! `terrace scan`: the entries of a range, in order or in reverse.

use std::ffi::OsString;
use std::io::Write;

use clap::Args;
use terrace::ReadOptions;

use crate::cli::Run;
use crate::database::{DatabaseArgs, KeyEncodingArgs};
use crate::entry_format::Format;
use crate::failure::{CommandResult, Failure};
use crate::terminal;

/// Print the entries of a range, one a line
#[derive(Args)]
pub(crate) struct Scan {
    #[command(flatten)]
    database: DatabaseArgs,
    /// Only keys that begin with this
    #[arg(long, value_name = "KEY", conflicts_with_all = ["from", "to"])]
    prefix: Option<OsString>,
    /// Only this key and those behind it
    #[arg(long, value_name = "KEY")]
    from: Option<OsString>,
    /// Only keys before this one
    #[arg(long, value_name = "KEY")]
    to: Option<OsString>,
    #[command(flatten)]
    encoding: KeyEncodingArgs,
    /// Last key first
    #[arg(long)]
    reverse: bool,
    /// Stop after this many
    #[arg(long, value_name = "N", default_value_t = u64::MAX, hide_default_value = true)]
    limit: u64,
    /// Leave the values out
    #[arg(long)]
    keys_only: bool,
    /// Form of the lines
    #[arg(long, value_name = "FORMAT", default_value = "tsv")]
    format: Format,
}

impl Run for Scan {
    fn run(self) -> CommandResult {
        let options = self.read_options()?;
        let db = self.database.open_read_only()?;
        let mut entries = db.iter_with(&options);
        if self.reverse {
            entries.seek_to_last()
        } else {
            entries.seek_to_first()
        }

        let mut out = terminal::output();
        let mut left = self.limit;
        while left > 0 && entries.valid() {
            self.format.write(&mut out, entries.key(), (!self.keys_only).then(|| entries.value()))?;
            left -= 1;
            if self.reverse { entries.prev() } else { entries.next() }
        }
        out.flush()?;
        Ok(entries.status()?)
    }
}

impl Scan {
    fn read_options(&self) -> Result<ReadOptions, Failure> {
        Ok(ReadOptions {
            lower_bound: self.encoding.decode_optional(self.from.as_ref())?,
            upper_bound: self.encoding.decode_optional(self.to.as_ref())?,
            prefix: self.encoding.decode_optional(self.prefix.as_ref())?,
            fill_cache: false,
            ..ReadOptions::default()
        })
    }
}
