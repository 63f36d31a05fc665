//! The attack itself is tried: stores that are wrong in a known way must fail, and one that is right must pass.

use std::path::Path;
use std::sync::Arc;

use terrace_env::mem::{AfterFailedSync, Crash, MemFs, PROFILES, Profile};
use terrace_env::{FileSystem, Result as FileResult};

use super::*;
use crate::life::contents::{Entry, Values};
use crate::life::script::Step;

/// What a store of one file does to replace it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Write, rename.
    Naive,
    /// Write, sync, rename, sync the directory.
    Careful,
    /// As careful, but a failed sync is tried again, and then believed.
    Retrying,
}

/// A store that writes everything anew into one file.
struct OneFile {
    fs: Arc<dyn FileSystem>,
    way: Way,
    entries: std::collections::BTreeMap<Vec<u8>, Vec<u8>>,
}

const DATA: &str = "/data";

impl OneFile {
    fn save(&self) -> FileResult<()> {
        let new = Path::new("/new");
        let mut file = self.fs.create(new)?;
        for (key, value) in &self.entries {
            for part in [key, value] {
                file.append(&(part.len() as u32).to_le_bytes())?;
                file.append(part)?;
            }
        }
        match self.way {
            Way::Naive => file.flush()?,
            Way::Careful => file.sync()?,
            Way::Retrying => file.sync().or_else(|_| file.sync())?,
        }
        self.fs.rename(new, Path::new(DATA))?;
        if self.way == Way::Naive { Ok(()) } else { self.fs.sync_dir(Path::new("/")) }
    }

    fn load(&mut self) -> Result<(), String> {
        let path = Path::new(DATA);
        if !self.fs.exists(path).unwrap() {
            return Ok(());
        }
        let file = self.fs.open_random(path, terrace_env::Access::Map).unwrap();
        let mut rest = file.mapped().unwrap();
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

impl Store for OneFile {
    type Options = Way;

    fn open(fs: &Arc<dyn FileSystem>, way: &Way) -> Result<OneFile, String> {
        let mut store = OneFile { fs: Arc::clone(fs), way: *way, entries: Default::default() };
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

    fn settle(self, _step: &Step) -> Result<OneFile, String> {
        Ok(self)
    }
}

/// Synced writes of values of some sectors.
fn script() -> Script {
    let mut rng = Rng::new(1);
    let mut values = Values::default();
    let write = |n: usize| {
        let changes = vec![(vec![b'a' + (n % 3) as u8], Some(values.make(900, &mut rng)))];
        Step::Write { changes, sync: true }
    };
    let steps = (0..6).map(write).collect();
    Script::of(steps, values)
}

/// What the profiles whose names begin so find wrong with a store.
fn crash(way: Way, profiles: &str) -> Result<(), String> {
    let script = script();
    let mut judge = Judge::<OneFile>::new(&script, &way, true);
    let files = Arc::new(MemFs::new());
    let world = Arc::clone(&files) as Arc<dyn FileSystem>;
    let named = |row: &&Profile| row.name.starts_with(profiles);
    play::<OneFile>(&script, &way, &files, &world, &mut |point| {
        for profile in PROFILES.iter().filter(named) {
            for crash in point.fs.losses(profile, 8, point.fs.mutations()) {
                judge.judge(point.fs.crash(&crash), point.progress.durable, point.progress.begun)?;
            }
        }
        let killed = point.fs.crash(&Crash::Kill);
        judge.judge(killed, point.progress.acknowledged, point.progress.begun).map(|_| ())
    })
}

/// P8: one sync of a file fails, and what it should have written counts as written; later the power fails.
fn fail_syncs(way: Way) -> Result<(), String> {
    let script = script();
    for before in 0..6 {
        for cache in [AfterFailedSync::Keeps, AfterFailedSync::Reverts] {
            let files = Arc::new(MemFs::new());
            let world = Arc::clone(&files) as Arc<dyn FileSystem>;
            let mut store = OneFile::open(&world, &way)?;
            files.fail_sync(before, cache);
            let mut acknowledged = 0;
            for step in &script.steps {
                let Step::Write { changes, .. } = step else { continue };
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
            for crash in files.losses(&PROFILES[0], 1, 0) {
                Judge::<OneFile>::new(&script, &way, true).judge(files.crash(&crash), acknowledged, most)?;
            }
        }
    }
    Ok(())
}

#[test]
fn careful_store_passes_everything() {
    assert_eq!(crash(Way::Careful, ""), Ok(()));
    assert_eq!(fail_syncs(Way::Careful), Ok(()));
}

#[test]
fn naive_store_fails_each_profile() {
    for profile in PROFILES.iter().filter(|row| !row.name.starts_with("LevelDB: new")) {
        assert!(crash(Way::Naive, profile.name).is_err(), "{} lets it pass", profile.name);
    }
    assert!(fail_syncs(Way::Naive).is_err());
}

/// Only a failing sync shows what is wrong with it.
#[test]
fn retrying_store_fails_when_syncs_fail() {
    assert_eq!(crash(Way::Retrying, ""), Ok(()));
    let what = fail_syncs(Way::Retrying).unwrap_err();
    assert!(what.starts_with("expected the state after"), "{what}");
}

/// A case is the same whenever it is run.
#[test]
fn same_seed_same_case() {
    let figures = || {
        let tally = Tally::default();
        let found = run(42, &tally);
        (found, tally.get(Figure::CrashPoints), tally.get(Figure::CrashImages))
    };
    let first = figures();
    assert_eq!(first, figures());
    assert!(first.1 > 10 && first.2 > 100, "{first:?}");
}
