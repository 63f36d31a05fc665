//! Tables: footer, metaindex, and every block with its entries.
//!
//! ```text
//! footer at 2082
//! metaindex at 1984: 41 bytes stored, 41 uncompressed, none
//!   filter.leveldb.BuiltinBloomFilter2 at 1892, 87 bytes
//! index at 2030: 47 bytes stored, 47 uncompressed, none
//! block at 0: 1887 bytes stored, 4087 uncompressed, snappy
//!   AD/Canillo/Canillo @ 1 put => 42.56,1.59
//! ```
//!
//! Checksums are verified. A damaged block is skipped. If the footer or the index block is damaged,
//! the blocks cannot be found.
#![allow(clippy::disallowed_types, reason = "reads a single file outside the database engine")]

use std::fmt;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;

use terrace_format::block::{Block, BlockIter};
use terrace_format::comparator::bytewise;
use terrace_format::key::{self, ValueType};
use terrace_format::table::{BLOCK_TRAILER_SIZE, BlockHandle, FOOTER_SIZE, Footer, read_block};
use terrace_format::{DecodeError, InternalIterator, compress};

use crate::escape::Escaped;
use crate::failure::Failure;
use crate::input::open_file;
use crate::terminal::printable;

/// Displays an internal key.
pub(super) struct DisplayInternalKey<'a>(pub(super) &'a [u8]);

impl fmt::Display for DisplayInternalKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match key::parse(self.0) {
            Ok(key) => {
                let kind = if key.value_type == ValueType::Value { "put" } else { "del" };
                write!(f, "{} @ {} {kind}", Escaped(key.user_key), key.sequence)
            }
            Err(error) => write!(f, "{} (not an internal key: {error})", Escaped(self.0)),
        }
    }
}

/// Prints the table `path`, and returns the number of damaged places.
pub(super) fn print(path: &Path, out: &mut impl Write) -> Result<u64, Failure> {
    let mut table = TableDumper::open(path)?;
    let footer = match table.footer()? {
        Ok(footer) => footer,
        Err(error) => {
            super::print_damage(out, &error)?;
            return Ok(1);
        }
    };
    writeln!(out, "footer at {}", table.footer_offset)?;
    Ok(print_meta(&mut table, &footer.metaindex, out)? + print_blocks(&mut table, &footer.index, out)?)
}

fn print_meta(
    table: &mut TableDumper<'_>,
    metaindex: &BlockHandle,
    out: &mut impl Write,
) -> Result<u64, Failure> {
    let Some(mut meta_entries) = table.print_block_header("metaindex", metaindex, out)? else { return Ok(1) };
    while meta_entries.valid() {
        match BlockHandle::decode(meta_entries.value()) {
            Ok((handle, _)) => {
                let name = Escaped(meta_entries.key());
                writeln!(out, "  {name} at {}, {} bytes", handle.offset, handle.size)?;
            }
            Err(error) => super::print_damage(out, &error.offset_by(metaindex.offset))?,
        }
        meta_entries.next();
    }
    count_entry_damage(&meta_entries, metaindex, out)
}

fn print_blocks(
    table: &mut TableDumper<'_>,
    index: &BlockHandle,
    out: &mut impl Write,
) -> Result<u64, Failure> {
    let Some(mut handles) = table.print_block_header("index", index, out)? else { return Ok(1) };
    let mut damaged_places = 0;
    while handles.valid() {
        damaged_places += match BlockHandle::decode(handles.value()) {
            Ok((handle, _)) => print_block(table, &handle, out)?,
            Err(error) => {
                super::print_damage(out, &error.offset_by(index.offset))?;
                1
            }
        };
        handles.next();
    }
    Ok(damaged_places + count_entry_damage(&handles, index, out)?)
}

fn print_block(
    table: &mut TableDumper<'_>,
    handle: &BlockHandle,
    out: &mut impl Write,
) -> Result<u64, Failure> {
    let Some(mut entries) = table.print_block_header("block", handle, out)? else { return Ok(1) };
    while entries.valid() {
        writeln!(out, "  {} => {}", DisplayInternalKey(entries.key()), Escaped(entries.value()))?;
        entries.next();
    }
    count_entry_damage(&entries, handle, out)
}

