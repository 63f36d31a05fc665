//! Settings of `terrace bench` have the same effect through the library as from Rust.
//!
//! Regression test: a benchmark row with equal settings for all engines used filters in Terrace
//! only. Without a filter policy, stock LevelDB writes no filter, but Terrace writes Bloom filters
//! from C and from Rust.

use std::path::Path;

use terrace_bench::engine::{self, EngineRunner};
use terrace_bench::report::model::Settings;

use crate::library::{library_dir, stock_library};

/// Returns the concatenated tables of a small database that `engine` writes.
fn tables(id: &str, library: Option<&Path>, settings: &Settings) -> Vec<u8> {
    let row = engine::by_id(id).unwrap();
    let EngineRunner::InProcess(engine) = (row.find)(library).unwrap().runner else {
        panic!("{id} is a program")
    };
    let dir = tempfile::tempdir().unwrap();
    let store = engine.open(dir.path(), settings).unwrap();
    for n in 0..1000 {
        store.put(format!("{n:08}").as_bytes(), &[b'v'; 100], false).unwrap();
    }
    store.compact().unwrap();
    drop(store);
    let files = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
    let tables = files.filter(|file| file.extension().is_some_and(|end| end == "ldb"));
    tables.flat_map(|table| std::fs::read(table).unwrap()).collect()
}

fn has_filter(tables: &[u8]) -> bool {
    tables.windows(14).any(|part| part == b"filter.leveldb")
}

#[test]
fn filter_and_codec_settings_reach_the_library() {
    let library = library_dir().join("libleveldb.so.1d");
    for (bits, codec, filtered) in [
        (None, None, true),
        (Some(0), Some("snappy"), false),
        (Some(10), Some("none"), true),
        (Some(0), Some("zstd"), false),
    ] {
        let settings =
            Settings { filter_bits: bits, compression: codec.map(str::to_owned), ..Settings::default() };
        let c = tables("terrace-c", Some(&library), &settings);
        assert_eq!(has_filter(&c), filtered, "{settings:?}");
        assert_eq!(c.len(), tables("terrace", None, &settings).len(), "{settings:?}");
    }
}

#[test]
fn stock_library_has_no_filter_by_default() {
    let Some(library) = stock_library() else { return };
    for bits in [None, Some(0)] {
        let settings = Settings { filter_bits: bits, ..Settings::default() };
        assert!(!has_filter(&tables("leveldb", Some(&library), &settings)), "{bits:?}");
    }
}
