//! Tables: footer, metaindex, and every block with its entries.
//!
//! ```text
//! footer at 2082: metaindex at 2000 (20 bytes), index at 2030 (44 bytes)
//! meta filter.leveldb.BuiltinBloomFilter2 at 1900, 92 bytes
//! block at 0: 1887 bytes stored, 4087 unpacked, snappy
//!   AD/Canillo/Canillo @ 1 put => 42.56,1.59
//! ```
//!
//! Checksums are verified. A damaged block is skipped; without footer or index there is no way to the blocks.
#![allow(clippy::disallowed_types, reason = "a file on its own is no database: it is read like any input")]

use std::fmt;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;

use terrace_format::block::{Block, BlockIter};
use terrace_format::comparator::bytewise;
use terrace_format::key::{self, Kind};
use terrace_format::table::{BlockHandle, FOOTER_SIZE, Footer, TRAILER_SIZE, read_block};
use terrace_format::{Flaw, compress};

use crate::escape::Escaped;
use crate::failure::Failure;
use crate::input::open_file;

/// An internal key in words.
pub(super) struct Internal<'a>(pub(super) &'a [u8]);

impl fmt::Display for Internal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match key::parse(self.0) {
            Ok(key) => {
                let kind = if key.kind == Kind::Put { "put" } else { "del" };
                write!(f, "{} @ {} {kind}", Escaped(key.user_key), key.sequence)
            }
            Err(flaw) => write!(f, "{} (not an internal key: {flaw})", Escaped(self.0)),
        }
    }
}

/// Prints the table `path`, and says how many places are damaged.
pub(super) fn print(path: &Path, out: &mut impl Write) -> Result<u64, Failure> {
    let mut table = Table::open(path)?;
    let footer = match table.footer()? {
        Ok(footer) => footer,
        Err(flaw) => {
            super::damage(out, &flaw)?;
            return Ok(1);
        }
    };
    let (meta, index) = (&footer.metaindex, &footer.index);
    writeln!(
        out,
        "footer at {}: metaindex at {} ({} bytes), index at {} ({} bytes)",
        table.limit, meta.offset, meta.size, index.offset, index.size
    )?;
    Ok(print_meta(&mut table, meta, out)? + print_blocks(&mut table, index, out)?)
}

fn print_meta(table: &mut Table<'_>, metaindex: &BlockHandle, out: &mut impl Write) -> Result<u64, Failure> {
    let Some(mut metas) = table.entries(metaindex, out)? else { return Ok(1) };
    while metas.valid() {
        match BlockHandle::decode(metas.value()) {
            Ok((at, _)) => writeln!(out, "meta {} at {}, {} bytes", Escaped(metas.key()), at.offset, at.size)?,
            Err(flaw) => super::damage(out, &flaw.moved(metaindex.offset))?,
        }
        metas.next();
    }
    ended_well(&metas, metaindex, out)
}

fn print_blocks(table: &mut Table<'_>, index: &BlockHandle, out: &mut impl Write) -> Result<u64, Failure> {
    let Some(mut handles) = table.entries(index, out)? else { return Ok(1) };
    let mut damages = 0;
    while handles.valid() {
        damages += match BlockHandle::decode(handles.value()) {
            Ok((handle, _)) => print_block(table, &handle, out)?,
            Err(flaw) => {
                super::damage(out, &flaw.moved(index.offset))?;
                1
            }
        };
        handles.next();
    }
    Ok(damages + ended_well(&handles, index, out)?)
}

fn print_block(table: &mut Table<'_>, handle: &BlockHandle, out: &mut impl Write) -> Result<u64, Failure> {
    write!(out, "block at {}: {} bytes stored", handle.offset, handle.size)?;
    let Some(mut entries) = table.entries_of_data(handle, out)? else { return Ok(1) };
    while entries.valid() {
        writeln!(out, "  {} => {}", Internal(entries.key()), Escaped(entries.value()))?;
        entries.next();
    }
    ended_well(&entries, handle, out)
}