/// Returns 0 if `entries` reached the end of its block, or prints the damage that stopped it and
/// returns 1.
fn count_entry_damage(
    entries: &BlockIter,
    handle: &BlockHandle,
    out: &mut impl Write,
) -> Result<u64, Failure> {
    let Err(error) = entries.status() else { return Ok(0) };
    writeln!(out, "damage at {} in the block at {}: {}", error.offset, handle.offset, printable(&error))?;
    Ok(1)
}

/// A table file.
struct TableDumper<'a> {
    path: &'a Path,
    file: File,
    len: u64,
    /// Offset of the footer, at which the last block ends at the latest.
    footer_offset: u64,
}

impl<'a> TableDumper<'a> {
    fn open(path: &'a Path) -> Result<TableDumper<'a>, Failure> {
        let file = open_file(path)?;
        let len = file.metadata().map_err(|e| Failure::for_file(path, e))?.len();
        Ok(TableDumper { path, file, len, footer_offset: len.saturating_sub(FOOTER_SIZE as u64) })
    }

    /// Reads the footer. The outer error is a failed read, the inner one an invalid footer.
    fn footer(&mut self) -> Result<Result<Footer, DecodeError>, Failure> {
        let bytes = self.read(self.footer_offset, self.len - self.footer_offset)?;
        Ok(Footer::decode(&bytes, self.len))
    }

    fn read(&mut self, offset: u64, size: u64) -> Result<Vec<u8>, Failure> {
        let mut bytes = Vec::new();
        let mut read = || {
            self.file.seek(SeekFrom::Start(offset))?;
            (&mut self.file).take(size).read_to_end(&mut bytes)
        };
        read().map_err(|e| Failure::for_file(self.path, e))?;
        Ok(bytes)
    }

    /// Prints one line about a block and returns an iterator over its entries, or reports damage
    /// and returns `None`.
    fn print_block_header(
        &mut self,
        name: &str,
        handle: &BlockHandle,
        out: &mut impl Write,
    ) -> Result<Option<BlockIter>, Failure> {
        write!(out, "{name} at {}: {} bytes stored", handle.offset, handle.size)?;
        let contents = self.read_stored_block(handle)?.and_then(|stored| {
            let codec = codec_name(&stored);
            read_block(&stored, true).map(|contents| (contents, codec))
        });
        let entries = match contents {
            Ok((contents, codec)) => {
                write!(out, ", {} uncompressed, {codec}", contents.len())?;
                block_entries(contents)
            }
            Err(error) => Err(error),
        };
        writeln!(out)?;
        match entries {
            Ok(entries) => Ok(Some(entries)),
            Err(error) => {
                super::print_damage(out, &error.offset_by(handle.offset))?;
                Ok(None)
            }
        }
    }

    /// Reads a block in its stored form, with its trailer.
    fn read_stored_block(&mut self, handle: &BlockHandle) -> Result<Result<Vec<u8>, DecodeError>, Failure> {
        match handle.check(self.footer_offset) {
            Ok(()) => self.read(handle.offset, handle.size + BLOCK_TRAILER_SIZE as u64).map(Ok),
            Err(error) => Ok(Err(error)),
        }
    }
}

/// Names the codec in the block trailer. Two names are returned if two variants share an id.
fn codec_name(stored: &[u8]) -> String {
    let Some((id, contents)) = stored.iter().nth_back(BLOCK_TRAILER_SIZE - 1).map(|id| (*id, stored)) else {
        return "no trailer".into();
    };
    compress::codec_of_block(id, contents).map_or_else(|_| format!("type {id}"), |codec| codec.name.into())
}

fn block_entries(contents: Vec<u8>) -> Result<BlockIter, DecodeError> {
    // The iterator only moves forward, so the comparator is never called.
    let mut entries = BlockIter::new(Arc::new(Block::new(contents)?), bytewise());
    entries.seek_to_first();
    Ok(entries)
}
