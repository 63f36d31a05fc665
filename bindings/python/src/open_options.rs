//! Options of an open and of a repair, with plyvel's names.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyFloat};
use terrace::compress::{CODECS, NO_COMPRESSION};
use terrace::{BlockCache, BloomFilterPolicy, Codec, Options};
use terrace_sync::Arc;

use crate::comparator::FunctionComparator;
use crate::error::Result;

/// Returns the options for the keyword arguments of plyvel, and `memory_budget`. The caller has
/// removed its own ones. An unknown argument is a `TypeError`.
pub(crate) fn options_of(arguments: Option<&Bound<'_, PyDict>>) -> Result<Options> {
    let mut options = Options::default();
    let mut comparator = [None, None];
    for (name, value) in arguments.into_iter().flatten() {
        let name: String = name.extract()?;
        match name.as_str() {
            "compression" => options.compression = Some(codec(&value)?),
            _ if value.is_none() => {}
            "create_if_missing" => options.create_if_missing = value.extract()?,
            "error_if_exists" => options.error_if_exists = value.extract()?,
            "paranoid_checks" => options.paranoid_checks = value.is_truthy()?,
            "write_buffer_size" => options.write_buffer_size = Some(size(&value)?),
            "max_open_files" => options.max_open_files = count(&value)?,
            "lru_cache_size" => options.block_cache = Some(BlockCache::new(size(&value)?)),
            "block_size" => options.block_size = size(&value)?,
            "block_restart_interval" => options.block_restart_interval = count(&value)?,
            "max_file_size" => options.max_file_size = Some(size(&value)? as u64),
            "bloom_filter_bits" => set_filter(&mut options, count(&value)?),
            "memory_budget" => options.memory_budget = Some(value.extract()?),
            "comparator" => comparator[0] = Some(value),
            "comparator_name" if !value.is_instance_of::<PyBytes>() => {
                return Err(PyTypeError::new_err("'comparator_name' must be a byte string"));
            }
            "comparator_name" => comparator[1] = Some(value),
            _ => return Err(PyTypeError::new_err(format!("unexpected keyword argument '{name}'"))),
        }
    }
    match comparator {
        [None, None] => {}
        [Some(function), Some(name)] => set_comparator(&mut options, function, &name)?,
        _ => {
            let message = "'comparator' and 'comparator_name' must be specified together";
            return Err(PyValueError::new_err(message));
        }
    }
    Ok(options)
}

/// Returns a number of bytes. A float loses its fraction, as in plyvel: programs write `1e9`.
fn size(value: &Bound<'_, PyAny>) -> Result<usize> {
    integer(value)?.extract()
}

/// Returns a number of things. A negative one is 0, which the engine moves to its lower bound, as
/// LevelDB does.
fn count(value: &Bound<'_, PyAny>) -> Result<usize> {
    let number: i64 = integer(value)?.extract()?;
    Ok(usize::try_from(number).unwrap_or(0))
}

fn integer<'py>(value: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>> {
    if value.is_instance_of::<PyFloat>() { value.call_method0("__int__") } else { Ok(value.clone()) }
}

/// Sets the size of filters. Plyvel's default of 0 keeps the default of the engine.
fn set_filter(options: &mut Options, bits_per_key: usize) {
    if bits_per_key > 0 {
        options.filter_policy = Some(Arc::new(BloomFilterPolicy::new(bits_per_key)));
    }
}

/// Returns the codec with the name `value`. None is no compression, as in plyvel.
fn codec(value: &Bound<'_, PyAny>) -> Result<&'static Codec> {
    if value.is_none() {
        return Ok(&NO_COMPRESSION);
    }
    let name = match value.cast::<PyBytes>() {
        Ok(bytes) => String::from_utf8_lossy(bytes.as_bytes()).into_owned(),
        Err(_) => value
            .extract::<String>()
            .map_err(|_| PyTypeError::new_err("'compression' must be None or a string"))?,
    };
    CODECS.iter().copied().find(|codec| codec.name == name).ok_or_else(|| {
        let names: Vec<&str> = CODECS.iter().map(|codec| codec.name).collect();
        PyValueError::new_err(format!("'compression' must be None or one of {}", names.join(", ")))
    })
}

fn set_comparator(options: &mut Options, function: Bound<'_, PyAny>, name: &Bound<'_, PyAny>) -> Result<()> {
    let name = name
        .cast::<PyBytes>()
        .map_err(|_| PyTypeError::new_err("'comparator_name' must be a byte string"))?;
    if !function.is_callable() {
        return Err(PyTypeError::new_err("custom comparator object must be callable"));
    }
    let name = std::str::from_utf8(name.as_bytes())
        .map_err(|_| PyValueError::new_err("'comparator_name' must be UTF-8"))?;
    options.comparator = Arc::new(FunctionComparator::new(name.to_owned(), function.unbind()));
    Ok(())
}
