//! Directory of a database before its open: missing, new, with leftovers that hold data, or with
//! the files of RocksDB.

use std::path::Path;

use terrace_env::Env;
use terrace_format::filename::FileName;
use terrace_format::log::{LogItem, LogReader};

use crate::db::components::directory::list_db_files;
use crate::error::{Error, ErrorKind, Result};
use crate::file_io::{FileReader, file_error, parent_directory};

/// Returns the error for a directory without a database.
pub(super) fn missing_database_error(directory: &Path) -> Error {
    Error::DoesNotExist { path: directory.to_path_buf() }
}

/// Returns the error of an open whose MANIFEST gave `error`. If it is corrupt because the directory
/// holds a database of RocksDB, the kind is no corruption: a repair would destroy that database.
pub(super) fn manifest_error(env: &Env, directory: &Path, error: Error) -> Error {
    if error.kind() != ErrorKind::Corruption {
        return error;
    }
    match env.fs.list(directory) {
        Ok(names) => match names.iter().filter_map(|name| name.to_str()).find(|name| is_rocksdb_file(name)) {
            Some(file) => Error::InvalidArgument(format!(
                "{}: a database of RocksDB (it has a file {file}): {error}",
                directory.display()
            )),
            None => error,
        },
        Err(_) => error,
    }
}

/// Returns true for file names that RocksDB uses and LevelDB does not.
fn is_rocksdb_file(name: &str) -> bool {
    let number = name.strip_prefix("OPTIONS-").unwrap_or_default();
    name == "IDENTITY" || (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns an error if `directory`, which has no CURRENT, contains data. A new database there would
/// remove the data as leftovers.
///
/// An interrupted creation leaves no table, and a log without records.
pub(super) fn check_holds_no_data(env: &Env, directory: &Path) -> Result<()> {
    for file in list_db_files(env, directory, 0)? {
        let path = directory.join(file.to_string());
        let holds_data = match file {
            FileName::Table(_) | FileName::OldTable(_) => true,
            FileName::Log(_) => has_records(env, &path)?,
            _ => false,
        };
        if holds_data {
            let message = format!("is missing, but {file} exists: run repair to recover the readable data");
            return Err(Error::corruption(&directory.join(FileName::Current.to_string()), None, message));
        }
    }
    Ok(())
}

/// Returns true if the log at `path` has a complete record. After a power cut during the creation,
/// it may contain other bytes.
fn has_records(env: &Env, path: &Path) -> Result<bool> {
    let mut reader = LogReader::new(FileReader(env.fs.open_sequential(path)?));
    while let Some(item) = reader.next().map_err(|error| file_error(path, error))? {
        if matches!(item, LogItem::Record { .. }) {
            return Ok(true);
        }
    }
    Ok(false)
}

pub(super) fn create_directory(env: &Env, directory: &Path) -> Result<()> {
    match env.fs.create_dir(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error.into()),
        _ => Ok(()),
    }
}

/// Makes the directory of a new database durable in its parent, even if the caller created it.
/// Otherwise a power cut could remove the whole database.
pub(super) fn sync_parent_directory(env: &Env, directory: &Path) -> Result<()> {
    match env.fs.sync_dir(parent_directory(directory)) {
        // The process may not read the parent. Then its owner has created the directory.
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Ok(()),
        synced => Ok(synced?),
    }
}
