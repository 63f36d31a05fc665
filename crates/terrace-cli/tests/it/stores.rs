//! Commands on stores that an address names, and migrations.
#![allow(clippy::unwrap_used, reason = "tests fail if the database fails")]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command};
use std::time::Duration;

use terrace::{Db, Options};
use terrace_env::{Clock, SystemClock};
use terrace_store::ENGINES;

use crate::cli_test::CliTest;

#[test]
fn commands_on_a_store_print_what_they_print_on_a_directory() {
    let trial = CliTest::with_entries("a\t1\nb\t2\nc\t3\nd\t4\n");
    for command in [
        "get DB b",
        "get DB x",
        "get DB b --hex --raw",
        "get DB 62 --hex",
        "scan DB --from b",
        "scan DB --reverse --limit 2 --keys-only",
        "scan DB --prefix c --hex",
        "count DB",
        "count DB --from b --to d",
        "dump DB --format jsonl",
    ] {
        let on = |database| trial.run(&command.replace("DB", database));
        let directory = on("db");
        let store = on("local:db");
        assert_eq!((directory.code, &directory.out), (store.code, &store.out), "{command}");
    }
}

#[test]
fn writes_on_a_store() {
    let trial = CliTest::new();
    for command in ["put local:db a 1", "load local:db - --format tsv"] {
        let refused = trial.run_with_input(command, b"");
        refused.assert_contains(3, &["no store: ", "db: does not exist; --create creates one"]);
    }
    for command in ["delete local:db a", "get local:db a", "serve --store local:db --port 0 --read-only"] {
        let refused = trial.run(command);
        refused.assert_contains(3, &["no store: ", "db: does not exist"]);
        assert!(!refused.err.contains("create"), "{command}: {}", refused.err);
    }
    let refused = trial.run("serve --store local:db --port 0");
    refused.assert_contains(3, &["db: does not exist; --create creates one"]);
    assert!(!trial.path("db").exists());
    trial.run("put local:db a 1 --create").assert_output(0, "");
    trial.run("put local:db a 2 --if-value 1 --sync").assert_output(0, "");
    trial.run("put local:db a 3 --if-value 1").assert_contains(5, &["'a' has the value '2'"]);
    trial.run("put local:db a 3 --if-absent").assert_contains(5, &["'a' has the value '2'"]);
    trial.run("put local:db b 1 --if-absent").assert_output(0, "");
    trial.run("delete local:db b --if-value 7").assert_contains(5, &["'b' has the value '1'"]);
    trial.run("delete local:db b --if-value 1").assert_output(0, "");
    trial.run_with_input("load local:db - --format tsv", b"c\t3\nd\t4\ne\t5\n").assert_output(0, "");
    trial.run("delete local:db c").assert_output(0, "");
    trial.run("delete local:db --from e").assert_output(0, "");
    trial.run("scan db").assert_output(0, "a\t2\nd\t4\n");
    trial
        .run_with_input("load local:db - --format tsv", b"f\t6\nbroken\n")
        .assert_contains(4, &["no tab", "loaded before the error: 1 entry"]);
    trial.run("scan db --from f").assert_output(0, "f\t6\n");
}

#[test]
fn wrong_ranges_and_files_on_a_store() {
    let trial = CliTest::new();
    let refused = trial.run_with_input("load local:db - --create --format tsv", b"foreign\n");
    refused.assert_contains(4, &["standard input:1: no tab", "loaded before the error: 0 entries"]);
    assert!(!trial.path("db").exists());
    trial.run("put local:db b 1 --create").assert_output(0, "");
    for command in ["scan", "count", "delete"] {
        let refused = trial.run(&format!("{command} local:db --from z --to a"));
        refused.assert_contains(2, &["--from 'z' is after --to 'a'"]);
    }
    trial.run("count local:db --from b --to b").assert_output(0, "0\n");
    trial.run("delete local:db --from b --to b").assert_output(0, "");
    trial.run("count local:db").assert_output(0, "1\n");
}

/// Regression: the error was that the directory did not exist, or that it could not be created.
#[test]
fn address_in_place_of_a_directory() {
    let trial = CliTest::with_entries("a\t1\n");
    for command in ["stat", "verify", "compact", "repair", "serve --port 0", "checkpoint copy"] {
        let (name, rest) = command.split_once(' ').unwrap_or((command, ""));
        for address in ["local:db", "etcd://127.0.0.1/app"] {
            let refused = trial.run(&format!("{name} {address} {rest}"));
            refused.assert_contains(
                2,
                &[address, "the address of a store, expected the directory of a database"],
            );
        }
    }
    let unknown = "'ectd' is no engine, expected one of memory: local:PATH etcd://";
    for command in ["get A a", "put A a 1 --create", "scan A", "stat A"] {
        let refused = trial.run(&command.replace('A', "ectd://127.0.0.1/app"));
        refused.assert_contains(2, &[unknown]);
    }
    for command in ["migrate db ectd://127.0.0.1/app", "migrate ectd://127.0.0.1/app db"] {
        trial.run(command).assert_contains(3, &[unknown]);
    }
    assert!(!trial.path("ectd:").exists());
}

