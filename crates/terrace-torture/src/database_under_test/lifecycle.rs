//! Lifecycle events of a database in memory, and the checks that follow each.
//!
//! The caller compares the contents. These checks cover other properties.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace::{Db, Env, Options, RepairOptions, repair, verify};
use terrace_env::mem::{Crash, MemFs, POWER_LOSS_PROFILES};
use terrace_env::{FileSystem, Result};
use terrace_format::compress::{Codec, DEFLATE, SNAPPY, ZLIB};
use terrace_testkit::differential::{DatabaseUnderTest, OpResult};
use terrace_testkit::op::{LifecycleOp, MissingFile};
use terrace_testkit::settings::Settings;

use super::{TerraceUnderTest, error_text};

/// Action of a repair that gives the comparator LevelDB's name again.
const RESTORED_NAME: &str = "the comparator name is LevelDB's again";
/// Action of a repair that writes a new MANIFEST. Each change needs it.
const NEW_MANIFEST: &str = "a new manifest lists the live tables";

/// The codec is checked after one `verify` of this many.
const CODEC_CHECK_ONE_IN: u64 = 4;

/// Number of entries of the old database that are changed after a copy.
const OVERWRITTEN_ENTRIES: usize = 100;

impl TerraceUnderTest {
    pub(super) fn apply_lifecycle_op(&mut self, op: LifecycleOp, settings: &Settings) -> OpResult<()> {
        match op {
            LifecycleOp::Kill => self.crash(&Crash::Kill, settings),
            LifecycleOp::PowerCut => self.crash(&POWER_LOSS_PROFILES[0].crash_with_seed(0), settings),
            LifecycleOp::Repair(missing) => self.repair(missing, settings),
            LifecycleOp::Destroy => self.destroy(settings),
            LifecycleOp::Copy => self.copy_and_switch(settings),
            LifecycleOp::Verify => self.verify(settings),
            LifecycleOp::ReadOnly => self.read_only(settings),
        }
    }

    #[cfg(test)]
    #[cfg(unix)]
    pub(crate) fn files_and_lengths(&self) -> Vec<(String, u64)> {
        let files = self.files().unwrap();
        let mut names = file_names(&*files, &self.path).unwrap();
        names.retain(|name| name != "lost");
        let with_lengths = names.into_iter().map(|name| {
            let len = files.file_size(&self.path.join(&name)).unwrap();
            (name, len)
        });
        with_lengths.collect()
    }

    fn files(&self) -> OpResult<Arc<MemFs>> {
        let simulated = self.simulated.as_ref().ok_or("the database is not in memory")?;
        Ok(simulated.files())
    }

    fn crash(&mut self, crash: &Crash, settings: &Settings) -> OpResult<()> {
        // The model counts the writes before a manual compaction as durable.
        self.join_manual_compaction()?;
        let after = self.simulated.as_ref().ok_or("the database is not in memory")?.crash(crash);
        // Jobs of the old database may still change its files, which the new database does not see.
        self.close()?;
        self.env = after.env();
        self.simulated = Some(after);
        self.reopen(settings)
    }

    fn repair(&mut self, missing: MissingFile, settings: &Settings) -> OpResult<()> {
        // The next open removes obsolete files that a reader kept. Without a MANIFEST, a repair
        // can't know that they are obsolete.
        self.reopen(settings)?;
        self.close()?;
        let files = self.files()?;
        remove_all(&*files, &self.path.join("lost")).map_err(|error| error.to_string())?;
        for name in file_names(&*files, &self.path).map_err(|error| error.to_string())? {
            let remove = match missing {
                MissingFile::None => false,
                MissingFile::Current => name == "CURRENT",
                MissingFile::Manifest => name.starts_with("MANIFEST"),
            };
            if remove {
                files.remove(&self.path.join(name)).map_err(|error| error.to_string())?;
            }
        }
        let options = self.open_options(settings);
        let report = repair(&self.path, &options, &RepairOptions::default()).map_err(error_text)?;
        // An open takes all tables of a database with zstd for tables with zstd. So the comparator
        // name may say so after the last of them is gone, and a repair corrects it.
        let restores_name = matches!(
            &report.actions[..],
            [restored, written] if restored.starts_with(RESTORED_NAME) && written == NEW_MANIFEST
        );
        let must_change = missing != MissingFile::None || restores_name;
        if report.changed != must_change || report.blocks_lost > 0 {
            return Err(format!("unexpected repair:\n{report}"));
        }
        self.verify(settings)
    }

    fn verify(&mut self, settings: &Settings) -> OpResult<()> {
        self.close()?;
        let files = self.files()?;
        let options = self.open_options(settings);
        let before = files.mutation_count();
        let report = verify(&self.path, &options).map_err(error_text)?;
        if !report.is_clean() {
            return Err(format!("verify reported\n{report}"));
        }
        check_no_mutations(&files, before)?;
        if before.is_multiple_of(CODEC_CHECK_ONE_IN) {
            let codecs = [&ZLIB, &DEFLATE, &SNAPPY];
            check_codec_is_kept(files.fork(), codecs[before as usize / 4 % codecs.len()], &options)?;
        }
        self.reopen(settings)
    }

