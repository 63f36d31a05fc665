//! Damage of the files of a closed database: a bit, a sector, a misplaced sector, an outdated
//! sector, a whole table in place of another one.
//!
//! A case is the database that a workload left after its close. Each bit of a small file is flipped
//! in turn, and a sample of the bits of a larger one. Then sectors are damaged, and table files are
//! exchanged, cut and lengthened. Each time the database is opened, read by iterator and by key,
//! and compared. With `paranoid_checks`:
//!
//! - each answer is right, or open or the read reports
//!   [`Corruption`](terrace::ErrorKind::Corruption);
//! - no read returns found a value that the key never had, and each read ends.
//!
//! Without `paranoid_checks`, a log record may be missing, as in LevelDB, if the info log reports
//! it. A table that is longer than the MANIFEST says gives no error, as in LevelDB.
//!
//! Some databases with a damaged sector are repaired: `verify` must have reported what the repair
//! drops, and the repaired database must be intact.

mod repair_check;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use terrace::{Db, ErrorKind, Logger};
use terrace_env::mem::MemFs;
use terrace_env::{AccessMode, FileSystem};
use terrace_format::table::FOOTER_SIZE;
use terrace_testkit::rng::Rng;

use super::Harness;
use crate::counters::{Counter, Counters};
use crate::crash_workload::contents::{Entry, State, describe_difference, parse_state};
use crate::crash_workload::file_usage_checker::{FileUsageChecker, LogKind};
use crate::crash_workload::script::{Script, ScriptParams};
use crate::crash_workload::script_runner::run_script;
use crate::crash_workload::terrace::{DB_DIR, OpenConfig, TerraceStore};
use crate::database_under_test::max_mappings;

pub(super) const BIT_ROT: Harness = Harness {
    id: 13,
    name: "bit-rot",
    property: "a damaged file gives right answers or Corruption, never a wrong answer",
    check_cases: 8,
    time_share: 2,
    run,
};

/// Maximum number of bits of a file whose bits are all flipped. Larger files are sampled.
const EXHAUSTIVE_FLIP_LIMIT: u64 = 8 * 2_000;

/// Number of sectors that a case damages.
const SECTORS_PER_CASE: usize = 60;

/// Maximum number of pairs of tables that a case exchanges.
const TABLE_PAIRS_PER_CASE: usize = 40;

fn run(seed: u64, counters: &Counters) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let params = ScriptParams {
        writes: rng.pick(&[4, 8, 12]),
        min_value_len: 0,
        max_value_len: rng.pick(&[20, 60, 200, 1_000]),
        non_write_one_in: 3,
        ..ScriptParams::draw(&mut rng)
    };
    let mut config = OpenConfig::draw(&mut rng);
    config.info_log = false;
    let script = Script::draw(rng.next_u64(), params);
    let files = Arc::new(MemFs::new());
    files.set_max_mappings(max_mappings(config.seed));
    let fs = FileUsageChecker::new(Arc::clone(&files), LogKind::draw_without_gaps(&mut rng))
        as Arc<dyn FileSystem>;
    run_script::<TerraceStore>(&script, &config, &files, &fs, &mut |_| Ok(()))?;
    let closed = ClosedDatabase { files: &files, config: &config, script: &script };
    closed
        .flip_bits(&mut rng, counters)
        .and_then(|()| closed.damage_sectors(&mut rng, counters))
        .and_then(|()| closed.exchange_tables(&mut rng, counters))
        .and_then(|()| closed.change_table_lengths(&mut rng, counters))
        .map_err(|message| format!("{message}\nworkload: {}; {}", script.summary(), config.settings))
}

/// Function that damages the bytes of a file.
type Damage<'a> = Box<dyn Fn(&mut Vec<u8>) + 'a>;

/// Result of a read that a damage permits, besides the right one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Permitted {
    Corruption,
    Nothing,
}

/// A closed database.
struct ClosedDatabase<'a> {
    files: &'a MemFs,
    config: &'a OpenConfig,
    script: &'a Script,
}

