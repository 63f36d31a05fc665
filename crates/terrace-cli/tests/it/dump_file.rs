//! `dump --file`: tables, logs and MANIFESTs, intact and damaged.

use crate::cli_test::{CliTest, missing_file};

#[test]
fn table() {
    let trial = CliTest::with_entries("a\t1\nb\t\\x00\n");
    trial.run("compact db").assert_contains(0, &[]);
    let table = trial.find_file(".ldb");
    let parts = [
        "footer at ",
        "metaindex at ",
        "index at ",
        "block at 0: ",
        "  a @ ",
        " put => 1\n",
        " put => \\x00\n",
    ];
    trial.run(&format!("dump --file {table}")).assert_contains(0, &parts);
}

#[test]
fn damaged_table() {
    let trial = CliTest::with_entries("a\t1\nb\t2\n");
    trial.run("compact db").assert_contains(0, &[]);
    let whole = trial.read(&trial.find_file(".ldb"));
    let mut flipped = whole.clone();
    flipped[2] ^= 1;
    trial.file("1.ldb", flipped).file("2.sst", &whole[..whole.len() - 1]).file("3.ldb", "");
    trial.run("dump --file 1.ldb").assert_contains(
        3,
        &["damage at 0: checksum 0x", "terrace: corruption: 1.ldb: 1 damaged place, marked 'damage' above\n"],
    );
    trial.run("dump --file 2.sst").assert_contains(3, &["damage at ", "magic"]);
    trial.run("dump --file 3.ldb").assert_contains(3, &["damage at 0: 0 bytes, expected 48"]);
}

#[test]
fn log() {
    let trial = CliTest::new();
    trial.file("000007.log", LOG);
    trial.run("dump --file 000007.log").assert_output(
        0,
        "record at 0: sequence 9, 2 operations, 20 bytes\n  9  put  k => v\n  10  del  k\n",
    );
}

#[test]
fn log_with_an_incomplete_record() {
    let trial = CliTest::new();
    trial.file("000007.log", [LOG, &LOG[..20]].concat());
    trial
        .run("dump --file 000007.log")
        .assert_contains(0, &["  10  del  k\n", "the last complete record ends at 27\n"]);
}

#[test]
fn log_with_a_flipped_bit() {
    let trial = CliTest::new();
    let mut log = LOG.to_vec();
    log[10] ^= 1;
    trial.file("000007.log", log);
    trial.run("dump --file 000007.log").assert_contains(3, &["damage at 0: checksum 0x", "27 bytes dropped"]);
}

#[test]
fn manifest() {
    let trial = CliTest::with_entries("a\t1\n");
    trial.run("compact db").assert_contains(0, &[]);
    let parts = [
        "record at 0: edit\n",
        "  comparator    leveldb.BytewiseComparator\n",
        "  log           ",
        "  next file     ",
    ];
    let manifest = trial.find_file("MANIFEST-");
    trial.run(&format!("dump --file {manifest}")).assert_contains(0, &parts);
    trial
        .run(&format!("dump --file {manifest}"))
        .assert_contains(0, &["  add           level ", " bytes, a @ 1 put .. a @ 1 put\n"]);
}

#[test]
fn other_files() {
    let trial = CliTest::new();
    trial.file("CURRENT", "");
    let names = "not the name of a table (000012.ldb, 000012.sst), a log (000012.log) or a manifest \
        (MANIFEST-000012)";
    trial.file("table.ldb", "");
    for name in ["CURRENT", "table.ldb"] {
        trial.run(&format!("dump --file {name}")).assert_error(4, &format!("{name}: {names}"));
    }
    // Regression: a missing file got the message of a wrong name.
    for name in ["1.ldb", "missing.ldb", "missing"] {
        trial.run(&format!("dump --file {name}")).assert_error(4, &format!("{name}: {}", missing_file()));
    }
    trial.run("dump --file .").assert_error(4, ".: a directory, expected a file");
}

/// One record: at sequence number 9, put k v, delete k.
const LOG: &[u8] = b"\
    \x28\x95\x2d\x65\x14\x00\x01\
    \x09\0\0\0\0\0\0\0\x02\0\0\0\
    \x01\x01k\x01v\
    \x00\x01k";
