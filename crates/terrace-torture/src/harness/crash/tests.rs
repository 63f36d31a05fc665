//! Tests of the attack: stores with a known durability bug must fail, and a correct store must
//! pass.

use std::path::Path;
use std::sync::Arc;

use terrace_env::mem::{Crash, FailedSyncEffect, MemFs, POWER_LOSS_PROFILES};
use terrace_env::{FileSystem, Result as FileResult};

use super::*;
use crate::crash_workload::contents::{Entry, ValuePool};
use crate::crash_workload::script::ScriptStep;

/// Steps with which a store replaces its only file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReplaceMode {
    /// Write, rename.
    NoSync,
    /// Write, sync, rename, sync the directory.
    SyncOnce,
    /// As `SyncOnce`, but a failed sync is repeated, and its second result is trusted.
    RetryFailedSync,
}

/// Store that rewrites its only file for each write.
struct SingleFileStore {
    fs: Arc<dyn FileSystem>,
    mode: ReplaceMode,
    entries: std::collections::BTreeMap<Vec<u8>, Vec<u8>>,
}

const DATA_PATH: &str = "/data";

impl SingleFileStore {
    fn save(&self) -> FileResult<()> {
        let new = Path::new("/new");
        let mut file = self.fs.create(new)?;
        for (key, value) in &self.entries {
            for part in [key, value] {
                file.append(&(part.len() as u32).to_le_bytes())?;
                file.append(part)?;
            }
        }
        match self.mode {
            ReplaceMode::NoSync => file.flush()?,
            ReplaceMode::SyncOnce => file.sync()?,
            ReplaceMode::RetryFailedSync => file.sync().or_else(|_| file.sync())?,
        }
        self.fs.rename(new, Path::new(DATA_PATH))?;
        if self.mode == ReplaceMode::NoSync { Ok(()) } else { self.fs.sync_dir(Path::new("/")) }
    }

    fn load(&mut self) -> Result<(), String> {
        let path = Path::new(DATA_PATH);
        if !self.fs.exists(path).unwrap() {
            return Ok(());
        }
        let file = self.fs.open_random_access(path, terrace_env::AccessMode::Mmap).unwrap();
        let mut rest = file.mapped_slice().unwrap();
        let mut part = || -> Option<Vec<u8>> {
            let (len, after_len) = rest.split_first_chunk()?;
            let (part, next) = after_len.split_at_checked(u32::from_le_bytes(*len) as usize)?;
            rest = next;
            Some(part.to_vec())
        };
        while let Some(key) = part() {
            self.entries.insert(key, part().ok_or("the file is torn")?);
        }
        Ok(())
    }
}

impl CrashableStore for SingleFileStore {
    type Options = ReplaceMode;

    fn open(fs: &Arc<dyn FileSystem>, mode: &ReplaceMode) -> Result<SingleFileStore, String> {
        let mut store = SingleFileStore { fs: Arc::clone(fs), mode: *mode, entries: Default::default() };
        store.load()?;
        Ok(store)
    }

    fn write(&mut self, changes: &[(&[u8], Option<&[u8]>)], _sync: bool) -> Result<(), String> {
        for (key, value) in changes {
            match value {
                Some(value) => self.entries.insert(key.to_vec(), value.to_vec()),
                None => self.entries.remove(*key),
            };
        }
        self.save().map_err(|error| error.to_string())
    }

    fn entries(&self) -> Result<Vec<Entry>, String> {
        Ok(self.entries.clone().into_iter().collect())
    }

    fn close(self) -> Result<(), String> {
        Ok(())
    }

    fn make_durable(self, _step: &ScriptStep) -> Result<SingleFileStore, String> {
        Ok(self)
    }
}

/// Returns a script of synced writes, each longer than a sector.
fn script() -> Script {
    let mut rng = Rng::new(1);
    let mut values = ValuePool::default();
    let steps = [b"a", b"b", b"c", b"a", b"b", b"c"].map(|key| {
        let changes = vec![(key.to_vec(), Some(values.generate(900, &mut rng)))];
        ScriptStep::Write { changes, sync: true }
    });
    Script::from_steps(steps.into(), values)
}

