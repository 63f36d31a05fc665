//! Files rot at rest: a bit, a sector, a sector in the wrong place, a sector that is older than it should be.
//!
//! A case is the database that a life left, closed. Each bit of a small one, and some of a larger one, is flipped; then
//! sectors are damaged. The database is opened, read by iterator and by key, and compared. With `paranoid_checks`:
//!
//! - what is read is right, or [`Corruption`](terrace::ErrorKind::Corruption) is reported, at open or by the read;
//! - and never a value that the key did not have, and no read without an end.
//!
//! Without, a record of a log may be missing instead, as LevelDB's users know it, or a small table be another one, if the
//! info log tells of it.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use terrace::{Db, ErrorKind, Logger};
use terrace_env::mem::MemFs;
use terrace_env::{AccessMode, FileSystem};
use terrace_testkit::rng::Rng;

use super::Harness;
use crate::counters::{Counter, Counters};
use crate::crash_workload::contents::{Entry, State, describe_difference, parse_state};
use crate::crash_workload::file_usage_checker::FileUsageChecker;
use crate::crash_workload::script::{Script, ScriptParams};
use crate::crash_workload::script_runner::run_script;
use crate::crash_workload::terrace::{DB_DIR, OpenConfig, TerraceStore};

pub(super) const BIT_ROT: Harness = Harness {
    id: 13,
    name: "bit-rot",
    property: "a damaged file gives right answers or Corruption, never a wrong answer",
    check_cases: 8,
    time_share: 2,
    run,
};

/// Files with at most so many bits have each of them flipped.
const EXHAUSTIVE_FLIP_LIMIT: u64 = 8 * 2_000;

/// Bytes of the record that says that a log was closed.
const CLOSE_MARKER_RECORD_LEN: u64 = 19;

/// Sectors damaged in each way in a case.
const SECTORS_PER_CASE: usize = 60;

fn run(seed: u64, counters: &Counters) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let shape = ScriptParams {
        writes: rng.pick(&[4, 8, 12]),
        min_value_len: 0,
        max_value_len: rng.pick(&[20, 60, 200, 1_000]),
        non_write_one_in: 3,
        ..ScriptParams::draw(&mut rng)
    };
    let mut how = OpenConfig::draw(&mut rng);
    how.info_log = false;
    let script = Script::draw(rng.next_u64(), shape);
    let files = Arc::new(MemFs::new());
    let world = FileUsageChecker::new(Arc::clone(&files), !rng.one_in(4)) as Arc<dyn FileSystem>;
    run_script::<TerraceStore>(&script, &how, &files, &world, &mut |_| Ok(()))?;
    let patient = ClosedDatabase { files: &files, config: &how, script: &script };
    patient
        .flip_bits(&mut rng, counters)
        .and_then(|()| patient.damage_sectors(&mut rng, counters))
        .map_err(|what| format!("{what}\nlife: {}; {}", script.summary(), how.settings))
}

/// Damages the bytes of a file.
type Damage<'a> = Box<dyn Fn(&mut Vec<u8>) + 'a>;

/// A database at rest.
struct ClosedDatabase<'a> {
    files: &'a MemFs,
    config: &'a OpenConfig,
    script: &'a Script,
}

/// Takes note of damage that is reported.
#[derive(Default)]
struct CorruptionLogger {
    corruption_logged: AtomicBool,
}

impl Logger for CorruptionLogger {
    fn log(&self, line: std::fmt::Arguments<'_>) {
        if line.to_string().contains("corruption") {
            self.corruption_logged.store(true, Ordering::Relaxed);
        }
    }
}

