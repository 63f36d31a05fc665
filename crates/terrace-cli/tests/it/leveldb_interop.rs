//! Databases that Terrace and the distribution's LevelDB exchange: both list the same entries.
#![allow(clippy::unwrap_used, reason = "tests fail if LevelDB fails")]

use terrace_testkit::settings::Settings;
use terrace_testkit::stock_leveldb::{StockDb, StockLevelDb, stock_leveldb_or_skip};

use crate::cli_test::CliTest;

/// Number of entries that exceeds the smallest memtable, so that there are tables and a log.
const ENTRIES: u32 = 5_000;

/// Lines as `scan` prints them, in key order. Every key and value has a byte that is not text.
fn lines(entries: impl Iterator<Item = u32>) -> String {
    entries.map(|i| format!("{i:05}\\xff\t{}\\x00{}\n", i % 7, "v".repeat(i as usize % 40))).collect()
}

/// The entries of `lines`, as bytes.
fn entries(lines: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
    // Every character of the unescaped text is below U+0100 and stands for one byte.
    let to_bytes = |text: &str| {
        text.replace("\\xff", "\u{ff}").replace("\\x00", "\0").chars().map(|c| c as u8).collect()
    };
    lines.lines().filter_map(|line| line.split_once('\t')).map(|(k, v)| (to_bytes(k), to_bytes(v))).collect()
}

fn open_stock(stock: &'static StockLevelDb, trial: &CliTest, snappy: bool, bloom_bits: usize) -> StockDb {
    let settings = Settings {
        create_if_missing: true,
        paranoid_checks: true,
        write_buffer_size: 64 << 10,
        snappy,
        bloom_bits,
        ..Settings::default()
    };
    stock.open(&trial.path("db"), &settings).unwrap()
}

#[test]
fn leveldb_reads_a_terrace_database() {
    let Some(stock) = stock_leveldb_or_skip() else { return };
    let lines = lines(0..ENTRIES);
    for flags in ["", "--compression none --filter-bits 0", "--block-size 1KiB --filter-bits 24"] {
        let trial = CliTest::new();
        let load = format!("load db - --create --write-buffer 64KiB {flags}");
        trial.run_with_input(&load, lines.as_bytes()).assert_output(0, "");
        let stock_db = open_stock(stock, &trial, true, 10);
        assert!(stock_db.scan().unwrap() == entries(&lines), "{flags}");
        assert!(stock_db.scan_reverse().unwrap().into_iter().rev().eq(entries(&lines)), "{flags}, backward");
    }
}

#[test]
fn terrace_reads_a_leveldb_database() {
    let Some(stock) = stock_leveldb_or_skip() else { return };
    for (snappy, bloom_bits) in [(true, 10), (true, 0), (false, 10), (false, 0)] {
        let trial = CliTest::new();
        let remaining = lines((0..ENTRIES).filter(|i| i % 3 != 0));
        let stock_db = open_stock(stock, &trial, snappy, bloom_bits);
        for (key, value) in entries(&lines(0..ENTRIES)) {
            stock_db.put(&key, &value).unwrap();
        }
        for (key, _) in entries(&lines((0..ENTRIES).step_by(3))) {
            stock_db.delete(&key).unwrap();
        }
        stock_db.close();
        trial.run("verify db").assert_contains(0, &["no problem"]);
        trial.run("scan db").assert_output(0, &remaining);
        let backward: String = remaining.lines().rev().map(|line| format!("{line}\n")).collect();
        trial.run("scan db --reverse").assert_output(0, &backward);
    }
}

#[test]
fn database_open_in_leveldb_is_locked() {
    let Some(stock) = stock_leveldb_or_skip() else { return };
    let trial = CliTest::new();
    let _stock_db = open_stock(stock, &trial, true, 0);
    let locked = "the database is open in another process";
    let process =
        if cfg!(target_os = "linux") { format!(": process {} (", std::process::id()) } else { String::new() };
    for line in ["put db k v", "verify db", "repair db", "destroy db --yes"] {
        trial.run(line).assert_contains(3, &[&format!("{locked}{process}"), "; close it there first\n"]);
    }
    for line in ["get db k", "scan db", "dump db"] {
        let advice = "; close it there first; --live reads beside the writer\n";
        trial.run(line).assert_contains(3, &[&format!("{locked}{process}"), advice]);
    }
}