/// Runs the store under all profiles whose names start with `profiles`.
fn crash(mode: ReplaceMode, profiles: &str) -> Result<(), String> {
    let script = script();
    let mut checker = ImageChecker::<SingleFileStore>::new(&script, &mode, LogKind::Mapped);
    let files = Arc::new(MemFs::new());
    let fs = Arc::clone(&files) as Arc<dyn FileSystem>;
    run_script::<SingleFileStore>(&script, &mode, &files, &fs, &mut |point| {
        for profile in POWER_LOSS_PROFILES.iter().filter(|profile| profile.name.starts_with(profiles)) {
            for crash in point.fs.power_losses(profile, 8, point.fs.mutation_count()) {
                let writes = point.progress.durable..=point.progress.started;
                checker.check(point.fs.crash_clone(&crash), writes, false)?;
            }
        }
        let killed = point.fs.crash_clone(&Crash::Kill);
        checker.check(killed, point.progress.acknowledged..=point.progress.started, true).map(|_| ())
    })
}

/// Profile P8: one sync fails although its data counts as written, and later the power fails.
fn fail_syncs(mode: ReplaceMode) -> Result<(), String> {
    let script = script();
    for syncs_before in 0..6 {
        for page_cache in [FailedSyncEffect::KeepsPages, FailedSyncEffect::DropsPages] {
            let files = Arc::new(MemFs::new());
            let fs = Arc::clone(&files) as Arc<dyn FileSystem>;
            let mut store = SingleFileStore::open(&fs, &mode)?;
            files.inject_sync_failure(syncs_before, page_cache);
            let mut acknowledged = 0;
            for step in &script.steps {
                let ScriptStep::Write { changes, .. } = step else { continue };
                let changes: Vec<_> = changes
                    .iter()
                    .map(|(key, id)| (&key[..], id.map(|id| script.values.bytes(id))))
                    .collect();
                if store.write(&changes, true).is_err() {
                    break;
                }
                acknowledged += 1;
            }
            let max_writes = (acknowledged + 1).min(script.states.len() - 1);
            for crash in files.power_losses(&POWER_LOSS_PROFILES[0], 1, 0) {
                ImageChecker::<SingleFileStore>::new(&script, &mode, LogKind::Mapped).check(
                    files.crash_clone(&crash),
                    acknowledged..=max_writes,
                    false,
                )?;
            }
        }
    }
    Ok(())
}

#[test]
fn store_with_sync_passes_every_profile() {
    assert_eq!(crash(ReplaceMode::SyncOnce, ""), Ok(()));
    assert_eq!(fail_syncs(ReplaceMode::SyncOnce), Ok(()));
}

#[test]
fn store_without_sync_fails_every_profile() {
    for profile in POWER_LOSS_PROFILES.iter().filter(|row| !row.name.starts_with("LevelDB: new")) {
        assert!(crash(ReplaceMode::NoSync, profile.name).is_err(), "{} misses the bug", profile.name);
    }
    assert!(fail_syncs(ReplaceMode::NoSync).is_err());
}

/// Only failed syncs reveal the bug of this store.
#[test]
fn retrying_store_fails_when_syncs_fail() {
    assert_eq!(crash(ReplaceMode::RetryFailedSync, ""), Ok(()));
    let message = fail_syncs(ReplaceMode::RetryFailedSync).unwrap_err();
    assert!(message.starts_with("expected the state after"), "{message}");
}

#[test]
fn case_is_deterministic() {
    let run_and_count = || {
        let counters = Counters::default();
        let result = run(42, &counters);
        (result, counters.get(Counter::CrashPoints), counters.get(Counter::CrashImages))
    };
    let first = run_and_count();
    assert_eq!(first, run_and_count());
    assert!(first.1 > 10 && first.2 > 100, "{first:?}");
}
