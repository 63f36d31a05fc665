//! Order of keys by a Python function.

use std::cmp::Ordering;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use terrace::Comparator;

/// Comparator that calls a Python function with two `bytes` objects.
///
/// The function returns a negative number, zero or a positive number. If it raises an exception, or
/// returns another object, the process ends after a message: a partly known order destroys data.
pub(crate) struct FunctionComparator {
    name: String,
    function: Py<PyAny>,
}

impl FunctionComparator {
    pub(crate) fn new(name: String, function: Py<PyAny>) -> FunctionComparator {
        FunctionComparator { name, function }
    }

    fn call(&self, py: Python<'_>, a: &[u8], b: &[u8]) -> PyResult<Ordering> {
        let result = self.function.bind(py).call1((PyBytes::new(py, a), PyBytes::new(py, b)))?;
        if result.lt(0)? {
            return Ok(Ordering::Less);
        }
        Ok(if result.gt(0)? { Ordering::Greater } else { Ordering::Equal })
    }
}

impl Comparator for FunctionComparator {
    fn name(&self) -> &str {
        &self.name
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        Python::attach(|py| {
            self.call(py, a, b).unwrap_or_else(|error| {
                error.print(py);
                end_process(py, &self.name)
            })
        })
    }
}

/// Ends the process at once. The write-ahead log keeps all writes that have returned.
fn end_process(py: Python<'_>, name: &str) -> ! {
    let message = format!("terrace: the comparator {name} failed; the process ends to protect the data");
    let _ = py.import("sys").and_then(|sys| sys.getattr("stderr")?.call_method1("write", (message + "\n",)));
    let _ = py.import("sys").and_then(|sys| sys.getattr("stderr")?.call_method0("flush"));
    std::process::abort()
}
