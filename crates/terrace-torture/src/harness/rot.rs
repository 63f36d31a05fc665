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
use terrace_env::{Access, FileSystem};
use terrace_testkit::rng::Rng;

use super::Harness;
use crate::life::contents::{Entry, State, difference, state};
use crate::life::guard::Guard;
use crate::life::play::play;
use crate::life::script::{Script, Shape};
use crate::life::terrace::{DIR, How, Terrace};
use crate::tally::{Figure, Tally};

pub(super) const ROT: Harness = Harness {
    id: 13,
    name: "rot",
    shows: "damage to a file is Corruption or harmless, never a wrong answer",
    check: 8,
    share: 2,
    run,
};

/// Files with at most so many bits have each of them flipped.
const EVERY_BIT: u64 = 8 * 2_000;

/// Bytes of the record that says that a log was closed.
const MARK: u64 = 19;

/// Sectors damaged in each way in a case.
const SECTORS: usize = 60;

fn run(seed: u64, tally: &Tally) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let shape = Shape {
        writes: rng.pick(&[4, 8, 12]),
        shortest: 0,
        longest: rng.pick(&[20, 60, 200, 1_000]),
        other_one_in: 3,
        ..Shape::draw(&mut rng)
    };
    let mut how = How::draw(&mut rng);
    how.info_log = false;
    let script = Script::draw(rng.next_u64(), shape);
    let files = Arc::new(MemFs::new());
    let world = Guard::new(Arc::clone(&files), !rng.one_in(4)) as Arc<dyn FileSystem>;
    play::<Terrace>(&script, &how, &files, &world, &mut |_| Ok(()))?;
    let patient = Patient { files: &files, how: &how, script: &script };
    patient
        .flip_bits(&mut rng, tally)
        .and_then(|()| patient.damage_sectors(&mut rng, tally))
        .map_err(|what| format!("{what}\nlife: {}; {}", script.summary(), how.settings))
}

/// Damages the bytes of a file.
type Change<'a> = Box<dyn Fn(&mut Vec<u8>) + 'a>;

/// A database at rest.
struct Patient<'a> {
    files: &'a MemFs,
    how: &'a How,
    script: &'a Script,
}

/// Takes note of damage that is reported.
#[derive(Default)]
struct Told {
    damage: AtomicBool,
}

impl Logger for Told {
    fn log(&self, line: std::fmt::Arguments<'_>) {
        if line.to_string().contains("corruption") {
            self.damage.store(true, Ordering::Relaxed);
        }
    }
}

