//! Databases that other platforms have written.
//!
//! `cargo xtask platforms` runs this test twice on each platform, with one directory for all:
//!
//! ```text
//!   DIRECTORY/aarch64-unknown-linux-gnu/snappy     first run: written, unless it exists
//!   DIRECTORY/x86_64-unknown-linux-musl/snappy     each run: all are compared
//! ```
//!
//! Without a directory, the test covers the platform that runs it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use terrace::Env;
use terrace_env::DeterministicScheduler;
use terrace_testkit::rng::Rng;
use terrace_testkit::settings::Settings;
use terrace_testkit::stock_leveldb::stock_leveldb_or_skip;
use terrace_torture::database_under_test::options_from_settings;

use crate::files;

/// Environment variable with the directory of all platforms.
const DIRECTORY: &str = "TERRACE_PLATFORMS_DIRECTORY";
/// Environment variable with the name of this platform.
const PLATFORM: &str = "TERRACE_PLATFORM";
/// Number of writes. The last ones stay in the log.
const WRITES: usize = 20_000;
const WRITES_IN_LOG: usize = 100;

type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

/// A kind of blocks, and whether LevelDB reads it.
struct BlockKind {
    name: &'static str,
    settings: fn() -> Settings,
    is_of_leveldb: bool,
}

static BLOCK_KINDS: &[BlockKind] = &[
    BlockKind {
        name: "none",
        settings: || Settings { snappy: false, ..Settings::create() },
        is_of_leveldb: true,
    },
    BlockKind {
        name: "snappy",
        settings: || Settings { snappy: true, bloom_bits: 10, ..Settings::create() },
        is_of_leveldb: true,
    },
    #[cfg(feature = "zstd")]
    BlockKind {
        name: "zstd",
        settings: || Settings { zstd: true, ..Settings::create() },
        is_of_leveldb: false,
    },
];

/// Returns the writes: None deletes a key. Keys have many lengths and all bytes.
fn writes() -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let mut rng = Rng::new(30);
    let mut bytes =
        |len: u64, distinct: u64| (0..len).map(|_| rng.below(distinct) as u8).collect::<Vec<u8>>();
    let mut lengths = Rng::new(31);
    let mut write = |n: usize| {
        let key =
            [&bytes(2, 256), format!("{}", n % 7000).as_bytes(), &bytes(lengths.below(20), 256)].concat();
        let value = (!n.is_multiple_of(11)).then(|| bytes(lengths.below(200), 5));
        (key, value)
    };
    let mut writes: Vec<_> = (0..WRITES).map(&mut write).collect();
    // Half of the keys are written again.
    for n in (0..WRITES / 2).step_by(2) {
        writes[WRITES - 1 - n].0 = writes[n].0.clone();
    }
    writes
}

fn expected() -> Entries {
    let mut entries = Entries::new();
    for (key, value) in writes() {
        match value {
            Some(value) => entries.insert(key, value),
            None => entries.remove(&key),
        };
    }
    entries
}

/// Background work runs at fixed times, so that equal writes give equal files.
fn deterministic() -> Env {
    Env { scheduler: DeterministicScheduler::new(1), ..Env::system() }
}

fn write_database(path: &Path, settings: &Settings) {
    let db = terrace::Db::open(path, &options_from_settings(settings, &deterministic())).unwrap();
    for (n, (key, value)) in writes().into_iter().enumerate() {
        match value {
            Some(value) => db.put(&key, &value).unwrap(),
            None => db.delete(&key).unwrap(),
        }
        if n == WRITES / 2 {
            db.flush().unwrap();
        }
        if n == WRITES - WRITES_IN_LOG {
            db.flush().unwrap();
            db.compact_range(None, None).unwrap();
        }
    }
}

/// Opens a copy, so that the log stays what its platform has written.
fn check_entries(path: &Path, kind: &BlockKind) {
    let settings = Settings { create_if_missing: false, paranoid_checks: true, ..(kind.settings)() };
    let expected: Vec<_> = expected().into_iter().collect();
    let copy = tempfile::tempdir().unwrap();
    files::copy_directory(path, &copy.path().join("terrace"));
    let db =
        terrace::Db::open(copy.path().join("terrace"), &options_from_settings(&settings, &Env::system()));
    let found: Vec<_> = db.unwrap().iter().map(|entry| entry.unwrap()).collect();
    assert!(found == expected, "{path:?}: {} entries, expected {}", found.len(), expected.len());
    let stock = if kind.is_of_leveldb { stock_leveldb_or_skip() } else { None };
    if let Some(stock) = stock {
        files::copy_directory(path, &copy.path().join("leveldb"));
        let found = stock.open(&copy.path().join("leveldb"), &settings).unwrap().scan().unwrap();
        assert!(found == expected, "{path:?} in LevelDB: {} entries", found.len());
    }
}

fn tables(path: &Path) -> Vec<(String, Vec<u8>)> {
    files::contents(path).into_iter().filter(|(name, _)| name.ends_with(".ldb")).collect()
}

#[test]
fn same_tables_and_entries() {
    let own = tempfile::tempdir().unwrap();
    let directory = std::env::var_os(DIRECTORY).map_or_else(|| own.path().to_path_buf(), PathBuf::from);
    let platform = std::env::var(PLATFORM).unwrap_or_else(|_| "this".into());
    for kind in BLOCK_KINDS {
        let written = directory.join(&platform).join(kind.name);
        if !written.exists() {
            files::create_directory(written.parent().unwrap());
            write_database(&written, &(kind.settings)());
        }
        let own_tables = tables(&written);
        assert!(!own_tables.is_empty());
        for other in files::names(&directory) {
            let path = directory.join(&other).join(kind.name);
            if path.exists() {
                assert!(
                    tables(&path) == own_tables,
                    "{other} and {platform} have other tables of {}",
                    kind.name
                );
                check_entries(&path, kind);
                println!("opened: {other} {}", kind.name);
            }
        }
    }
}
