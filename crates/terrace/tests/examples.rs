//! Each program in `examples/`, run on a directory of its own.
//!
//! `cargo test` builds the examples before this test, unless the command line selects other
//! targets. A test without its program is skipped, and fails if `TERRACE_REQUIRE_EXAMPLES` is set.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::path::{Path, PathBuf};

use terrace::{Db, Options};
use terrace_testkit::emulator;

/// Path of an example's program, beside the folder of this test's program.
fn program(name: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let profile = tests.parent().and_then(Path::parent).unwrap();
    profile.join("examples").join(name).with_extension(std::env::consts::EXE_EXTENSION)
}

/// Returns the output of the program, or `None` if it was not built.
#[track_caller]
fn output(name: &str, directory: &Path) -> Option<String> {
    let program = program(name);
    if !program.exists() {
        let required = std::env::var_os("TERRACE_REQUIRE_EXAMPLES").is_some();
        assert!(!required, "{} does not exist", program.display());
        eprintln!("skipped: {} does not exist; `cargo build --examples` makes it", program.display());
        return None;
    }
    let output = emulator::command(program).arg(directory).output().unwrap();
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

#[track_caller]
fn check(name: &str, expect: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    let Some(output) = output(name, &directory.path().join("db")) else { return };
    assert_eq!(output.lines().collect::<Vec<_>>(), expect);
}

#[test]
fn basic() {
    check("basic", &["Bern is at 46.95,7.45", "Chur is absent", "AT/Wien 48.21,16.37", "CH/Bern 46.95,7.45"]);
}

#[test]
fn batch_and_snapshot() {
    check(
        "batch_and_snapshot",
        &["account/anna: 100 -> 70", "account/ben: 0 -> 30", "transfer/1: - -> anna ben 30"],
    );
}

#[test]
fn transactions() {
    check(
        "transactions",
        &[
            "sum: 200",
            "Snapshot: 0 on call",
            "Serializable: conflict: another writer changed 'on call/1'",
            "Serializable: 1 on call",
        ],
    );
}

const TRANSACTIONS_GUIDE: &str = include_str!("../../../docs/guide/transactions.md");

/// The guide has the table that the program prints.
#[test]
fn anomalies() {
    let directory = tempfile::tempdir().unwrap();
    let Some(table) = output("anomalies", &directory.path().join("db")) else { return };
    assert_eq!(table.matches("possible").count(), 6, "{table}");
    assert!(TRANSACTIONS_GUIDE.contains(&table), "the guide lacks this table:\n{table}");
}

/// Every Rust block of the guide is a part of an example program, which a test above runs.
#[test]
fn blocks_of_the_guide_are_parts_of_examples() {
    let programs = [
        include_str!("../examples/transactions.rs"),
        include_str!("../examples/anomalies.rs"),
        include_str!("../examples/conditional_write.rs"),
    ];
    let lines = |text: &str| text.lines().map(str::trim).collect::<Vec<_>>().join("\n");
    let programs = programs.map(lines);
    let blocks: Vec<&str> = TRANSACTIONS_GUIDE.split("```").skip(1).step_by(2).collect();
    let blocks = blocks.iter().filter_map(|block| block.strip_prefix("rust\n"));
    let mut checked = 0;
    for block in blocks.map(lines) {
        assert!(programs.iter().any(|program| program.contains(block.trim_end())), "{block}");
        checked += 1;
    }
    assert!(checked >= 3, "{checked} blocks");
}

#[test]
fn conditional_write() {
    check(
        "conditional_write",
        &[
            "lock taken: true",
            "taken again: false",
            "changed meanwhile: conflict: another writer changed 'stock'",
        ],
    );
}

#[test]
fn loading() {
    check("loading", &["100000 keys", "100002 entries"]);
}

#[test]
fn followers() {
    check(
        "followers",
        &[
            "Bern: 46.95,7.45",
            "Chur: 46.85,9.53, sequence number 2",
            "Bern now: -",
            "Bern before: 46.95,7.45",
            "Thun: 46.76,7.63",
            "a write: a follower cannot write",
        ],
    );
}

/// Checks that each of the `count` Rust blocks of a guide is a part of its program.
#[track_caller]
fn check_guide(page: &str, program: &str, count: usize) {
    let lines = |text: &str| text.lines().map(|line| line.trim().to_owned() + "\n").collect::<String>();
    let blocks: Vec<&str> =
        page.split("```rust\n").skip(1).filter_map(|rest| Some(rest.split_once("```")?.0)).collect();
    assert_eq!(blocks.len(), count);
    for block in blocks {
        assert!(lines(program).contains(&lines(block)), "not in the program: {block}");
    }
}

#[test]
fn guides_are_parts_of_their_programs() {
    check_guide(include_str!("../../../docs/guide/loading.md"), include_str!("../examples/loading.rs"), 2);
    check_guide(
        include_str!("../../../docs/guide/followers.md"),
        include_str!("../examples/followers.rs"),
        4,
    );
}

#[test]
fn range_scan() {
    check(
        "range_scan",
        &[
            "2024-01-27",
            "2024-01-28",
            "2024-02-01",
            "2024-02-02",
            "February: 28 days",
            "backwards: 2024-02-28",
            "backwards: 2024-02-27",
            "first key from 2024-01-30: 2024-02-01",
        ],
    );
}

#[test]
fn inspect_leveldb() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), &Options::default().create_if_missing(true)).unwrap();
    db.put(b"key", b"value").unwrap();
    db.flush().unwrap();
    db.put(b"in the log", b"").unwrap();
    db.close().unwrap();
    let names = || {
        let entries = directory.path().read_dir().unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = names();
    let Some(output) = output("inspect_leveldb", directory.path()) else { return };
    assert!(output.contains("2 entries, 18 bytes of keys and values\n"), "{output}");
    assert!(output.contains(": 1 tables, ") && output.contains("Compactions\n"), "{output}");
    assert_eq!(names(), before);
}

#[test]
fn tuning() {
    let directory = tempfile::tempdir().unwrap();
    let Some(output) = output("tuning", &directory.path().join("db")) else { return };
    let lines: Vec<&str> = output.lines().collect();
    let [tables, share, memory] = lines[..] else { panic!("{output}") };
    let tables = tables.strip_prefix("tables: ").unwrap().split(' ');
    let tables: Vec<usize> = tables.map(|tables| tables.parse().unwrap()).collect();
    assert_eq!((tables.len(), tables[0]), (7, 0));
    assert!(tables.iter().sum::<usize>() > 0);
    let share: u64 = share.split(' ').find_map(|word| word.parse().ok()).unwrap();
    assert!((40..=60).contains(&share), "{output}");
    let memory: u64 = memory.split(' ').find_map(|word| word.parse().ok()).unwrap();
    assert!(memory > 0);
}
