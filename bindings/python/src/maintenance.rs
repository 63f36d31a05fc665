//! Functions on the directory of a closed database.

use std::path::Path;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use terrace::{Options, Problem, RepairOptions};

use crate::arguments::path_of;
use crate::error::{Result, exception};
use crate::open_options::options_of;

/// Repairs the database in directory `name`. Returns a report.
#[pyfunction]
#[pyo3(signature = (name, *, dry_run=false, **options), text_signature = "(name, *, dry_run=False, paranoid_checks=None, write_buffer_size=None, max_open_files=None, lru_cache_size=None, block_size=None, block_restart_interval=None, max_file_size=None, compression='snappy', bloom_filter_bits=0, comparator=None, comparator_name=None)")]
pub(crate) fn repair_db<'py>(
    py: Python<'py>,
    name: &Bound<'py, PyAny>,
    dry_run: bool,
    options: Option<&Bound<'py, PyDict>>,
) -> Result<Bound<'py, PyDict>> {
    let path = path_of(name)?;
    for name in ["create_if_missing", "error_if_exists"] {
        if options.is_some_and(|options| options.contains(name).unwrap_or(false)) {
            return Err(PyTypeError::new_err(format!("unexpected keyword argument '{name}'")));
        }
    }
    let options = options_of(options)?;
    let repair_options = RepairOptions::default().dry_run(dry_run);
    let found = py.detach(|| terrace::repair(&path, &options, &repair_options)).map_err(exception)?;
    let report = PyDict::new(py);
    report.set_item("changed", found.changed)?;
    report.set_item("tables_kept", found.tables_kept)?;
    report.set_item("tables_salvaged", found.tables_salvaged)?;
    report.set_item("tables_missing", found.tables_missing)?;
    report.set_item("tables_unreadable", found.tables_unreadable)?;
    report.set_item("blocks_lost", found.blocks_lost)?;
    report.set_item("logs_kept", found.logs_kept)?;
    report.set_item("logs_salvaged", found.logs_salvaged)?;
    report.set_item("problems", problems(py, &found.problems)?)?;
    report.set_item("actions", found.actions)?;
    Ok(report)
}

/// Deletes the database in directory `name`.
#[pyfunction]
pub(crate) fn destroy_db(py: Python<'_>, name: &Bound<'_, PyAny>) -> Result<()> {
    let path = path_of(name)?;
    py.detach(|| terrace::destroy(&path, &Options::default())).map_err(exception)
}

/// Checks every file of the database in directory `name`. Returns a report.
#[pyfunction]
#[pyo3(signature = (name, *, comparator=None, comparator_name=None))]
pub(crate) fn verify_db<'py>(
    py: Python<'py>,
    name: &Bound<'py, PyAny>,
    comparator: Option<&Bound<'py, PyAny>>,
    comparator_name: Option<&Bound<'py, PyAny>>,
) -> Result<Bound<'py, PyDict>> {
    let arguments = PyDict::new(py);
    arguments.set_item("comparator", comparator)?;
    arguments.set_item("comparator_name", comparator_name)?;
    verify_path(py, &path_of(name)?, &options_of(Some(&arguments))?)
}

/// Checks the database in directory `path`.
pub(crate) fn verify_path<'py>(
    py: Python<'py>,
    path: &Path,
    options: &Options,
) -> Result<Bound<'py, PyDict>> {
    let found = py.detach(|| terrace::verify(path, options)).map_err(exception)?;
    let report = PyDict::new(py);
    report.set_item("is_clean", found.is_clean())?;
    report.set_item("files", found.files)?;
    report.set_item("bytes", found.bytes)?;
    report.set_item("keys", found.keys)?;
    report.set_item("versions", found.versions)?;
    report.set_item("problems", problems(py, &found.problems)?)?;
    report.set_item("notes", problems(py, &found.notes)?)?;
    Ok(report)
}

/// Returns problems as a list of texts.
fn problems<'py>(py: Python<'py>, problems: &[Problem]) -> Result<Bound<'py, PyList>> {
    PyList::new(py, problems.iter().map(Problem::to_string))
}