    /// Opens the database read-only and leaves it so.
    fn read_only(&mut self, settings: &Settings) -> OpResult<()> {
        self.close()?;
        let files = self.files()?;
        let options = self.open_options(settings);
        let before = files.mutation_count();
        let [one, other] = [(); 2].map(|()| Db::open_read_only(&self.path, &options).map_err(error_text));
        let one = one?;
        let other = other?;
        if one.put(b"key", b"value").is_ok() || one.delete(b"key").is_ok() || one.flush().is_ok() {
            return Err("a read-only database accepted a write".into());
        }
        if Db::open(&self.path, &options).is_ok() {
            return Err("a database was opened for writing during a read-only open".into());
        }
        check_equal(&one, &other)?;
        other.close().map_err(error_text)?;
        check_no_mutations(&files, before)?;
        self.db = Some(one);
        Ok(())
    }

    fn destroy(&mut self, settings: &Settings) -> OpResult<()> {
        self.close()?;
        let options = self.open_options(settings);
        terrace::destroy(&self.path, &options).map_err(error_text)?;
        if Db::open(&self.path, &options.create_if_missing(false)).is_ok() {
            return Err("a destroyed database was opened".into());
        }
        self.reopen(settings)
    }

    fn copy_and_switch(&mut self, settings: &Settings) -> OpResult<()> {
        self.close()?;
        let old = self.path.clone();
        let new = PathBuf::from(if old == Path::new("/db") { "/copy" } else { "/db" });
        copy_files(&*self.files()?, &old, &new).map_err(|error| error.to_string())?;
        self.path = new;
        self.reopen(settings)?;
        self.overwrite_and_destroy_old(&old, settings)
    }

    /// Changes the old database until its files have the names of the copy's files with other
    /// contents, and destroys it. Both databases share a cache.
    fn overwrite_and_destroy_old(&mut self, old: &Path, settings: &Settings) -> OpResult<()> {
        let options = self.open_options(settings);
        let db = Db::open(old, &options).map_err(error_text)?;
        check_equal(self.db()?, &db)?;
        let entries =
            db.iter().take(OVERWRITTEN_ENTRIES).collect::<terrace::Result<Vec<_>>>().map_err(error_text)?;
        for (key, value) in entries {
            let other: Vec<u8> = value.iter().map(|byte| !byte).collect();
            db.put(&key, &other).map_err(error_text)?;
        }
        db.flush().map_err(error_text)?;
        // This puts its blocks into the cache.
        for entry in db.iter().take(2 * OVERWRITTEN_ENTRIES) {
            entry.map_err(error_text)?;
        }
        db.close().map_err(error_text)?;
        terrace::destroy(old, &options).map_err(error_text)?;
        remove_all(&*self.files()?, old).map_err(|error| error.to_string())
    }
}

/// Converts a copy of a database to `codec` and opens it without a codec. Its new tables must have
/// `codec`, too.
fn check_codec_is_kept(files: MemFs, codec: &'static Codec, options: &Options) -> OpResult<()> {
    let path = Path::new("/codec");
    let env = Env::with_file_system(Arc::new(files));
    let converted = options.clone().env(env).error_if_exists(false).compression(codec);
    let kept = converted.clone().compression(None);
    for (options, key) in [(&converted, b"converted"), (&kept, b"kept once"), (&kept, b"kept more")] {
        let db = Db::open(path, options).map_err(error_text)?;
        if db.codec().name != codec.name {
            return Err(format!("a database with {} gets blocks with {}", codec.name, db.codec().name));
        }
        db.put(key, [b'a'; 10_000]).and_then(|()| db.compact_range(None, None)).map_err(error_text)?;
        db.close().map_err(error_text)?;
    }
    Ok(())
}

fn check_equal(one: &Db, other: &Db) -> OpResult<()> {
    let mut one = one.iter();
    let mut other = other.iter();
    loop {
        match (one.next(), other.next()) {
            (None, None) => return Ok(()),
            (Some(Ok(one)), Some(Ok(other))) if one == other => {}
            (one, other) => {
                return Err(format!("two handles on equal files show {one:?} and {other:?}"));
            }
        }
    }
}

fn check_no_mutations(files: &MemFs, before: u64) -> OpResult<()> {
    match files.mutation_count() - before {
        0 => Ok(()),
        calls => Err(format!("{calls} calls changed files, expected none")),
    }
}

fn file_names(files: &dyn FileSystem, dir: &Path) -> Result<Vec<String>> {
    Ok(files.list(dir)?.iter().map(|name| name.to_string_lossy().into_owned()).collect())
}

/// Removes a directory and its files, if it exists.
fn remove_all(files: &dyn FileSystem, dir: &Path) -> Result<()> {
    if !files.exists(dir)? {
        return Ok(());
    }
    for name in file_names(files, dir)? {
        let path = dir.join(name);
        if files.is_dir(&path)? { remove_all(files, &path)? } else { files.remove(&path)? }
    }
    files.remove_dir(dir)
}

fn copy_files(files: &dyn FileSystem, from: &Path, to: &Path) -> Result<()> {
    // A power cut may have restored an older copy.
    remove_all(files, to)?;
    files.create_dir(to)?;
    for name in file_names(files, from)? {
        let path = from.join(&name);
        if files.is_dir(&path)? || name == "LOCK" {
            continue;
        }
        let mut bytes = vec![0; files.file_size(&path)? as usize];
        files.open_random_access(&path, terrace_env::AccessMode::Pread)?.read_at(0, &mut bytes)?;
        let mut copy = files.create(&to.join(&name))?;
        copy.append(&bytes)?;
        copy.sync()?;
        copy.close()?;
    }
    files.sync_dir(to)?;
    files.sync_dir(Path::new("/"))
}