/// 0 if `entries` came to the end of their block, 1 if damage stopped them.
fn ended_well(entries: &BlockIter, handle: &BlockHandle, out: &mut impl Write) -> Result<u64, Failure> {
    let Some(flaw) = entries.flaw() else { return Ok(0) };
    writeln!(out, "damage at {} in the block at {}: {flaw}", flaw.at, handle.offset)?;
    Ok(1)
}

/// A table file.
struct Table<'a> {
    path: &'a Path,
    file: File,
    len: u64,
    /// Where the footer begins: no block reaches beyond.
    limit: u64,
}

impl<'a> Table<'a> {
    fn open(path: &'a Path) -> Result<Table<'a>, Failure> {
        let file = open_file(path)?;
        let len = file.metadata().map_err(|e| Failure::reading(path, e))?.len();
        Ok(Table { path, file, len, limit: len.saturating_sub(FOOTER_SIZE as u64) })
    }

    /// The outer result is about reading, the inner one about what was read.
    fn footer(&mut self) -> Result<Result<Footer, Flaw>, Failure> {
        let bytes = self.read(self.limit, self.len - self.limit)?;
        Ok(Footer::decode(&bytes, self.len))
    }

    fn read(&mut self, offset: u64, size: u64) -> Result<Vec<u8>, Failure> {
        let mut bytes = Vec::new();
        let mut read = || {
            self.file.seek(SeekFrom::Start(offset))?;
            (&mut self.file).take(size).read_to_end(&mut bytes)
        };
        read().map_err(|e| Failure::reading(self.path, e))?;
        Ok(bytes)
    }

    /// The entries of a block of keys and handles; `None` after a word about damage.
    fn entries(&mut self, handle: &BlockHandle, out: &mut impl Write) -> Result<Option<BlockIter>, Failure> {
        match self.stored(handle)?.and_then(|stored| iter(read_block(&stored, true)?)) {
            Ok(entries) => Ok(Some(entries)),
            Err(flaw) => super::damage(out, &flaw.moved(handle.offset)).map(|()| None).map_err(Failure::from),
        }
    }

    /// The same of a block of data, which finishes the line about the block first.
    fn entries_of_data(&mut self, handle: &BlockHandle, out: &mut impl Write) -> Result<Option<BlockIter>, Failure> {
        let unpacked = self.stored(handle)?.and_then(|stored| {
            let codec = codec(&stored, handle);
            read_block(&stored, true).map(|contents| (codec, contents))
        });
        let entries = match unpacked {
            Ok((codec, contents)) => {
                writeln!(out, ", {} unpacked, {codec}", contents.len())?;
                iter(contents)
            }
            Err(flaw) => {
                writeln!(out)?;
                Err(flaw)
            }
        };
        match entries {
            Ok(entries) => Ok(Some(entries)),
            Err(flaw) => super::damage(out, &flaw.moved(handle.offset)).map(|()| None).map_err(Failure::from),
        }
    }

    /// A block as it is stored, with its trailer.
    fn stored(&mut self, handle: &BlockHandle) -> Result<Result<Vec<u8>, Flaw>, Failure> {
        match handle.check(self.limit) {
            Ok(()) => self.read(handle.offset, handle.size + TRAILER_SIZE as u64).map(Ok),
            Err(flaw) => Ok(Err(flaw)),
        }
    }
}

/// The name of the codec that the trailer says.
fn codec(stored: &[u8], handle: &BlockHandle) -> String {
    let id = usize::try_from(handle.size).ok().and_then(|size| stored.get(size)).copied();
    let codec = id.and_then(|id| compress::CODECS.iter().find(|codec| codec.id == id));
    codec.map_or_else(|| format!("type {id:?}"), |codec| codec.name.to_owned())
}

fn iter(contents: Vec<u8>) -> Result<BlockIter, Flaw> {
    // Front to back, so that the order of the keys is never asked.
    let mut entries = BlockIter::new(Arc::new(Block::new(contents)?), bytewise());
    entries.seek_to_first();
    Ok(entries)
}
