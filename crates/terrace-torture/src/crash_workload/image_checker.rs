//! Opens a crash image, compares its contents, writes to it, and compares again.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_env::mem::MemFs;
use terrace_env::{AccessMode, FileSystem};

use super::contents::{State, describe_difference, fingerprint, parse_state};
use super::file_usage_checker::{FileUsageChecker, LogKind};
use super::script::{POST_CRASH_KEY, Script};
use super::store::CrashableStore;

/// Checks crash images of the workload `script`. Equal images are opened once.
pub struct ImageChecker<'a, S: CrashableStore> {
    script: &'a Script,
    options: &'a S::Options,
    logs: LogKind,
    /// Fingerprint of the contents of each checked image, by the fingerprint of the image.
    checked_images: HashMap<u64, u64>,
}

/// A crash image after its recovery.
pub struct RecoveredImage {
    /// Files after the image was opened, written to and closed.
    pub files: Arc<MemFs>,
    /// Contents of the files.
    pub state: State,
    /// Fingerprint of the image before recovery.
    pub fingerprint: u64,
}

impl<'a, S: CrashableStore> ImageChecker<'a, S> {
    /// Creates a checker that opens stores with `options`. Their databases have
    /// `logs`.
    pub fn new(script: &'a Script, options: &'a S::Options, logs: LogKind) -> ImageChecker<'a, S> {
        ImageChecker { script, options, logs, checked_images: HashMap::new() }
    }

    /// Checks an image that must hold the state after a number of writes in `writes`. With appended
    /// logs, a power cut may instead leave values of several such states. Returns None if an equal
    /// image was checked before.
    pub fn check(
        &mut self,
        image: MemFs,
        writes: RangeInclusive<usize>,
        is_killed: bool,
    ) -> Result<Option<RecoveredImage>, String> {
        let (min_writes, max_writes) = writes.into_inner();
        let fingerprint_of_image = image_fingerprint(&image)?;
        if let Some(&contents) = self.checked_images.get(&fingerprint_of_image) {
            return self
                .check_state(contents, min_writes, max_writes, || "contents of an equal image".into())
                .map(|_| None);
        }
        let files = Arc::new(image);
        let checker = FileUsageChecker::new(Arc::clone(&files), self.logs);
        let fs = Arc::clone(&checker) as Arc<dyn FileSystem>;
        let mut store = S::open(&fs, self.options).map_err(|error| format!("open: {error}"))?;
        let found = self.read_state(&store)?;
        let contents = fingerprint(&found);
        let may_have_gaps = self.logs == LogKind::Appended && !is_killed;
        if !(may_have_gaps && self.has_values_of_states(&found, min_writes, max_writes)) {
            self.check_state(contents, min_writes, max_writes, || {
                let writes = self.script.write_count_of(&found);
                let difference = describe_difference(&self.script.states[max_writes], &found);
                writes.map_or_else(
                    || format!("a state that never existed; compared with write {max_writes}: {difference}"),
                    |count| format!("the state after write {count}"),
                )
            })?;
            self.checked_images.insert(fingerprint_of_image, contents);
        }
        store
            .write(&[(POST_CRASH_KEY, Some(self.script.values.bytes(self.script.post_crash_value)))], true)
            .map_err(|error| format!("the first write failed: {error}"))?;
        store.close().map_err(|error| format!("close: {error}"))?;
        let store = S::open(&fs, self.options).map_err(|error| format!("second open: {error}"))?;
        let state = self.read_state(&store).map_err(|error| format!("second open: {error}"))?;
        let mut expected = found;
        expected.insert(POST_CRASH_KEY.to_vec(), self.script.post_crash_value);
        if state != expected {
            let difference = describe_difference(&expected, &state);
            return Err(format!("after another write and a second open: {difference}"));
        }
        store.close().map_err(|error| format!("second close: {error}"))?;
        checker.check_violations()?;
        checker.check_no_leftovers()?;
        drop(fs);
        Ok(Some(RecoveredImage { files, state, fingerprint: fingerprint_of_image }))
    }

    fn read_state(&self, store: &S) -> Result<State, String> {
        parse_state(&store.entries()?, &self.script.values)
    }

    /// Returns true if each key has its value in some state after `min_writes` to `max_writes`
    /// writes.
    fn has_values_of_states(&self, found: &State, min_writes: usize, max_writes: usize) -> bool {
        let states = &self.script.states[min_writes..=max_writes];
        let mut keys = states.iter().chain([found]).flat_map(State::keys);
        keys.all(|key| states.iter().any(|state| state.get(key) == found.get(key)))
    }

    fn check_state(
        &self,
        contents: u64,
        min_writes: usize,
        max_writes: usize,
        describe: impl FnOnce() -> String,
    ) -> Result<(), String> {
        let is_found = self.script.fingerprints[min_writes..=max_writes].contains(&contents);
        is_found.then_some(()).ok_or_else(|| {
            format!("expected the state after {min_writes} to {max_writes} writes, found {}", describe())
        })
    }
}

/// Returns a hash of all file names and contents.
pub fn image_fingerprint(fs: &MemFs) -> Result<u64, String> {
    let mut hasher = DefaultHasher::new();
    visit_files(fs, Path::new("/"), &mut |path, bytes| {
        (path, bytes.len(), terrace_format::crc::value(bytes)).hash(&mut hasher);
    })
    .map_err(|error| error.to_string())?;
    Ok(hasher.finish())
}

/// Calls `visit` with each file, in the order of names.
pub fn visit_files(
    fs: &MemFs,
    dir: &Path,
    visit: &mut dyn FnMut(&Path, &[u8]),
) -> Result<(), terrace_env::FileError> {
    let mut names: Vec<PathBuf> = fs.list(dir)?.into_iter().map(|name| dir.join(name)).collect();
    names.sort();
    for path in names {
        if fs.is_dir(&path)? {
            visit(&path, b"");
            visit_files(fs, &path, visit)?;
        } else {
            let file = fs.open_random_access(&path, AccessMode::Pread)?;
            let mut bytes = vec![0; file.len() as usize];
            file.read_at(0, &mut bytes)?;
            visit(&path, &bytes);
        }
    }
    Ok(())
}
