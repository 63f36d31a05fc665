//! Python module of Terrace: plyvel's classes on the engine, with additions.
//!
//! ```text
//!   Python          terrace/__init__.py, plyvel.py, _errors.py, _view.py
//!   classes         db  prefixed_db  write_batch  iterator  raw_iterator  snapshot  transaction
//!   without Python  handle (an open database)  cursor (entries in chunks)
//! ```
//!
//! Each engine call releases the interpreter lock. A thread that waits for a lock of this crate has
//! released it, too, unless no holder of that lock ever waits for the interpreter: a comparator in
//! Python runs within the calls of the engine.
//!
//! This crate contains no unsafe code and no rules of its own. It translates types and errors.

mod arguments;
mod comparator;
mod cursor;
mod db;
mod error;
mod handle;
mod iterator;
mod maintenance;
mod open_options;
mod prefixed_db;
mod raw_iterator;
mod results;
mod snapshot;
mod stats;
mod transaction;
mod write_batch;

/// The native part of the package `terrace`.
#[pyo3::pymodule(gil_used = false)]
mod _terrace {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::db::PyDb;
    #[pymodule_export]
    use crate::handle::close_all;
    #[pymodule_export]
    use crate::iterator::PyIterator;
    #[pymodule_export]
    use crate::maintenance::{destroy_db, repair_db, verify_db};
    #[pymodule_export]
    use crate::prefixed_db::PyPrefixedDb;
    #[pymodule_export]
    use crate::raw_iterator::PyRawIterator;
    #[pymodule_export]
    use crate::snapshot::PySnapshot;
    #[pymodule_export]
    use crate::transaction::PyTransaction;
    #[pymodule_export]
    use crate::write_batch::PyWriteBatch;

    /// Runs at the import of the module.
    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::error::import_exceptions(module.py());
        Ok(())
    }

    #[pymodule_export]
    #[allow(non_upper_case_globals, reason = "the name that Python's modules have")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
