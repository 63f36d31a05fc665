//! Files of the repository, read once.

use std::io;
use std::path::{Path, PathBuf};

use super::source::Source;

/// A text file.
pub(super) struct File {
    /// Path from the root of the repository, with `/` between names.
    pub(super) path: String,
    /// Contents of the file.
    pub(super) text: String,
}

/// All text files and all Rust files.
pub(super) struct Tree {
    /// Text files, in order of their paths.
    pub(super) files: Vec<File>,
    /// Files with the name `*.rs`.
    pub(super) sources: Vec<Source>,
}

impl Tree {
    /// Reads the files below `root`, without build results and git's own files.
    pub(super) fn read(root: &Path) -> io::Result<Tree> {
        let mut files = Vec::new();
        collect(root, root, &mut files)?;
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Tree::new(files))
    }

    fn new(files: Vec<File>) -> Tree {
        let rust = files.iter().filter(|file| file.path.ends_with(".rs"));
        let sources = rust.map(|file| Source::new(&file.path, &file.text)).collect();
        Tree { files, sources }
    }

    /// The files with a path that starts with `prefix`.
    pub(super) fn below(&self, prefix: &str) -> Tree {
        let files = self.files.iter().filter(|file| file.path.starts_with(prefix));
        Tree::new(files.map(|file| File { path: file.path.clone(), text: file.text.clone() }).collect())
    }

    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Tree {
        let files = files.iter().map(|(path, text)| File { path: (*path).into(), text: (*text).into() });
        Tree::new(files.collect())
    }
}

/// The repository's root: the nearest folder above the working directory that has `.git`. A tree
/// without git is found by the manifest folder that Cargo states.
pub(crate) fn root() -> PathBuf {
    let current = std::env::current_dir().unwrap_or_default();
    let checkout = current.ancestors().find(|dir| dir.join(".git").exists()).map(Path::to_path_buf);
    checkout.or_else(above_manifest).unwrap_or_else(|| PathBuf::from("."))
}

/// The folder above the manifest folder that Cargo states.
fn above_manifest() -> Option<PathBuf> {
    let manifest_dir = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR")?);
    manifest_dir.parent().map(Path::to_path_buf)
}

fn collect(root: &Path, dir: &Path, files: &mut Vec<File>) -> io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if skipped(&path) {
            continue;
        }
        if path.is_dir() {
            collect(root, &path, files)?;
        } else if let Ok(text) = String::from_utf8(std::fs::read(&path)?) {
            files.push(File { path: relative(root, &path), text });
        }
    }
    Ok(())
}

/// Whether `path` is a build result or git's own. In a second working tree, `.git` is a file.
fn skipped(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    [".git", "target", "node_modules"].contains(&&*name) || name.starts_with("target-")
}

fn relative(root: &Path, path: &Path) -> String {
    let below = path.strip_prefix(root).unwrap_or(path);
    below.components().map(|name| name.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("/")
}
