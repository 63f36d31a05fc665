//! Absolute paths without `..`, which tell whether a path is inside of a directory.

use std::path::{Component, Path, PathBuf};

use crate::fs::FileSystem;

/// Returns the absolute path without `..`. Follows no symbolic link, so the result may name another
/// file than `path` if a link precedes a `..`.
///
/// ```
/// use std::path::Path;
/// use terrace_env::{Env, normalized_path};
/// let path = normalized_path(&*Env::in_memory().fs, Path::new("/srv/other/../cities/copy"));
/// assert!(path.starts_with("/srv/cities"));
/// ```
pub fn normalized_path(fs: &dyn FileSystem, path: &Path) -> PathBuf {
    let mut normalized = PathBuf::new();
    for component in fs.absolute(path).components() {
        match component {
            Component::ParentDir => drop(normalized.pop()),
            component => normalized.push(component),
        }
    }
    normalized
}
