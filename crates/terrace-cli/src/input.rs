//! Input files: text, plain or compressed, line by line.
//!
//! ```text
//!   FILE or -  -->  byte counter  -->  zstd | gzip | plain (by first bytes)  -->  numbered lines
//! ```
//!
//! A byte-order mark at the start of the text, as many Windows programs write it, is not part of
//! the first line.
//!
//! A line has at most [`MAX_LINE_LEN`] bytes, so that a small compressed file cannot fill the
//! memory. A compressed file that ends early is an error, never a short file.
#![allow(clippy::disallowed_types, reason = "reads files that do not belong to a database")]

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::failure::Failure;

/// Maximum length of a line in bytes. A value of 256 MiB fits in every format.
const MAX_LINE_LEN: u64 = 1 << 30;

/// A text file, read from its start.
pub(crate) struct Input {
    path: PathBuf,
    text: Box<dyn BufRead>,
    line: u64,
    bytes_read: Arc<AtomicU64>,
    len: Option<u64>,
}

impl Input {
    /// Opens `path`, or standard input if `path` is `-`.
    pub(crate) fn open(path: &Path) -> Result<Input, Failure> {
        if path == Path::new("-") {
            return Input::new(Path::new("standard input"), io::stdin(), None);
        }
        let file = open_file(path)?;
        let len = file.metadata().map_err(|e| Failure::for_file(path, e))?.len();
        Input::new(path, file, Some(len))
    }

    /// Opens standard input for lines that a user types. Nothing is read ahead of them.
    pub(crate) fn terminal() -> Input {
        let text = Box::new(BufReader::new(io::stdin()));
        Input { path: "standard input".into(), text, line: 0, bytes_read: Arc::default(), len: None }
    }

    fn new(path: &Path, raw: impl Read + 'static, len: Option<u64>) -> Result<Input, Failure> {
        let bytes_read = Arc::new(AtomicU64::new(0));
        let raw = CountingReader { raw, bytes_read: Arc::clone(&bytes_read) };
        let text = decompressed(raw).and_then(without_byte_order_mark);
        let text = text.map_err(|e| Failure::for_file(path, e))?;
        Ok(Input { path: path.to_path_buf(), text, line: 0, bytes_read, len })
    }

    /// Reads the next line into `line`, without its line feed. Returns false at the end of the
    /// file.
    pub(crate) fn next_line(&mut self, line: &mut Vec<u8>) -> Result<bool, Failure> {
        line.clear();
        self.line += 1;
        let read = (&mut self.text)
            .take(MAX_LINE_LEN + 1)
            .read_until(b'\n', line)
            .map_err(|e| self.error_at_line(e))?;
        if line.last() == Some(&b'\n') {
            line.pop();
        } else if read as u64 > MAX_LINE_LEN {
            return Err(self.error_at_line(format_args!("a line of more than {MAX_LINE_LEN} bytes")));
        }
        Ok(read > 0)
    }

    /// Returns some of the next bytes without consuming them. None are left only at the end.
    pub(crate) fn peek(&mut self) -> Result<&[u8], Failure> {
        self.text.fill_buf().map_err(|e| Failure::for_file(&self.path, e))
    }

    /// Failure caused by the last line that was read.
    pub(crate) fn error_at_line(&self, reason: impl std::fmt::Display) -> Failure {
        Failure::File(self.place_of_line(reason))
    }

    /// Returns `reason` after the path and the number of the last line that was read.
    pub(crate) fn place_of_line(&self, reason: impl std::fmt::Display) -> String {
        format!("{}:{}: {reason}", self.path.display(), self.line)
    }

    /// Bytes of the file read so far, before decompression.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.bytes_read.load(Relaxed)
    }

    /// Length of the file; `None` for standard input.
    pub(crate) fn len(&self) -> Option<u64> {
        self.len
    }

    /// Path that was opened.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Reads a file, or standard input if `path` is `-`, as one value.
pub(crate) fn read_file(path: &Path) -> Result<Vec<u8>, Failure> {
    if path == Path::new("-") {
        return read_value(Path::new("standard input"), io::stdin());
    }
    read_value(path, open_file(path)?)
}

fn read_value(path: &Path, source: impl Read) -> Result<Vec<u8>, Failure> {
    let mut value = Vec::new();
    let read = source.take(MAX_LINE_LEN + 1).read_to_end(&mut value);
    match read.map_err(|e| Failure::for_file(path, e))? as u64 {
        0..=MAX_LINE_LEN => Ok(value),
        _ => Err(Failure::for_file(path, format_args!("a value of more than {MAX_LINE_LEN} bytes"))),
    }
}

/// Opens a file for reading. A directory is an error.
pub(crate) fn open_file(path: &Path) -> Result<File, Failure> {
    let failed = |e: io::Error| Failure::for_file(path, e);
    let a_directory = || Failure::for_file(path, "a directory, expected a file");
    // Windows opens no directory.
    let file = File::open(path).map_err(|e| if path.is_dir() { a_directory() } else { failed(e) })?;
    if file.metadata().map_err(failed)?.is_dir() {
        return Err(a_directory());
    }
    Ok(file)
}

/// Counts the bytes that are read.
struct CountingReader<R> {
    raw: R,
    bytes_read: Arc<AtomicU64>,
}

impl<R: Read> Read for CountingReader<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.raw.read(buf)?;
        self.bytes_read.fetch_add(n as u64, Relaxed);
        Ok(n)
    }
}

/// Byte-order mark U+FEFF in UTF-8.
const BYTE_ORDER_MARK: [u8; 3] = [0xef, 0xbb, 0xbf];

/// Returns `text` without a byte-order mark at its start.
fn without_byte_order_mark(mut text: Box<dyn BufRead>) -> io::Result<Box<dyn BufRead>> {
    let mut start = Vec::with_capacity(BYTE_ORDER_MARK.len());
    (&mut text).take(BYTE_ORDER_MARK.len() as u64).read_to_end(&mut start)?;
    if start == BYTE_ORDER_MARK {
        return Ok(text);
    }
    Ok(Box::new(io::Cursor::new(start).chain(text)))
}

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

#[cfg(not(all(feature = "zlib", feature = "zstd")))]
const MISSING_DECOMPRESSOR: &str =
    "compressed with gzip or zstd; this program lacks the cargo feature `zlib` or `zstd`";

/// Returns a reader of the text of a file that may be compressed.
fn decompressed(mut raw: impl Read + 'static) -> io::Result<Box<dyn BufRead>> {
    let mut start = Vec::with_capacity(ZSTD_MAGIC.len());
    (&mut raw).take(ZSTD_MAGIC.len() as u64).read_to_end(&mut start)?;
    let is_gzip = start.starts_with(&GZIP_MAGIC);
    let is_zstd = start.starts_with(&ZSTD_MAGIC);
    let file = BufReader::new(io::Cursor::new(start).chain(raw));
    Ok(match (is_gzip, is_zstd) {
        #[cfg(feature = "zlib")]
        (true, _) => Box::new(BufReader::new(flate2::bufread::MultiGzDecoder::new(file))),
        #[cfg(feature = "zstd")]
        (_, true) => Box::new(BufReader::new(zstd::Decoder::with_buffer(file)?)),
        (false, false) => Box::new(file),
        #[cfg(not(all(feature = "zlib", feature = "zstd")))]
        _ => return Err(io::Error::new(io::ErrorKind::Unsupported, MISSING_DECOMPRESSOR)),
    })
}
