//! The files of the repository, read once.

use std::io;
use std::path::{Path, PathBuf};

use super::source::Source;

/// A text file.
pub(super) struct File {
    /// From the root of the repository, with `/` between names.
    pub(super) path: String,
    /// Its contents.
    pub(super) text: String,
}

/// Every text file, and those of them that are Rust.
pub(super) struct Tree {
    /// All, in order of their paths.
    pub(super) files: Vec<File>,
    /// Those named `*.rs`.
    pub(super) sources: Vec<Source>,
}

impl Tree {
    /// Reads what stands under `root`, but for build results and git's own files.
    pub(super) fn read(root: &Path) -> io::Result<Tree> {
        let mut files = Vec::new();
        walk(root, root, &mut files)?;
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Tree::new(files))
    }

    fn new(files: Vec<File>) -> Tree {
        let rust = files.iter().filter(|file| file.path.ends_with(".rs"));
        let sources = rust.map(|file| Source::new(&file.path, &file.text)).collect();
        Tree { files, sources }
    }

    /// The files whose path starts with `prefix`.
    pub(super) fn below(&self, prefix: &str) -> Tree {
        let files = self.files.iter().filter(|file| file.path.starts_with(prefix));
        Tree::new(files.map(|file| File { path: file.path.clone(), text: file.text.clone() }).collect())
    }

    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Tree {
        let file = |(path, text): &(&str, &str)| File { path: (*path).into(), text: (*text).into() };
        Tree::new(files.iter().map(file).collect())
    }
}

/// The repository's root: the nearest folder above the working directory that has `.git`. A tree
/// without git is found by the manifest folder that Cargo states.
pub(crate) fn root() -> PathBuf {
    let current = std::env::current_dir().unwrap_or_default();
    let checkout = current.ancestors().find(|dir| dir.join(".git").exists()).map(Path::to_path_buf);
    let manifest_dir = || std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    checkout
        .or_else(|| manifest_dir().and_then(|dir| dir.parent().map(Path::to_path_buf)))
        .unwrap_or_else(|| PathBuf::from("."))
}

fn walk(root: &Path, dir: &Path, files: &mut Vec<File>) -> io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if skipped(&path) {
            continue;
        }
        if path.is_dir() {
            walk(root, &path, files)?;
        } else if let Ok(text) = String::from_utf8(std::fs::read(&path)?) {
            files.push(File { path: relative(root, &path), text });
        }
    }
    Ok(())
}

/// Build results and git's own; in a second working tree `.git` is a file.
fn skipped(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name == ".git" || name == "target" || name.starts_with("target-")
}

fn relative(root: &Path, path: &Path) -> String {
    let below = path.strip_prefix(root).unwrap_or(path);
    below.components().map(|name| name.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("/")
}
