//! Log source: the bytes of a log, and the holes among them.

use std::io::{self, BufReader, Read};

/// Bytes of a log.
///
/// A hostile log can be a hole of terabytes that occupies no storage. A source that knows the holes
/// of its file lets the reader skip them.
pub trait LogSource: Read {
    /// Skips a hole at the current position, in whole multiples of `unit` bytes. Returns the number
    /// of skipped bytes, all of which would have been read as zeros.
    ///
    /// The default implementation skips nothing.
    fn skip_hole(&mut self, unit: u64) -> io::Result<u64> {
        let _ = unit;
        Ok(0)
    }
}

impl LogSource for &[u8] {}

impl<R: Read> LogSource for BufReader<R> {}

impl<R: LogSource + ?Sized> LogSource for &mut R {
    fn skip_hole(&mut self, unit: u64) -> io::Result<u64> {
        (**self).skip_hole(unit)
    }
}
