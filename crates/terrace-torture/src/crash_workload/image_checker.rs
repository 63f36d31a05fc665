//! Opens a crash image, compares its contents, writes to it, and compares again.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_env::mem::MemFs;
use terrace_env::{AccessMode, FileSystem};

use super::contents::{State, describe_difference, fingerprint, parse_state};
use super::file_usage_checker::FileUsageChecker;
use super::script::{POST_CRASH_KEY, Script};
use super::store::CrashableStore;

/// Checks crash images of the workload `script`. Equal images are opened once.
pub struct ImageChecker<'a, S: CrashableStore> {
    script: &'a Script,
    options: &'a S::Options,
    mapped_logs: bool,
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
    /// Creates a checker that opens stores with `options`. For `mapped_logs` see
    /// [`FileUsageChecker`].
    pub fn new(script: &'a Script, options: &'a S::Options, mapped: bool) -> ImageChecker<'a, S> {
        ImageChecker { script, options, mapped_logs: mapped, checked_images: HashMap::new() }
    }

    /// Checks an image that must hold the state after `min_writes` to `max_writes` writes. Returns
    /// None if an equal image was checked before.
    pub fn check(
        &mut self,
        image: MemFs,
        least: usize,
        most: usize,
    ) -> Result<Option<RecoveredImage>, String> {
        let print = image_fingerprint(&image)?;
        if let Some(&held) = self.checked_images.get(&print) {
            return self.match_state(held, least, most, || "judged before".into()).map(|_| None);
        }
        let files = Arc::new(image);
        let guard = FileUsageChecker::new(Arc::clone(&files), self.mapped_logs);
        let world = Arc::clone(&guard) as Arc<dyn FileSystem>;
        let mut store = S::open(&world, self.options).map_err(|error| format!("open: {error}"))?;
        let found = self.read_state(&store)?;
        let held = fingerprint(&found);
        let count = self.match_state(held, least, most, || {
            let nearest = self.script.write_count_of(&found);
            let what = describe_difference(&self.script.states[most], &found);
            nearest.map_or_else(
                || format!("a state that never was; against write {most}: {what}"),
                |count| format!("the state after write {count}"),
            )
        })?;
        self.checked_images.insert(print, held);
        store
            .write(&[(POST_CRASH_KEY, Some(self.script.values.bytes(self.script.post_crash_value)))], true)
            .map_err(|error| format!("the first write: {error}"))?;
        store.close().map_err(|error| format!("closing: {error}"))?;
        let store = S::open(&world, self.options).map_err(|error| format!("second open: {error}"))?;
        let state = self.read_state(&store).map_err(|error| format!("second open: {error}"))?;
        let expected = self.script.state_with_post_crash_write(count);
        if state != expected {
            let what = describe_difference(&expected, &state);
            return Err(format!("found write {count}; after one more write and a second open: {what}"));
        }
        store.close().map_err(|error| format!("second closing: {error}"))?;
        guard.check_violations()?;
        guard.check_no_leftovers()?;
        drop(world);
        Ok(Some(RecoveredImage { files, state, fingerprint: print }))
    }

    fn read_state(&self, store: &S) -> Result<State, String> {
        parse_state(&store.entries()?, &self.script.values)
    }

    fn match_state(
        &self,
        held: u64,
        least: usize,
        most: usize,
        what: impl FnOnce() -> String,
    ) -> Result<usize, String> {
        let found = (least..=most).rev().find(|&count| self.script.fingerprints[count] == held);
        found.ok_or_else(|| format!("expected the state after {least} to {most} writes, found {}", what()))
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
    see: &mut dyn FnMut(&Path, &[u8]),
) -> Result<(), terrace_env::FileError> {
    let mut names: Vec<PathBuf> = fs.list(dir)?.into_iter().map(|name| dir.join(name)).collect();
    names.sort();
    for path in names {
        if fs.is_dir(&path)? {
            see(&path, b"");
            visit_files(fs, &path, see)?;
        } else {
            let file = fs.open_random_access(&path, AccessMode::Mmap)?;
            see(&path, file.mapped_slice().unwrap_or_default());
        }
    }
    Ok(())
}