#[test]
fn flags_of_files_and_unknown_engines() {
    let trial = CliTest::with_entries("a\t1\n");
    trial.run("get local:db a --live").assert_contains(2, &["--live", "not for the address of a store"]);
    trial.run("get local:db a --allow-damage").assert_contains(2, &["--allow-damage"]);
    trial.run("get local:db a --comparator bytewise").assert_contains(2, &["--comparator"]);
    trial.run_with_input("load local:db - --bulk always", b"").assert_contains(2, &["--bulk always"]);
    // The features of the workspace's build decide whether it contains the engine.
    let has_tikv = ENGINES.iter().any(|engine| engine.scheme == "tikv" && engine.is_built_in());
    let reason = if has_tikv { "unavailable: tikv" } else { "not supported: tikv" };
    trial.run("get tikv://127.0.0.1:1/app?timeout=1 a").assert_contains(3, &[reason]);
    for address in ["etcd://root:secret@h1/app", "etcd:/root:secret@h1/app", "etcd://root:secret@h1"] {
        let refused = trial.run(&format!("get {address} a"));
        assert!(refused.code == 3 && !refused.err.contains("secret"), "{refused:?}");
    }
    trial.run("count memory:").assert_output(0, "0\n");
}

#[test]
fn migration_beside_a_writer_and_its_cut_over() {
    let lines: String = (0..3000).map(|n| format!("k{n:05}\tv{n}\n")).collect();
    let trial = CliTest::with_entries(&lines);
    let db = Db::open(trial.path("db"), &Options::default()).unwrap();
    db.put("late", "1").unwrap();
    let copy = trial.run("migrate db local:copy --no-cut-over");
    copy.assert_contains(0, &["copied: 3,001 entries", "cut-over: not done"]);
    db.put("later", "2").unwrap();
    db.delete("k00007").unwrap();
    db.put("k00008", "changed").unwrap();
    trial.run("migrate db local:copy").assert_contains(3, &["has entries already; --resume continues"]);
    trial.run("migrate db local:copy --resume").assert_contains(3, &["LOCK", "--resume continues"]);
    db.close().unwrap();
    let end = trial.run("migrate db local:copy --resume");
    end.assert_contains(0, &["locked: FROM for", "equal: 3,001 entries"]);
    let from = trial.run("dump db");
    let to = trial.run("dump copy");
    assert_eq!((from.code, from.out), (to.code, to.out));
    assert!(trial.run("get copy k00007").code == 1);
}

/// Regression: the cut-over took the lock of a writer, which needs the permission to write.
#[cfg(unix)]
#[test]
fn migration_from_a_directory_without_permission_to_write() {
    let trial = CliTest::with_entries("a\t1\nb\t2\n");
    trial.create_dir("targets");
    trial.set_mode("targets", 0o777);
    let files: Vec<String> = trial.list("db").iter().map(|name| format!("db/{name}")).collect();
    files.iter().for_each(|file| trial.set_mode(file, 0o444));
    trial.set_mode("db", 0o555);
    let with_lock = trial.run_as_nobody("migrate db local:targets/a");
    trial.set_mode("db", 0o755);
    trial.run_in_shell("rm db/LOCK").assert_output(0, "");
    trial.set_mode("db", 0o555);
    let without_lock = trial.run_as_nobody("migrate db local:targets/b");
    trial.set_mode("db", 0o755);
    for (output, expected) in
        [(with_lock, "locked: FROM for"), (without_lock, "locked: nothing, because FROM has no file LOCK")]
    {
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let is_complete = text.contains(expected) && text.contains("equal: 2 entries");
        assert!(output.status.success() && is_complete, "{text}");
    }
    assert!(!trial.path("db/LOCK").exists());
    trial.run("dump targets/a").assert_output(0, "a\t1\nb\t2\n");
}

/// Regression: the migration moved the damaged log away and reported equal stores without its
/// entries.
#[test]
fn migration_from_a_damaged_log() {
    let trial = CliTest::with_entries("a\t1\n");
    let log = trial.find_file(".log");
    let mut bytes = trial.read(&log);
    bytes[10] ^= 1;
    trial.file(&log, bytes);
    trial.run("migrate db local:copy").assert_contains(3, &["terrace: corruption: ", "db", "terrace verify"]);
    // The source is only read.
    trial.run("get db a").assert_contains(3, &["terrace: corruption: "]);
}

