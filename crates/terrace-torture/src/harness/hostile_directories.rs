//! Directories that an attacker has prepared, for example in an archive.
//!
//! ```text
//!   root/db        a healthy or killed database; then planted entries replace some of its files:
//!                  links, hard links, FIFOs, devices, directories, holes of terabytes
//!   root/outside   copies of its files and others, the targets of the links
//! ```
//!
//! A case opens, reads, writes, verifies, repairs and destroys the database. Each call may fail.
//! After each call:
//!
//! - every file outside of the directory is unchanged, and there is no new one;
//! - every file in `lost/` is unchanged;
//! - no call has panicked or waits for ever.
//!
//! In some cases, only LOCK is replaced. An open must then fail, or a repair must make the database
//! usable again with every entry.

mod file_tree;
mod planted_entry;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use terrace::{Db, Env, Options, RepairOptions, WriteOptions, destroy, repair, verify};
use terrace_testkit::rng::Rng;
use terrace_testkit::settings::{ComparatorKind, Settings};

use super::Harness;
use crate::counters::{Counter, Counters};
use crate::database_under_test::options_from_settings;
use file_tree::FileTree;
use planted_entry::plant_entry;

pub(super) const HOSTILE_DIRECTORIES: Harness = Harness {
    id: 15,
    name: "hostile-directories",
    property: "links and special files in a directory change no file outside, and nothing hangs",
    check_cases: 60,
    time_share: 2,
    run,
};

/// Number of calls of a case.
const CALLS_PER_CASE: usize = 12;

fn run(seed: u64, counters: &Counters) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let mut case = HostileCase::new(&mut rng).map_err(|error| format!("setup failed: {error}"))?;
    let call = AtomicUsize::new(0);
    let (done_sender, done_receiver) = channel();
    let planted = case.planted.join("; ");
    std::thread::scope(|scope| {
        let call = &call;
        let planted = &planted;
        scope.spawn(move || watch_for_hang(seed, planted, call, &done_receiver));
        let result = case.repair_lock().and_then(|()| case.run_calls(&mut rng, call));
        drop(done_sender);
        result
    })
    .map_err(|message| format!("{message}\nplanted: {planted}"))?;
    counters.add(Counter::HostileDirectories, 1);
    Ok(())
}

/// A directory with planted entries, and the files outside.
struct HostileCase {
    root: tempfile::TempDir,
    settings: Settings,
    /// Descriptions of the planted entries.
    planted: Vec<String>,
    /// Number of entries of the database, if it was closed.
    entries: Option<usize>,
    /// True if LOCK is the only planted entry.
    replaces_lock_only: bool,
    outside: FileTree,
    lost: FileTree,
}

impl HostileCase {
    fn new(rng: &mut Rng) -> io::Result<HostileCase> {
        let root = temp_dir(rng)?;
        let settings = Settings {
            create_if_missing: true,
            error_if_exists: false,
            ..Settings::draw_with_terrace_features(rng, ComparatorKind::Bytewise)
        };
        let mut case = HostileCase {
            root,
            settings,
            planted: Vec::new(),
            entries: None,
            replaces_lock_only: false,
            outside: FileTree::default(),
            lost: FileTree::default(),
        };
        case.create_database(rng)?;
        case.create_outside()?;
        case.replaces_lock_only = rng.one_in(6);
        for _ in 0..if case.replaces_lock_only { 1 } else { 1 + rng.below(4) } {
            let name = case.replaces_lock_only.then(|| "LOCK".to_owned());
            let planted = plant_entry(&case.database(), &case.outside_dir(), name, rng)?;
            case.planted.push(planted);
        }
        case.outside = FileTree::read(&case.outside_dir());
        case.lost = FileTree::read(&case.lost_dir());
        Ok(case)
    }

    fn database(&self) -> PathBuf {
        self.root.path().join("db")
    }

    fn outside_dir(&self) -> PathBuf {
        self.root.path().join("outside")
    }

    fn lost_dir(&self) -> PathBuf {
        self.database().join("lost")
    }

    fn options(&self) -> Options {
        options_from_settings(&self.settings, &Env::system())
    }

    /// Creates the database: closed, killed, or killed with a page lost from its log. Its next open
    /// copies such a log to `lost/`.
    fn create_database(&mut self, rng: &mut Rng) -> io::Result<()> {
        let writing = self.root.path().join("writing");
        let db = Db::open(&writing, &self.options()).map_err(io::Error::other)?;
        let writes = 1000 + rng.below(1000);
        for n in 0..writes {
            db.put(n.to_be_bytes(), [n as u8; 150]).map_err(io::Error::other)?;
            if rng.one_in(1000) {
                db.flush().map_err(io::Error::other)?;
            }
        }
        let is_closed = rng.one_in(3);
        if is_closed {
            db.shutdown().map_err(io::Error::other)?;
            self.entries = Some(writes as usize);
        }
        copy_files(&writing, &self.database())?;
        drop(db);
        fs::remove_dir_all(writing)?;
        if !is_closed && rng.one_in(2) {
            self.lose_page()?;
        }
        Ok(())
    }

