//! Metrics of the engine as dictionaries.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use terrace::{Stats, Ticker, Timer};

use crate::error::Result;

/// Returns the counters since the open, the levels and the memory.
pub(crate) fn stats_of<'py>(py: Python<'py>, stats: &Stats) -> Result<Bound<'py, PyDict>> {
    let result = PyDict::new(py);
    let tickers = PyDict::new(py);
    for ticker in Ticker::all() {
        tickers.set_item(ticker.name(), stats.ticker(ticker))?;
    }
    result.set_item("tickers", tickers)?;
    let timers = PyDict::new(py);
    for timer in Timer::all() {
        let data = stats.timer(timer);
        let row = PyDict::new(py);
        row.set_item("count", data.count)?;
        row.set_item("sum_micros", data.sum_micros)?;
        row.set_item("max_micros", data.max_micros)?;
        timers.set_item(timer.name(), row)?;
    }
    result.set_item("timers", timers)?;
    let levels = stats.levels.iter().map(|level| level_of(py, level)).collect::<Result<Vec<_>>>()?;
    result.set_item("levels", levels)?;
    result.set_item("memory", memory_of(py, stats)?)?;
    result.set_item("immutable_memtables", stats.immutable_memtables)?;
    result.set_item("last_sequence", stats.last_sequence)?;
    result.set_item("writes_refused", stats.writes_refused.as_ref().map(ToString::to_string))?;
    Ok(result)
}

fn level_of<'py>(py: Python<'py>, level: &terrace::LevelStats) -> Result<Bound<'py, PyDict>> {
    let row = PyDict::new(py);
    row.set_item("files", level.files)?;
    row.set_item("bytes", level.bytes)?;
    row.set_item("bytes_read", level.bytes_read)?;
    row.set_item("bytes_written", level.bytes_written)?;
    Ok(row)
}

fn memory_of<'py>(py: Python<'py>, stats: &Stats) -> Result<Bound<'py, PyDict>> {
    let memory = &stats.memory;
    let row = PyDict::new(py);
    row.set_item("memtables", memory.memtables.bytes)?;
    row.set_item("block_cache", memory.block_cache.bytes)?;
    row.set_item("tables", memory.tables.bytes)?;
    row.set_item("total", memory.total())?;
    row.set_item("limit", memory.limit)?;
    Ok(row)
}