impl ClosedDatabase<'_> {
    fn non_empty_files(&self) -> Result<Vec<(PathBuf, u64)>, String> {
        let mut paths = Vec::new();
        for name in self.files.list(Path::new(DB_DIR)).map_err(|error| error.to_string())? {
            let path = Path::new(DB_DIR).join(name);
            let len = self.files.file_size(&path).map_err(|error| error.to_string())?;
            if len > 0 {
                paths.push((path, len));
            }
        }
        paths.sort();
        Ok(paths)
    }

    fn flip_bits(&self, rng: &mut Rng, counters: &Counters) -> Result<(), String> {
        for (path, len) in self.non_empty_files()? {
            let bits = len * 8;
            let chosen = |n| {
                if bits <= EXHAUSTIVE_FLIP_LIMIT { n } else { n * (bits / EXHAUSTIVE_FLIP_LIMIT) + n % 8 }
            };
            for bit in (0..bits.min(EXHAUSTIVE_FLIP_LIMIT)).map(chosen) {
                let at = (bit / 8) as usize;
                let flip = |bytes: &mut Vec<u8>| bytes[at] ^= 1 << (bit % 8);
                self.check_damaged(&path, at..at + 1, flip, rng.one_in(4)).map_err(|what| {
                    format!("{} of {len} bytes, bit {bit} flipped: {what}", path.display())
                })?;
                counters.add(Counter::BitFlips, 1);
            }
        }
        Ok(())
    }

    fn damage_sectors(&self, rng: &mut Rng, counters: &Counters) -> Result<(), String> {
        let paths = self.non_empty_files()?;
        let whole: Vec<Vec<u8>> =
            paths.iter().map(|(path, _)| self.read_file(path)).collect::<Result<_, _>>()?;
        for _ in 0..SECTORS_PER_CASE {
            let pick = rng.below(paths.len() as u64) as usize;
            let (path, len) = &paths[pick];
            let sector = rng.below(len.div_ceil(512)) as usize;
            let (start, end) = (sector * 512, (*len as usize).min(sector * 512 + 512));
            let other = &whole[rng.below(whole.len() as u64) as usize];
            let (other_sector, cut) =
                (rng.below(other.len().div_ceil(512) as u64) as usize * 512, rng.below(512));
            let (name, change): (_, Damage<'_>) = match rng.below(4) {
                0 => ("zeros", Box::new(|bytes| bytes[start..end].fill(0))),
                1 => ("garbage", {
                    let seed = rng.next_u64();
                    Box::new(move |bytes| {
                        let mut noise = Rng::new(seed);
                        bytes[start..end].iter_mut().for_each(|byte| *byte = noise.next_u64() as u8);
                    })
                }),
                2 => (
                    "another sector",
                    Box::new(|bytes| {
                        let there = &other[other_sector..other.len().min(other_sector + end - start)];
                        bytes[start..start + there.len()].copy_from_slice(there);
                    }),
                ),
                // As it was before the last writes into it.
                _ => (
                    "an older state",
                    Box::new(|bytes| {
                        bytes[(start + cut as usize).min(end)..end].fill(0);
                    }),
                ),
            };
            self.check_damaged(path, start..end, |bytes| change(bytes), true).map_err(|what| {
                format!("{} of {len} bytes, sector {sector}: {name}: {what}", path.display())
            })?;
            counters.add(Counter::BitFlips, 1);
        }
        Ok(())
    }

    fn read_file(&self, path: &Path) -> Result<Vec<u8>, String> {
        let file =
            self.files.open_random_access(path, AccessMode::Mmap).map_err(|error| error.to_string())?;
        Ok(file.mapped_slice().unwrap_or_default().to_vec())
    }

    /// Opens the database with one file changed, at the bytes `at`, and judges what it says.
    fn check_damaged(
        &self,
        path: &Path,
        at: Range<usize>,
        change: impl FnOnce(&mut Vec<u8>),
        to_write: bool,
    ) -> Result<(), String> {
        let image = self.files.fork();
        image.corrupt(path, change).map_err(|error| error.to_string())?;
        let is_log = path.extension().is_some_and(|ending| ending == "log");
        let len = self.files.file_size(path).map_err(|error| error.to_string())?;
        // Without the mark at its end a log is one that a crash may have left so.
        let is_crash = is_log && at.end > 1 + at.start && at.end as u64 + CLOSE_MARKER_RECORD_LEN > len;
        let fs: Arc<dyn FileSystem> = Arc::new(image);
        let mut options = self.config.options(&fs);
        let told = Arc::new(CorruptionLogger::default());
        options.logger = Some(Arc::clone(&told) as _);
        options.paranoid_checks = !(at.start / 512 + at.start).is_multiple_of(4);
        let opened = if to_write { Db::open(DB_DIR, &options) } else { Db::open_read_only(DB_DIR, &options) };
        let db = match opened {
            Ok(db) => db,
            Err(error) => return expect_corruption(&error, "open"),
        };
        let expected = &self.script.states[self.script.states.len() - 1];
        let may_miss =
            || is_crash || !options.paranoid_checks && told.corruption_logged.load(Ordering::Relaxed);
        for (key, _) in self.script.states.iter().flatten() {
            match db.get(key) {
                Ok(found) => {
                    let right = expected.get(key).map(|&id| self.script.values.bytes(id));
                    if found.as_deref() != right {
                        let entries: Vec<Entry> =
                            found.into_iter().map(|value| (key.clone(), value)).collect();
                        self.check_plausible(&entries, may_miss())
                            .map_err(|what| format!("get {}: {what}", key.escape_ascii()))?;
                    }
                }
                Err(error) => expect_corruption(&error, "get")?,
            }
        }
        self.check_scan(&db, expected, &may_miss)
    }

    fn check_scan(&self, db: &Db, expected: &State, may_miss: &dyn Fn() -> bool) -> Result<(), String> {
        let mut entries = Vec::new();
        for entry in db.iter().into_forward() {
            match entry {
                Ok(entry) => entries.push(entry),
                Err(error) => {
                    parse_state(&entries, &self.script.values)?;
                    return expect_corruption(&error, "scan");
                }
            }
            if entries.len() > self.script.values.len() {
                return Err("a scan goes on behind everything that was ever written".into());
            }
        }
        let found = parse_state(&entries, &self.script.values)?;
        if found == *expected {
            return Ok(());
        }
        self.check_plausible(&entries, may_miss())
            .map_err(|what| format!("{what}: {}", describe_difference(expected, &found)))
    }

    /// Whether entries that are not right may be what they are: all of them were written once, and damage was told.
    fn check_plausible(&self, entries: &[Entry], may_miss: bool) -> Result<(), String> {
        let found = parse_state(entries, &self.script.values)?;
        let was =
            |(key, id): (&Vec<u8>, &u32)| self.script.states.iter().any(|state| state.get(key) == Some(id));
        if !found.iter().all(was) {
            return Err("a value that the key never had".into());
        }
        if may_miss { Ok(()) } else { Err("a wrong answer, and no word of damage".into()) }
    }
}

fn expect_corruption(error: &terrace::Error, what: &str) -> Result<(), String> {
    if error.kind() == ErrorKind::Corruption { Ok(()) } else { Err(format!("{what}: {error}")) }
}
