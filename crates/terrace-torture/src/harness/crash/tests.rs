//! The attack itself is tried: stores that are wrong in a known way must fail, and one that is right must pass.

use std::path::Path;
use std::sync::Arc;

use terrace_env::mem::{Crash, FailedSyncEffect, MemFs, POWER_LOSS_PROFILES, PowerLossProfile};
use terrace_env::{FileSystem, Result as FileResult};

use super::*;
use crate::crash_workload::contents::{Entry, ValuePool};
use crate::crash_workload::script::ScriptStep;

/// What a store of one file does to replace it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReplaceMode {
    /// Write, rename.
    WithoutSync,
    /// Write, sync, rename, sync the directory.
    WithSync,
    /// As careful, but a failed sync is tried again, and then believed.
    RetryingSync,
}

/// A store that writes everything anew into one file.
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
            ReplaceMode::WithoutSync => file.flush()?,
            ReplaceMode::WithSync => file.sync()?,
            ReplaceMode::RetryingSync => file.sync().or_else(|_| file.sync())?,
        }
        self.fs.rename(new, Path::new(DATA_PATH))?;
        if self.mode == ReplaceMode::WithoutSync { Ok(()) } else { self.fs.sync_dir(Path::new("/")) }
    }

    fn load(&mut self) -> Result<(), String> {
        let path = Path::new(DATA_PATH);
        if !self.fs.exists(path).unwrap() {
            return Ok(());
        }
        let file = self.fs.open_random_access(path, terrace_env::AccessMode::Mmap).unwrap();
        let mut rest = file.mapped_slice().unwrap();
        let mut part = || -> Option<Vec<u8>> {
            let (len, behind) = rest.split_first_chunk()?;
            let (part, behind) = behind.split_at_checked(u32::from_le_bytes(*len) as usize)?;
            rest = behind;
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

    fn open(fs: &Arc<dyn FileSystem>, way: &ReplaceMode) -> Result<SingleFileStore, String> {
        let mut store = SingleFileStore { fs: Arc::clone(fs), mode: *way, entries: Default::default() };
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

/// Synced writes of values of some sectors.
fn script() -> Script {
    let mut rng = Rng::new(1);
    let mut values = ValuePool::default();
    let write = |n: usize| {
        let changes = vec![(vec![b'a' + (n % 3) as u8], Some(values.generate(900, &mut rng)))];
        ScriptStep::Write { changes, sync: true }
    };
    let steps = (0..6).map(write).collect();
    Script::from_steps(steps, values)
}

/// What the profiles whose names begin so find wrong with a store.
fn crash(way: ReplaceMode, profiles: &str) -> Result<(), String> {
    let script = script();
    let mut judge = ImageChecker::<SingleFileStore>::new(&script, &way, true);
    let files = Arc::new(MemFs::new());
    let world = Arc::clone(&files) as Arc<dyn FileSystem>;
    let named = |row: &&PowerLossProfile| row.name.starts_with(profiles);
    run_script::<SingleFileStore>(&script, &way, &files, &world, &mut |point| {
        for profile in POWER_LOSS_PROFILES.iter().filter(named) {
            for crash in point.fs.power_losses(profile, 8, point.fs.mutation_count()) {
                judge.check(point.fs.crash_clone(&crash), point.progress.durable, point.progress.started)?;
            }
        }
        let killed = point.fs.crash_clone(&Crash::Kill);
        judge.check(killed, point.progress.acknowledged, point.progress.started).map(|_| ())
    })
}

/// P8: one sync of a file fails, and what it should have written counts as written; later the power fails.
fn fail_syncs(way: ReplaceMode) -> Result<(), String> {
    let script = script();
    for before in 0..6 {
        for cache in [FailedSyncEffect::KeepsPages, FailedSyncEffect::DropsPages] {
            let files = Arc::new(MemFs::new());
            let world = Arc::clone(&files) as Arc<dyn FileSystem>;
            let mut store = SingleFileStore::open(&world, &way)?;
            files.inject_sync_failure(before, cache);
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
            let most = (acknowledged + 1).min(script.states.len() - 1);
            for crash in files.power_losses(&POWER_LOSS_PROFILES[0], 1, 0) {
                ImageChecker::<SingleFileStore>::new(&script, &way, true).check(
                    files.crash_clone(&crash),
                    acknowledged,
                    most,
                )?;
            }
        }
    }
    Ok(())
}

#[test]
fn store_with_sync_passes_every_profile() {
    assert_eq!(crash(ReplaceMode::WithSync, ""), Ok(()));
    assert_eq!(fail_syncs(ReplaceMode::WithSync), Ok(()));
}

#[test]
fn store_without_sync_fails_every_profile() {
    for profile in POWER_LOSS_PROFILES.iter().filter(|row| !row.name.starts_with("LevelDB: new")) {
        assert!(crash(ReplaceMode::WithoutSync, profile.name).is_err(), "{} lets it pass", profile.name);
    }
    assert!(fail_syncs(ReplaceMode::WithoutSync).is_err());
}

/// Only a failing sync shows what is wrong with it.
#[test]
fn retrying_store_fails_when_syncs_fail() {
    assert_eq!(crash(ReplaceMode::RetryingSync, ""), Ok(()));
    let what = fail_syncs(ReplaceMode::RetryingSync).unwrap_err();
    assert!(what.starts_with("expected the state after"), "{what}");
}

/// A case is the same whenever it is run.
#[test]
fn case_is_deterministic() {
    let figures = || {
        let counters = Counters::default();
        let found = run(42, &counters);
        (found, counters.get(Counter::CrashPoints), counters.get(Counter::CrashImages))
    };
    let first = figures();
    assert_eq!(first, figures());
    assert!(first.1 > 10 && first.2 > 100, "{first:?}");
}
