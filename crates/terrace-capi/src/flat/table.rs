//! Tables without a database: read and made.

use std::io;
use std::path::Path;
use std::sync::Arc;

use terrace::ErrorKind;
use terrace::table::{TableBuilder, TableFile, TableOptions};

use super::abi::{Bytes, Code, Foreign, Handed, Report, answer, quietly};
use super::cursor::Cursor;
use super::foreign::{ForeignRandom, RandomCalls, WritableCalls};
use super::options::FlatOptions;
use crate::border::{Failure, guarded};

/// Opens the table in the first `len` bytes of `file`, which stays the program's.
#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_table_open(
    options: &FlatOptions,
    file: Handed<RandomCalls>,
    len: u64,
    made: &mut Option<Box<TableFile>>,
    report: &mut Report,
) -> Code {
    answer(report, || {
        // The class does not know the name of its file.
        let path = Path::new("table");
        let file = file.foreign().ok_or_else(|| Failure::invalid("no file"))?;
        let file = ForeignRandom { file, path: path.to_path_buf(), len, owned: false };
        let table = TableFile::open(Arc::new(file), path, &options.read())?;
        *made = Some(Box::new(table));
        Ok(())
    })
}

/// # Safety
///
/// The contract; `table` is not used again.
#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_table_drop(table: Box<TableFile>) {
    quietly((), || drop(table));
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_table_iterate(table: &TableFile, fill_cache: bool) -> Option<Box<Cursor>> {
    quietly(None, || Some(Box::new(Cursor::from(table.cursor(fill_cache)))))
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_table_offset(table: &TableFile, key: Bytes<'_>) -> u64 {
    let key = key.get();
    quietly(0, || table.approximate_offset(key))
}

/// The program's file as a writer.
struct Sink(Foreign<WritableCalls>);

impl io::Write for Sink {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.0.append(data).map_err(io::Error::other)?;
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(io::Error::other)
    }
}

/// A table on its way to a file.
pub(super) struct Builder {
    table: TableBuilder<Sink>,
    comparator: String,
    /// The first thing that went wrong; nothing is done after it.
    failure: Option<Failure>,
    closed: bool,
}

impl Builder {
    /// Does `step`, unless an earlier one failed.
    fn step(&mut self, step: impl FnOnce(&mut TableBuilder<Sink>) -> io::Result<()>) {
        if self.failure.is_none() && !self.closed {
            let done = guarded(|| step(&mut self.table).map_err(failure));
            self.failure = done.err();
        }
    }

    fn status(&self) -> Result<(), Failure> {
        self.failure.clone().map_or(Ok(()), Err)
    }
}

/// The failure inside an error that a [`Sink`] made.
fn failure(error: io::Error) -> Failure {
    match error.downcast::<Failure>() {
        Ok(failure) => failure,
        Err(error) => Failure { kind: ErrorKind::Io, what: error.to_string() },
    }
}

/// Null if there is no file.
#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_builder(
    options: &FlatOptions,
    file: Handed<WritableCalls>,
) -> Option<Box<Builder>> {
    quietly(None, || {
        let file = file.foreign()?;
        let options = TableOptions::from(&options.read());
        let comparator = options.comparator.name().to_owned();
        let table = TableBuilder::new(options, Sink(file));
        Some(Box::new(Builder { table, comparator, failure: None, closed: false }))
    })
}

/// # Safety
///
/// The contract; `builder` is not used again.
#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_builder_drop(builder: Box<Builder>) {
    quietly((), || drop(builder));
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_builder_change(
    builder: &mut Builder,
    options: &FlatOptions,
    report: &mut Report,
) -> Code {
    answer(report, || {
        let options = TableOptions::from(&options.read());
        if options.comparator.name() != builder.comparator {
            return Err(Failure::invalid("changing comparator while building table"));
        }
        builder.step(|table| table.set_blocks(&options));
        builder.status()
    })
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_builder_add(builder: &mut Builder, key: Bytes<'_>, value: Bytes<'_>) {
    let (key, value) = (key.get(), value.get());
    builder.step(|table| table.add(key, value));
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_builder_flush(builder: &mut Builder) {
    builder.step(TableBuilder::flush_block);
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_builder_status(builder: &Builder, report: &mut Report) -> Code {
    answer(report, || builder.status())
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_builder_finish(builder: &mut Builder, report: &mut Report) -> Code {
    builder.step(TableBuilder::finish);
    builder.closed = true;
    answer(report, || builder.status())
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_builder_abandon(builder: &mut Builder) {
    builder.closed = true;
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_builder_entries(builder: &Builder) -> u64 {
    builder.table.entries()
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_builder_size(builder: &Builder) -> u64 {
    builder.table.file_size()
}
