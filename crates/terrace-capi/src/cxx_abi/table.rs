//! Reading and building of tables without a database.

use std::io;
use std::path::Path;
use std::sync::Arc;

use terrace::ErrorKind;
use terrace::table::{SstFileReader, TableBuilder, TableOptions};

use super::callbacks::{RandomAccessFileCallbacks, UserRandomAccessFile, WritableFileCallbacks};
use super::iterator::CxxIterator;
use super::options::CxxOptions;
use super::types::{
    CxxSlice, ErrorReport, NullableUserObject, StatusCode, UserObject, run_or, run_with_report,
};
use crate::ffi::{StatusError, catch_panic};

/// Opens the table in the first `len` bytes of `file`, which the program keeps and deletes.
#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_table_open(
    options: &CxxOptions,
    file: NullableUserObject<RandomAccessFileCallbacks>,
    len: u64,
    opened: &mut Option<Box<SstFileReader>>,
    report: &mut ErrorReport,
) -> StatusCode {
    run_with_report(report, || {
        // The C++ class does not know the name of its file.
        let path = Path::new("table");
        let file = file.non_null().ok_or_else(|| StatusError::invalid_argument("no file"))?;
        let file = UserRandomAccessFile { file, path: path.to_path_buf(), len, is_owned: false };
        let table = SstFileReader::open(Arc::new(file), path, &options.to_options())?;
        *opened = Some(Box::new(table));
        Ok(())
    })
}

/// # Safety
///
/// The contract; `table` is not used again.
#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_table_drop(table: Box<SstFileReader>) {
    run_or((), || drop(table));
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_table_iterate(table: &SstFileReader, fill_cache: bool) -> Option<Box<CxxIterator>> {
    run_or(None, || Some(Box::new(CxxIterator::from(table.iter(fill_cache)))))
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_table_offset(table: &SstFileReader, key: CxxSlice<'_>) -> u64 {
    let key = key.as_slice();
    run_or(0, || table.approximate_offset(key))
}

/// Adapter of the program's file to [`io::Write`].
struct UserFileWriter(UserObject<WritableFileCallbacks>);

impl io::Write for UserFileWriter {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.0.append(data).map_err(io::Error::other)?;
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(io::Error::other)
    }
}

/// A table that is being written.
pub(super) struct TableBuilderHandle {
    builder: TableBuilder<UserFileWriter>,
    comparator: String,
    /// First error; later steps do nothing.
    error: Option<StatusError>,
    is_finished: bool,
}

impl TableBuilderHandle {
    /// Runs `step`, unless an earlier one failed.
    fn run_step(&mut self, step: impl FnOnce(&mut TableBuilder<UserFileWriter>) -> io::Result<()>) {
        if self.error.is_none() && !self.is_finished {
            let result = catch_panic(|| step(&mut self.builder).map_err(to_status_error));
            self.error = result.err();
        }
    }

    fn status(&self) -> Result<(), StatusError> {
        self.error.clone().map_or(Ok(()), Err)
    }
}

/// Returns the error that a [`UserFileWriter`] put into `error`.
fn to_status_error(error: io::Error) -> StatusError {
    match error.downcast::<StatusError>() {
        Ok(error) => error,
        Err(error) => StatusError { kind: ErrorKind::Io, message: error.to_string() },
    }
}

/// Returns null if there is no file.
#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_builder(
    options: &CxxOptions,
    file: NullableUserObject<WritableFileCallbacks>,
) -> Option<Box<TableBuilderHandle>> {
    run_or(None, || {
        let file = file.non_null()?;
        let options = TableOptions::from(&options.to_options());
        let comparator = options.comparator.name().to_owned();
        let builder = TableBuilder::new(options, UserFileWriter(file));
        Some(Box::new(TableBuilderHandle { builder, comparator, error: None, is_finished: false }))
    })
}

/// # Safety
///
/// The contract; `builder` is not used again.
#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_builder_drop(builder: Box<TableBuilderHandle>) {
    run_or((), || drop(builder));
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_builder_change(
    builder: &mut TableBuilderHandle,
    options: &CxxOptions,
    report: &mut ErrorReport,
) -> StatusCode {
    run_with_report(report, || {
        let options = TableOptions::from(&options.to_options());
        if options.comparator.name() != builder.comparator {
            return Err(StatusError::invalid_argument("changing comparator while building table"));
        }
        builder.run_step(|table| table.change_options(&options));
        builder.status()
    })
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_builder_add(
    builder: &mut TableBuilderHandle,
    key: CxxSlice<'_>,
    value: CxxSlice<'_>,
) {
    let key = key.as_slice();
    let value = value.as_slice();
    builder.run_step(|table| table.add(key, value));
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_builder_flush(builder: &mut TableBuilderHandle) {
    builder.run_step(TableBuilder::flush_block);
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_builder_status(
    builder: &TableBuilderHandle,
    report: &mut ErrorReport,
) -> StatusCode {
    run_with_report(report, || builder.status())
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_builder_finish(
    builder: &mut TableBuilderHandle,
    report: &mut ErrorReport,
) -> StatusCode {
    builder.run_step(TableBuilder::finish);
    builder.is_finished = true;
    run_with_report(report, || builder.status())
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_builder_abandon(builder: &mut TableBuilderHandle) {
    builder.is_finished = true;
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_builder_entries(builder: &TableBuilderHandle) -> u64 {
    builder.builder.num_entries()
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_builder_size(builder: &TableBuilderHandle) -> u64 {
    builder.builder.file_size()
}