impl Patient<'_> {
    fn paths(&self) -> Result<Vec<(PathBuf, u64)>, String> {
        let mut paths = Vec::new();
        for name in self.files.list(Path::new(DIR)).map_err(|error| error.to_string())? {
            let path = Path::new(DIR).join(name);
            let len = self.files.len(&path).map_err(|error| error.to_string())?;
            if len > 0 {
                paths.push((path, len));
            }
        }
        paths.sort();
        Ok(paths)
    }

    fn flip_bits(&self, rng: &mut Rng, tally: &Tally) -> Result<(), String> {
        for (path, len) in self.paths()? {
            let bits = len * 8;
            let chosen = |n| if bits <= EVERY_BIT { n } else { n * (bits / EVERY_BIT) + n % 8 };
            for bit in (0..bits.min(EVERY_BIT)).map(chosen) {
                let at = (bit / 8) as usize;
                let flip = |bytes: &mut Vec<u8>| bytes[at] ^= 1 << (bit % 8);
                self.check(&path, at..at + 1, flip, rng.one_in(4)).map_err(|what| {
                    format!("{} of {len} bytes, bit {bit} flipped: {what}", path.display())
                })?;
                tally.add(Figure::BitFlips, 1);
            }
        }
        Ok(())
    }

    fn damage_sectors(&self, rng: &mut Rng, tally: &Tally) -> Result<(), String> {
        let paths = self.paths()?;
        let whole: Vec<Vec<u8>> = paths.iter().map(|(path, _)| self.read(path)).collect::<Result<_, _>>()?;
        for _ in 0..SECTORS {
            let pick = rng.below(paths.len() as u64) as usize;
            let (path, len) = &paths[pick];
            let sector = rng.below(len.div_ceil(512)) as usize;
            let (start, end) = (sector * 512, (*len as usize).min(sector * 512 + 512));
            let other = &whole[rng.below(whole.len() as u64) as usize];
            let (other_sector, cut) =
                (rng.below(other.len().div_ceil(512) as u64) as usize * 512, rng.below(512));
            let (name, change): (_, Change<'_>) = match rng.below(4) {
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
            self.check(path, start..end, |bytes| change(bytes), true).map_err(|what| {
                format!("{} of {len} bytes, sector {sector}: {name}: {what}", path.display())
            })?;
            tally.add(Figure::BitFlips, 1);
        }
        Ok(())
    }

    fn read(&self, path: &Path) -> Result<Vec<u8>, String> {
        let file = self.files.open_random(path, Access::Map).map_err(|error| error.to_string())?;
        Ok(file.mapped().unwrap_or_default().to_vec())
    }

    /// Opens the database with one file changed, at the bytes `at`, and judges what it says.
    fn check(
        &self,
        path: &Path,
        at: Range<usize>,
        change: impl FnOnce(&mut Vec<u8>),
        to_write: bool,
    ) -> Result<(), String> {
        let image = self.files.fork();
        image.rot(path, change).map_err(|error| error.to_string())?;
        let is_log = path.extension().is_some_and(|ending| ending == "log");
        let len = self.files.len(path).map_err(|error| error.to_string())?;
        // Without the mark at its end a log is one that a crash may have left so.
        let is_crash = is_log && at.end > 1 + at.start && at.end as u64 + MARK > len;
        let fs: Arc<dyn FileSystem> = Arc::new(image);
        let mut options = self.how.options(&fs);
        let told = Arc::new(Told::default());
        options.logger = Some(Arc::clone(&told) as _);
        options.paranoid_checks = !(at.start / 512 + at.start).is_multiple_of(4);
        let opened = if to_write { Db::open(DIR, &options) } else { Db::open_read_only(DIR, &options) };
        let db = match opened {
            Ok(db) => db,
            Err(error) => return corruption(&error, "open"),
        };
        let expected = &self.script.states[self.script.states.len() - 1];
        let may_miss = || is_crash || !options.paranoid_checks && told.damage.load(Ordering::Relaxed);
        for (key, _) in self.script.states.iter().flatten() {
            match db.get(key) {
                Ok(found) => {
                    let right = expected.get(key).map(|&id| self.script.values.bytes(id));
                    if found.as_deref() != right {
                        let entries: Vec<Entry> =
                            found.into_iter().map(|value| (key.clone(), value)).collect();
                        self.excuse(&entries, may_miss())
                            .map_err(|what| format!("get {}: {what}", key.escape_ascii()))?;
                    }
                }
                Err(error) => corruption(&error, "get")?,
            }
        }
        self.scan(&db, expected, &may_miss)
    }

    fn scan(&self, db: &Db, expected: &State, may_miss: &dyn Fn() -> bool) -> Result<(), String> {
        let mut entries = Vec::new();
        for entry in db.iter().into_forward() {
            match entry {
                Ok(entry) => entries.push(entry),
                Err(error) => {
                    state(&entries, &self.script.values)?;
                    return corruption(&error, "scan");
                }
            }
            if entries.len() > self.script.values.len() {
                return Err("a scan goes on behind everything that was ever written".into());
            }
        }
        let found = state(&entries, &self.script.values)?;
        if found == *expected {
            return Ok(());
        }
        self.excuse(&entries, may_miss()).map_err(|what| format!("{what}: {}", difference(expected, &found)))
    }

    /// Whether entries that are not right may be what they are: all of them were written once, and damage was told.
    fn excuse(&self, entries: &[Entry], may_miss: bool) -> Result<(), String> {
        let found = state(entries, &self.script.values)?;
        let was =
            |(key, id): (&Vec<u8>, &u32)| self.script.states.iter().any(|state| state.get(key) == Some(id));
        if !found.iter().all(was) {
            return Err("a value that the key never had".into());
        }
        if may_miss { Ok(()) } else { Err("a wrong answer, and no word of damage".into()) }
    }
}

fn corruption(error: &terrace::Error, what: &str) -> Result<(), String> {
    if error.kind() == ErrorKind::Corruption { Ok(()) } else { Err(format!("{what}: {error}")) }
}
