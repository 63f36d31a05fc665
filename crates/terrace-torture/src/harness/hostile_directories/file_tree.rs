//! Files of a directory tree with their contents, for comparison.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Entries of a tree by path.
#[derive(Debug, Default)]
pub(super) struct FileTree(BTreeMap<PathBuf, Entry>);

/// One entry: mode with its kind, owner, size, and contents or target.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    mode: u32,
    owner: u32,
    len: u64,
    contents: Vec<u8>,
}

/// Maximum size in bytes of a file whose contents are compared. Only planted holes are larger.
const MAX_COMPARED_LEN: u64 = 64 << 20;

impl FileTree {
    /// Reads the tree below `root`. It is empty if `root` is not a directory.
    pub(super) fn read(root: &Path) -> FileTree {
        let mut tree = FileTree::default();
        if fs::symlink_metadata(root).is_ok_and(|metadata| metadata.is_dir()) {
            tree.add_directory(root);
        }
        tree
    }

    fn add_directory(&mut self, directory: &Path) {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
            if metadata.is_dir() {
                self.add_directory(&path);
            }
            let contents = match (metadata.is_file(), metadata.is_symlink()) {
                (true, _) if metadata.len() <= MAX_COMPARED_LEN => fs::read(&path).unwrap_or_default(),
                (_, true) => fs::read_link(&path).unwrap_or_default().into_os_string().into_encoded_bytes(),
                _ => Vec::new(),
            };
            let len = if metadata.is_file() { metadata.len() } else { 0 };
            self.0.insert(path, Entry { mode: metadata.mode(), owner: metadata.uid(), len, contents });
        }
    }

    /// Describes an entry of this tree that `later` lacks, or that differs there.
    pub(super) fn describe_loss(&self, later: &FileTree) -> Option<String> {
        let lost = self.0.iter().find(|(path, entry)| later.0.get(*path) != Some(entry));
        lost.map(|(path, _)| format!("{} has changed", path.display()))
    }

    /// Describes an entry that only one tree has, or that differs.
    pub(super) fn describe_difference(&self, later: &FileTree) -> Option<String> {
        let new = later.0.keys().find(|path| !self.0.contains_key(*path));
        self.describe_loss(later).or_else(|| Some(format!("{} is new", new?.display())))
    }
}
