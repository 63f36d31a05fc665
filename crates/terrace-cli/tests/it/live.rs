//! Reads beside a process that has the database open.
#![allow(clippy::unwrap_used, reason = "tests fail if the database fails")]

use terrace::{Db, Options};

use crate::cli_test::CliTest;

#[test]
fn live_reads_beside_a_writer() {
    let trial = CliTest::with_entries("CH/Bern\t46.95,7.45\n");
    let db = Db::open(trial.path("db"), &Options::default()).unwrap();
    db.put("CH/Chur", "46.85,9.53").unwrap();
    trial.run("get db CH/Chur").assert_contains(3, &["LOCK"]);
    let names = trial.list("db");
    trial.run("get --live db CH/Chur").assert_output(0, "46.85,9.53\n");
    trial.run("scan --live db").assert_output(0, "CH/Bern\t46.95,7.45\nCH/Chur\t46.85,9.53\n");
    trial.run("dump --live db").assert_output(0, "CH/Bern\t46.95,7.45\nCH/Chur\t46.85,9.53\n");
    trial.run("stat --live db").assert_contains(0, &["db"]);
    trial.run("count --live db").assert_output(0, "2\n");
    for command in ["get db CH/Chur", "scan db", "dump db", "stat db", "count db"] {
        trial.run(command).assert_contains(3, &["--live reads beside the writer"]);
    }
    assert_eq!(trial.list("db"), names, "it wrote nothing");
    db.put("CH/Thun", "46.76,7.63").unwrap();
    trial.run("get --live db CH/Thun").assert_output(0, "46.76,7.63\n");
    db.close().unwrap();
    trial.run("get --live db CH/Thun").assert_output(0, "46.76,7.63\n");
}

/// Regression: only `serve` named the process.
#[cfg(target_os = "linux")]
#[test]
fn process_that_has_the_database_open() {
    let trial = CliTest::with_entries("CH/Bern\t46.95,7.45\n");
    trial.file("new.tsv", "CH/Chur\t46.85,9.53\n");
    let _db = Db::open(trial.path("db"), &Options::default()).unwrap();
    let process = format!(": process {} (", std::process::id());
    for line in [
        "get db k",
        "put db k v",
        "delete db k",
        "scan db",
        "count db",
        "shell db",
        "load db new.tsv",
        "dump db",
        "stat db",
        "verify db",
        "repair db",
        "repair db --dry-run",
        "compact db",
        "convert db --compression none",
        "checkpoint db new",
        "backup create new db",
        "destroy db --yes",
        #[cfg(feature = "store")]
        "migrate db new",
        #[cfg(feature = "store")]
        "put local:db k v",
        #[cfg(all(feature = "server", unix))]
        "serve db --port 0",
    ] {
        trial
            .run(line)
            .assert_contains(3, &["lock db/LOCK: the database is open in another process", &process]);
    }
}

#[test]
fn live_of_no_database() {
    let trial = CliTest::new();
    trial.run("get --live db key").assert_contains(3, &["db"]);
    trial.run("scan --live --allow-damage db").assert_contains(2, &["--allow-damage"]);
}