/// Logger that notes whether corruption was reported.
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
            for n in 0..bits.min(EXHAUSTIVE_FLIP_LIMIT) {
                let bit = if bits <= EXHAUSTIVE_FLIP_LIMIT {
                    n
                } else {
                    n * (bits / EXHAUSTIVE_FLIP_LIMIT) + n % 8
                };
                self.check_bit_flip(&path, bit, rng.one_in(4)).map_err(|message| {
                    format!("{} of {len} bytes, bit {bit} flipped: {message}", path.display())
                })?;
                counters.add(Counter::BitFlips, 1);
            }
        }
        Ok(())
    }

    fn check_bit_flip(&self, path: &Path, bit: u64, writable: bool) -> Result<(), String> {
        let offset = (bit / 8) as usize;
        self.check_damaged(
            path,
            offset..offset + 1,
            |bytes| bytes[offset] ^= 1 << (bit % 8),
            writable,
            Permitted::Corruption,
        )
    }

    fn damage_sectors(&self, rng: &mut Rng, counters: &Counters) -> Result<(), String> {
        let paths = self.non_empty_files()?;
        let contents: Vec<Vec<u8>> =
            paths.iter().map(|(path, _)| self.read_file(path)).collect::<Result<_, _>>()?;
        for _ in 0..SECTORS_PER_CASE {
            let pick = rng.below(paths.len() as u64) as usize;
            let (path, len) = &paths[pick];
            let sector = rng.below(len.div_ceil(512)) as usize;
            let start = sector * 512;
            let end = (*len as usize).min(start + 512);
            let other = &contents[rng.below(contents.len() as u64) as usize];
            let other_start = rng.below(other.len().div_ceil(512) as u64) as usize * 512;
            let cut = rng.below(512);
            let (name, change): (_, Damage<'_>) = match rng.below(4) {
                0 => ("zeros", Box::new(|bytes| bytes[start..end].fill(0))),
                1 => ("garbage", {
                    let seed = rng.next_u64();
                    Box::new(move |bytes| {
                        let mut noise = Rng::new(seed);
                        for byte in &mut bytes[start..end] {
                            *byte = noise.next_u64() as u8;
                        }
                    })
                }),
                2 => (
                    "another sector",
                    Box::new(|bytes| {
                        let sector = &other[other_start..other.len().min(other_start + end - start)];
                        bytes[start..start + sector.len()].copy_from_slice(sector);
                    }),
                ),
                // The sector as it was before the last writes to it.
                _ => (
                    "an older state",
                    Box::new(|bytes| {
                        bytes[(start + cut as usize).min(end)..end].fill(0);
                    }),
                ),
            };
            self.check_damaged(path, start..end, |bytes| change(bytes), true, Permitted::Corruption)
                .and_then(|()| if rng.one_in(4) { self.check_repair(path, &change) } else { Ok(()) })
                .map_err(|message| {
                    format!("{} of {len} bytes, sector {sector}: {name}: {message}", path.display())
                })?;
            counters.add(Counter::BitFlips, 1);
        }
        Ok(())
    }

    fn tables(&self) -> Result<Vec<(PathBuf, Vec<u8>)>, String> {
        let mut tables = Vec::new();
        for (path, _) in self.non_empty_files()? {
            if path.extension().is_some_and(|ending| ending == "ldb") {
                let contents = self.read_file(&path)?;
                tables.push((path, contents));
            }
        }
        Ok(tables)
    }

    /// Puts one table in place of another one: as it is, and with the size of the other one.
    fn exchange_tables(&self, rng: &mut Rng, counters: &Counters) -> Result<(), String> {
        let tables = self.tables()?;
        let pairs = tables.iter().flat_map(|from| tables.iter().map(move |to| (from, to)));
        let mut pairs: Vec<_> = pairs.filter(|(from, to)| from.0 != to.0).collect();
        while pairs.len() > TABLE_PAIRS_PER_CASE {
            pairs.swap_remove(rng.below(pairs.len() as u64) as usize);
        }
        for ((from, other), (path, table)) in pairs {
            for contents in [Some(other.clone()), stretch_table(other, table.len())].into_iter().flatten() {
                let context = format!("{} replaced by {}", path.display(), from.display());
                self.check_table(path, &contents, Permitted::Corruption, rng, counters)
                    .map_err(|message| format!("{context}, {} bytes: {message}", contents.len()))?;
            }
        }
        Ok(())
    }

    /// Cuts each table, and appends bytes to it.
    fn change_table_lengths(&self, rng: &mut Rng, counters: &Counters) -> Result<(), String> {
        for (path, table) in self.tables()? {
            let cut = rng.below(table.len() as u64) as usize;
            let footer = table.len() - FOOTER_SIZE;
            let noise = rng.next_u64().to_le_bytes();
            for (contents, permitted) in [
                (table[..cut].to_vec(), Permitted::Corruption),
                ([&table[..], &noise].concat(), Permitted::Nothing),
                ([&table[..], &table[footer..]].concat(), Permitted::Nothing),
            ] {
                self.check_table(&path, &contents, permitted, rng, counters).map_err(|message| {
                    format!("{} of {} bytes, now {}: {message}", path.display(), table.len(), contents.len())
                })?;
            }
        }
        Ok(())
    }

    fn check_table(
        &self,
        path: &Path,
        contents: &[u8],
        permitted: Permitted,
        rng: &mut Rng,
        counters: &Counters,
    ) -> Result<(), String> {
        counters.add(Counter::BitFlips, 1);
        // The position decides about paranoid checks.
        let start = rng.below(2) as usize;
        self.check_damaged(
            path,
            start..start + 1,
            |bytes| *bytes = contents.to_vec(),
            rng.one_in(2),
            permitted,
        )
    }

    fn read_file(&self, path: &Path) -> Result<Vec<u8>, String> {
        let file =
            self.files.open_random_access(path, AccessMode::Pread).map_err(|error| error.to_string())?;
        let mut bytes = vec![0; file.len() as usize];
        file.read_at(0, &mut bytes).map_err(|error| error.to_string())?;
        Ok(bytes)
    }

    /// Opens the database after a change of the bytes `range` of one file, and checks its answers.
    fn check_damaged(
        &self,
        path: &Path,
        range: Range<usize>,
        change: impl FnOnce(&mut Vec<u8>),
        writable: bool,
        permitted: Permitted,
    ) -> Result<(), String> {
        let image = self.files.fork();
        image.corrupt(path, change).map_err(|error| error.to_string())?;
        let is_log = path.extension().is_some_and(|ending| ending == "log");
        let fs: Arc<dyn FileSystem> = Arc::new(image);
        let mut options = self.config.options(&fs);
        let logger = Arc::new(CorruptionLogger::default());
        options.logger = Some(Arc::clone(&logger) as _);
        options.paranoid_checks = !(range.start / 512 + range.start).is_multiple_of(4);
        let opened = if writable { Db::open(DB_DIR, &options) } else { Db::open_read_only(DB_DIR, &options) };
        let db = match opened {
            Ok(db) => db,
            Err(error) => return permitted.check(&error, "open"),
        };
        let expected = &self.script.states[self.script.states.len() - 1];
        let may_lose_entries =
            || is_log && !options.paranoid_checks && logger.corruption_logged.load(Ordering::Relaxed);
        for (key, _) in self.script.states.iter().flatten() {
            match db.get(key) {
                Ok(found) => {
                    let right = expected.get(key).map(|&id| self.script.values.bytes(id));
                    if found.as_deref() != right {
                        let entries: Vec<Entry> =
                            found.into_iter().map(|value| (key.clone(), value)).collect();
                        self.check_plausible(&entries, may_lose_entries())
                            .map_err(|message| format!("get {}: {message}", key.escape_ascii()))?;
                    }
                }
                Err(error) => permitted.check(&error, "get")?,
            }
        }
        self.check_scan(&db, expected, &may_lose_entries, permitted)
    }

    fn check_scan(
        &self,
        db: &Db,
        expected: &State,
        may_lose_entries: &dyn Fn() -> bool,
        permitted: Permitted,
    ) -> Result<(), String> {
        let mut entries = Vec::new();
        for entry in db.iter() {
            match entry {
                Ok(entry) => entries.push(entry),
                Err(error) => {
                    parse_state(&entries, &self.script.values)?;
                    return permitted.check(&error, "scan");
                }
            }
            if entries.len() > self.script.values.len() {
                return Err("a scan returned more entries than were ever written".into());
            }
        }
        let found = parse_state(&entries, &self.script.values)?;
        if found == *expected {
            return Ok(());
        }
        self.check_plausible(&entries, may_lose_entries())
            .map_err(|message| format!("{message}: {}", describe_difference(expected, &found)))
    }

    /// Checks entries that differ from the expected ones: each was written once, and the damage was
    /// reported.
    fn check_plausible(&self, entries: &[Entry], may_lose_entries: bool) -> Result<(), String> {
        let found = parse_state(entries, &self.script.values)?;
        for (key, id) in &found {
            if !self.script.states.iter().any(|state| state.get(key) == Some(id)) {
                return Err("found a value that the key never had".into());
            }
        }
        if may_lose_entries { Ok(()) } else { Err("wrong answer without a report of corruption".into()) }
    }
}

impl Permitted {
    fn check(self, error: &terrace::Error, operation: &str) -> Result<(), String> {
        match (self, error.kind()) {
            (Permitted::Corruption, ErrorKind::Corruption) => Ok(()),
            _ => Err(format!("{operation}: {error}")),
        }
    }
}

/// Returns `table` with a length of `len`, if it is not longer. The footer moves to the end. It
/// holds offsets from the start of the file, so the result is an intact table.
fn stretch_table(table: &[u8], len: usize) -> Option<Vec<u8>> {
    let filler = len.checked_sub(table.len())?;
    let (blocks, footer) = table.split_at(table.len() - FOOTER_SIZE);
    Some([blocks, &vec![0; filler], footer].concat())
}