    /// Replaces a page in the middle of a block by zeros, in each log.
    fn lose_page(&self) -> io::Result<()> {
        for entry in fs::read_dir(self.database())? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "log") {
                let mut log = fs::read(&path)?;
                if let Some(page) = log.get_mut((1 << 15) + 8192..(1 << 15) + 12_288) {
                    page.fill(0);
                }
                fs::write(path, log)?;
            }
        }
        Ok(())
    }

    /// Creates the targets of links: copies of all files of the database, and others.
    fn create_outside(&self) -> io::Result<()> {
        let outside = self.outside_dir();
        copy_files(&self.database(), &outside)?;
        fs::write(outside.join("victim"), "do not touch")?;
        fs::create_dir(outside.join("folder"))?;
        fs::write(outside.join("folder/inner"), "do not touch either")
    }

    /// Opens and repairs a database with a planted LOCK, and compares its number of entries.
    fn repair_lock(&mut self) -> Result<(), String> {
        let path = self.database();
        let options = self.options();
        if !self.replaces_lock_only {
            return Ok(());
        }
        let is_regular = fs::symlink_metadata(path.join("LOCK")).map_or(true, |metadata| metadata.is_file());
        match Db::open(&path, &options) {
            Ok(_) if !is_regular => return Err("an open took a lock that excludes no other".into()),
            Ok(db) => drop(db),
            // Only the superuser opens the file of another user.
            Err(terrace::Error::Io(error)) if error.path.ends_with("LOCK") => {}
            Err(error) => return Err(format!("open: {error}")),
        }
        match repair(&path, &options, &RepairOptions::default()) {
            Err(_) if self.planted.iter().any(|planted| planted.contains("another user")) => return Ok(()),
            repaired => drop(repaired.map_err(|error| format!("a repair with a planted LOCK: {error}"))?),
        }
        let db = Db::open(&path, &options).map_err(|error| format!("an open after a repair: {error}"))?;
        let entries = db.iter().filter(Result::is_ok).count();
        if self.entries.is_some_and(|expected| expected != entries) {
            return Err(format!("{entries} entries after a repair, expected {:?}", self.entries));
        }
        drop(db);
        self.check_files()
    }

    fn run_calls(&mut self, rng: &mut Rng, call: &AtomicUsize) -> Result<(), String> {
        for n in 0..CALLS_PER_CASE {
            call.store(n, Ordering::Relaxed);
            let name = self.run_call(rng);
            self.check_files().map_err(|message| format!("after call {n}, {name}: {message}"))?;
        }
        Ok(())
    }

    /// Runs one call and returns its name. Its result does not matter.
    fn run_call(&self, rng: &mut Rng) -> &'static str {
        let path = self.database();
        let options = self.options().create_if_missing(rng.one_in(2)).reuse_logs(!rng.one_in(4));
        let repair_options = |dry_run| RepairOptions::default().dry_run(dry_run);
        match rng.below(16) {
            0 => {
                let _ = verify(&path, &options);
                "verify"
            }
            1 => {
                let _ = Db::open_read_only(&path, &options).map(|db| read_all(&db));
                "a read-only open"
            }
            2 => {
                let _ = repair(&path, &options, &repair_options(true));
                "a dry run of a repair"
            }
            3 | 4 => {
                let _ = repair(&path, &options, &repair_options(false));
                "repair"
            }
            5 if rng.one_in(4) => {
                let _ = destroy(&path, &options);
                "destroy"
            }
            _ => {
                let _ = Db::open(&path, &options).and_then(|db| use_database(&db, rng));
                "an open with writes"
            }
        }
    }

    fn check_files(&mut self) -> Result<(), String> {
        let outside = FileTree::read(&self.outside_dir());
        if let Some(difference) = self.outside.describe_difference(&outside) {
            return Err(format!("outside of the directory: {difference}"));
        }
        let names = fs::read_dir(self.root.path()).map_err(|error| error.to_string())?;
        for name in names.flatten().map(|entry| entry.file_name()) {
            if name != "db" && name != "outside" {
                return Err(format!("outside of the directory: {} is new", name.display()));
            }
        }
        let lost = FileTree::read(&self.lost_dir());
        if let Some(difference) = self.lost.describe_loss(&lost) {
            return Err(format!("in lost/: {difference}"));
        }
        self.lost = lost;
        Ok(())
    }
}

/// Writes to the database and reads it.
fn use_database(db: &Db, rng: &mut Rng) -> terrace::Result<()> {
    for n in 0..rng.below(200) {
        db.put(n.to_be_bytes(), [1; 300])?;
    }
    db.put_with(b"synced", b"", &WriteOptions::default().sync(true))?;
    if rng.one_in(2) {
        db.flush()?;
    }
    if rng.one_in(3) {
        db.compact_range(None, None)?;
    }
    read_all(db);
    if rng.one_in(4) { Ok(()) } else { db.shutdown() }
}

fn read_all(db: &Db) {
    for entry in db.iter() {
        if entry.is_err() {
            break;
        }
    }
    let _ = db.get(b"synced");
}

fn copy_files(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let name = entry?.file_name();
        // A background job may have removed the file meanwhile.
        if let Err(error) = fs::copy(from.join(&name), to.join(&name))
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(error);
        }
    }
    Ok(())
}

fn temp_dir(rng: &mut Rng) -> io::Result<tempfile::TempDir> {
    // Syncs are cheap there, so there are more cases.
    let shared_memory = Path::new("/dev/shm");
    if shared_memory.is_dir() && !rng.one_in(4) {
        tempfile::tempdir_in(shared_memory)
    } else {
        tempfile::tempdir()
    }
}

/// Time without progress after which a call counts as hanging, on a busy machine too.
const HANG_TIMEOUT: Duration = Duration::from_secs(60);

/// Aborts the program if a call does not end, because only this thread can report it.
fn watch_for_hang(seed: u64, planted: &str, call: &AtomicUsize, done: &Receiver<()>) {
    let mut last = None;
    while let Err(RecvTimeoutError::Timeout) = done.recv_timeout(HANG_TIMEOUT) {
        let call = call.load(Ordering::Relaxed);
        if last.replace(call) == Some(call) {
            eprintln!("VIOLATION in hostile-directories: call {call} hangs; --seed {seed:#018x}");
            eprintln!("planted: {planted}");
            std::process::abort();
        }
    }
}