fn signal(child: &Child, signal: &str) {
    let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    assert!(sent.success(), "{signal}: {sent}");
}

/// Kills migrations of `entries` entries to `target`, one in each step, and changes the source
/// after each of them. The last one must transfer everything.
pub(crate) fn check_killed_migrations(target: &str, entries: usize) {
    let lines: String = (0..entries).map(|n| format!("k{n:06}\t{n:0100}\n")).collect();
    let trial = CliTest::with_entries(&lines);
    let migrate = format!("migrate db {target} --resume");
    let count = || -> usize { trial.run(&format!("count {target}")).out.trim().parse().unwrap_or(0) };
    for (round, last_line) in
        [None, Some("copied:"), Some("changed meanwhile:"), Some("cut-over:")].iter().enumerate()
    {
        let mut child = trial.start(&migrate);
        match last_line {
            // The first batches have arrived. A stopped migration cannot end during the count.
            None => loop {
                signal(&child, "-STOP");
                if count() > 0 {
                    break;
                }
                signal(&child, "-CONT");
            },
            Some(last) => {
                let lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
                let found = lines.into_iter().any(|line| line.contains(last));
                assert!(found, "no line {last:?}");
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        if last_line.is_none() {
            assert!((1..entries).contains(&count()), "the copy was complete");
        }
        let db = Db::open(trial.path("db"), &Options::default()).unwrap();
        db.delete(format!("k{round:06}")).unwrap();
        db.put(format!("k{:06}", 10 + round), "changed").unwrap();
        db.put(format!("a{round}"), "before all others").unwrap();
        db.put(format!("z{round}"), "after all others").unwrap();
        db.close().unwrap();
    }
    trial.run(&migrate).assert_contains(0, &["equal: "]);
    let from = trial.run("dump db");
    let to = trial.run(&format!("dump {target}"));
    assert!(from.code == 0 && to.code == 0);
    assert!(from.out == to.out, "the dumps differ");
    assert_eq!(from.out.lines().count(), entries + 4);
}

#[test]
fn killed_migrations_continue() {
    check_killed_migrations("local:copy", 300_000);
}

/// The writer of the source ends after the snapshot of the last pass and before the cut-over, so
/// only the pass under the lock can transfer its last writes.
#[test]
fn writes_between_the_last_pass_and_the_lock() {
    let entries: String = (0..300_000).map(|n| format!("k{n:06}\tv\n")).collect();
    let trial = CliTest::with_entries(&entries);
    for attempt in 0..20 {
        let db = Db::open(trial.path("db"), &Options::default()).unwrap();
        let mut child = trial.start(&format!("migrate db local:copy{attempt}"));
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
        assert!(lines.any(|line| line.contains("copied:")));
        for n in 0..20 {
            db.put(format!("late-{attempt}-{n}"), "1").unwrap();
            db.delete(format!("k{:06}", 100 * attempt + n)).unwrap();
            SystemClock.sleep(Duration::from_millis(1));
        }
        db.close().unwrap();
        let rest: Vec<String> = lines.collect();
        if !child.wait().unwrap().success() {
            // The pass was faster than the writer.
            assert!(rest.iter().any(|line| line.contains("LOCK")), "{rest:?}");
            continue;
        }
        let from = trial.run("dump db");
        let to = trial.run(&format!("dump copy{attempt}"));
        assert!(from.code == 0 && from.out == to.out, "the dumps differ: {rest:?}");
        // Otherwise, the pass has seen all writes.
        if rest.iter().any(|line| line.contains("cut-over: ") && !line.contains(" 0 put, 0 deleted")) {
            return;
        }
    }
    panic!("no write came between the last pass and the lock");
}

#[test]
fn bench_of_a_store() {
    let trial = CliTest::new();
    let run = trial.run("bench local:db put get scan batch --num 3000 --threads 4");
    run.assert_contains(0, &["4 threads, 3,000 keys", "requests", "put ", "get ", "scan ", "batch "]);
    trial.run("count db").assert_output(0, "0\n");
    trial.run("bench local:db get").assert_contains(2, &["the first row for a store is put"]);
    trial.run("bench local:db put fillrandom").assert_contains(2, &["'fillrandom' is no row for a store"]);
    trial.run("bench local:db --json x").assert_contains(2, &["--json"]);
    trial.run("put db mine 1").assert_output(0, "");
    trial.run("bench local:db").assert_contains(2, &["the store has entries"]);
    trial.run("get db mine").assert_output(0, "1\n");
}

#[test]
fn migration_of_the_same_or_a_missing_database() {
    let trial = CliTest::with_entries("a\t1\n");
    trial.run("migrate db local:db").assert_contains(2, &["the same"]);
    trial.run("migrate missing local:copy").assert_contains(3, &["missing"]);
    assert!(!trial.path("missing").exists() && !trial.path("copy").exists());
}
