//! Arguments for keys: their encoding, and a range of them.

use std::ffi::OsString;

use clap::Args;
use terrace::ReadOptions;

use crate::database::DatabaseArgs;
use crate::escape::{Escaped, decode_hexadecimal, unescape};
use crate::failure::Failure;

/// Range of keys of a command that reads.
#[derive(Args)]
pub(crate) struct KeyRangeArgs {
    /// Only keys that begin with this prefix
    #[arg(long, value_name = "KEY", conflicts_with_all = ["from", "to"])]
    pub(crate) prefix: Option<OsString>,
    /// First key of the range
    #[arg(long, value_name = "KEY")]
    pub(crate) from: Option<OsString>,
    /// Key at which the range ends; this key is excluded
    #[arg(long, value_name = "KEY")]
    pub(crate) to: Option<OsString>,
    #[command(flatten)]
    pub(crate) encoding: KeyEncodingArgs,
}

impl KeyRangeArgs {
    /// Options for an iterator over the range in `database`.
    pub(crate) fn read_options(&self, database: &DatabaseArgs) -> Result<ReadOptions, Failure> {
        let encoding = &self.encoding;
        let mut options = ReadOptions::default().fill_cache(false);
        options.lower_bound = encoding.decode_optional(self.from.as_ref())?;
        options.upper_bound = encoding.decode_optional(self.to.as_ref())?;
        options.prefix = encoding.decode_optional(self.prefix.as_ref())?;
        let lower = options.lower_bound.as_deref();
        database.comparator.check_bounds(&database.dir, lower, options.upper_bound.as_deref())?;
        Ok(options)
    }
}

/// Encoding of keys and values on the command line.
#[derive(Args)]
pub(crate) struct KeyEncodingArgs {
    /// Hexadecimal keys and values
    ///
    /// Applies to the command line and to the output.
    #[arg(long)]
    pub(crate) hex: bool,
}

impl KeyEncodingArgs {
    /// Decodes the argument `arg`.
    pub(crate) fn decode(&self, arg: &OsString) -> Result<Vec<u8>, Failure> {
        self.decode_bytes(arg.as_encoded_bytes())
    }

    /// Decodes `text`.
    pub(crate) fn decode_bytes(&self, text: &[u8]) -> Result<Vec<u8>, Failure> {
        let bytes =
            if self.hex { decode_hexadecimal(text) } else { unescape(text).map_err(|e| e.to_string()) };
        bytes.map_err(|reason| Failure::Usage(format!("'{}': {reason}", Escaped(text))))
    }

    /// Decodes an optional argument.
    pub(crate) fn decode_optional(&self, arg: Option<&OsString>) -> Result<Option<Vec<u8>>, Failure> {
        arg.map(|arg| self.decode(arg)).transpose()
    }
}
