//! Opens what a crash left, compares, goes on, and compares again.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_env::mem::MemFs;
use terrace_env::{Access, FileSystem};

use super::contents::{State, difference, fingerprint, state};
use super::guard::Guard;
use super::script::{AFTER, Script};
use super::store::Store;

/// Judges images of the life that is `script`. Equal images are opened once.
pub struct Judge<'a, S: Store> {
    script: &'a Script,
    options: &'a S::Options,
    mapped: bool,
    /// What each image, by its fingerprint, turned out to hold.
    known: HashMap<u64, u64>,
}

/// What came of an image that was not known yet.
pub struct Recovered {
    /// The files, after it was opened, written to, and closed.
    pub files: Arc<MemFs>,
    /// What is in them.
    pub state: State,
    /// The image's fingerprint.
    pub print: u64,
}

impl<'a, S: Store> Judge<'a, S> {
    /// A judge of stores that are opened so; `mapped` as for the [`Guard`].
    pub fn new(script: &'a Script, options: &'a S::Options, mapped: bool) -> Judge<'a, S> {
        Judge { script, options, mapped, known: HashMap::new() }
    }

    /// Judges an image that must hold the state after `least` to `most` writes. None if an equal one was judged.
    pub fn judge(&mut self, image: MemFs, least: usize, most: usize) -> Result<Option<Recovered>, String> {
        let print = print(&image)?;
        if let Some(&held) = self.known.get(&print) {
            return self.expect(held, least, most, || "judged before".into()).map(|_| None);
        }
        let files = Arc::new(image);
        let guard = Guard::new(Arc::clone(&files), self.mapped);
        let world = Arc::clone(&guard) as Arc<dyn FileSystem>;
        let mut store = S::open(&world, self.options).map_err(|error| format!("open: {error}"))?;
        let found = self.contents(&store)?;
        let held = fingerprint(&found);
        let count = self.expect(held, least, most, || {
            let nearest = self.script.count_of(&found);
            let what = difference(&self.script.states[most], &found);
            nearest.map_or_else(
                || format!("a state that never was; against write {most}: {what}"),
                |count| format!("the state after write {count}"),
            )
        })?;
        self.known.insert(print, held);
        store
            .write(&[(AFTER, Some(self.script.values.bytes(self.script.after)))], true)
            .map_err(|error| format!("the first write: {error}"))?;
        store.close().map_err(|error| format!("closing: {error}"))?;
        let store = S::open(&world, self.options).map_err(|error| format!("second open: {error}"))?;
        let state = self.contents(&store).map_err(|error| format!("second open: {error}"))?;
        let expected = self.script.with_after(count);
        if state != expected {
            let what = difference(&expected, &state);
            return Err(format!("found write {count}; after one more write and a second open: {what}"));
        }
        store.close().map_err(|error| format!("second closing: {error}"))?;
        guard.verdict()?;
        guard.leftovers()?;
        drop(world);
        Ok(Some(Recovered { files, state, print }))
    }

    fn contents(&self, store: &S) -> Result<State, String> {
        state(&store.entries()?, &self.script.values)
    }

    fn expect(
        &self,
        held: u64,
        least: usize,
        most: usize,
        what: impl FnOnce() -> String,
    ) -> Result<usize, String> {
        let found = (least..=most).rev().find(|&count| self.script.prints[count] == held);
        found.ok_or_else(|| format!("expected the state after {least} to {most} writes, found {}", what()))
    }
}

/// A number that equal file systems share: over every name and its bytes.
pub fn print(fs: &MemFs) -> Result<u64, String> {
    let mut hasher = DefaultHasher::new();
    walk(fs, Path::new("/"), &mut |path, bytes| {
        (path, bytes.len(), terrace_format::crc::value(bytes)).hash(&mut hasher);
    })
    .map_err(|error| error.to_string())?;
    Ok(hasher.finish())
}

/// Shows every file, in the order of the names.
pub fn walk(fs: &MemFs, dir: &Path, see: &mut dyn FnMut(&Path, &[u8])) -> Result<(), terrace_env::FileError> {
    let mut names: Vec<PathBuf> = fs.list(dir)?.into_iter().map(|name| dir.join(name)).collect();
    names.sort();
    for path in names {
        if fs.is_dir(&path)? {
            see(&path, b"");
            walk(fs, &path, see)?;
        } else {
            let file = fs.open_random(&path, Access::Map)?;
            see(&path, file.mapped().unwrap_or_default());
        }
    }
    Ok(())
}
