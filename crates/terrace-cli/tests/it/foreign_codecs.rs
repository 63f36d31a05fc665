//! Databases with a codec that LevelDB lacks: every command keeps it, and only `convert` changes
//! it. The LevelDB of a game (Minecraft, from the Python package amulet-leveldb) writes the
//! databases and reads the results.
#![allow(
    clippy::disallowed_types,
    clippy::unwrap_used,
    reason = "prints past the capture of the test output; tests fail if Python fails"
)]

use std::io::Write;
use std::process::{Command, Stdio};

use crate::cli_test::{CliTest, ProgramResult};

const GAME_LEVELDB: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/game_leveldb.py");

/// Returns false, loudly, if the LevelDB of games is not installed.
fn has_game_leveldb() -> bool {
    let import = Command::new("python3").args(["-c", "import leveldb; leveldb.LevelDB"]).output();
    let is_installed = import.is_ok_and(|output| output.status.success());
    if !is_installed {
        let mut stderr = std::io::stderr();
        let _ = writeln!(stderr, "NOT TESTED: the LevelDB of games; pip install amulet-leveldb");
    }
    is_installed
}

/// Runs the LevelDB of the game on the database `db`.
#[track_caller]
fn run_game(trial: &CliTest, command: &str, input: &str) -> String {
    let mut child = Command::new("python3")
        .args([GAME_LEVELDB, command])
        .arg(trial.path("db"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the LevelDB of the game cannot {command} the database: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

fn lines(keys: std::ops::Range<u32>) -> String {
    keys.map(|n| format!("key {n:05}\tthe value {n} of an entry, which is easy to compress\n")).collect()
}

/// Returns the names of the codecs of all blocks of the database `db`, sorted.
fn codecs(trial: &CliTest) -> Vec<String> {
    let mut codecs = Vec::new();
    for table in trial.list("db").iter().filter(|name| name.ends_with(".ldb")) {
        let dump = trial.run(&format!("dump --file db/{table}"));
        let blocks = dump.out.lines().filter(|line| line.starts_with("block at "));
        codecs.extend(blocks.map(|line| line.rsplit(", ").next().unwrap().to_owned()));
    }
    codecs.sort();
    codecs.dedup();
    codecs
}

#[track_caller]
fn check_codecs(trial: &CliTest, codec: &str, after: &str) {
    let mut found = codecs(trial);
    found.retain(|name| name != "none" && name != "not compressed");
    assert_eq!(found, [codec], "after {after}");
}

/// Damages the end of the newest table, so that a repair writes the entries again.
fn damage_newest_table(trial: &CliTest) {
    let table = trial.find_file(".ldb");
    let mut bytes = trial.read(&table);
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    trial.file(&table, bytes);
}

/// Symptom: after one `put`, the game could not open its world. Cause: every new table had snappy
/// blocks, which the LevelDB of the game cannot read. Guarantee: a database keeps its codec.
#[test]
fn commands_keep_the_world_of_a_game() {
    if !has_game_leveldb() {
        return;
    }
    let trial = CliTest::new();
    run_game(&trial, "write", &lines(0..8000));
    check_codecs(&trial, "deflate", "the game");
    let mut expected = lines(0..8000) + "zz last\tone more entry\n";
    let more = lines(8000..16_000);
    let load = "load db - --write-buffer 64KiB --block-size 1KiB";
    let commands: [(&str, &str); 10] = [
        ("put db key\\x2000000 changed", ""),
        ("compact db", ""),
        (load, &more),
        ("delete db zz\\x20last", ""),
        ("compact db --from key\\x2000000 --to key\\x2000009", ""),
        ("delete db --from key\\x2007000 --to key\\x2009000", ""),
        ("compact db", ""),
        ("repair db", ""),
        ("stat db", ""),
        ("verify db", ""),
    ];
    for (command, input) in commands {
        trial.run_with_input(command, input.as_bytes()).assert_contains(0, &[]);
        match command {
            "put db key\\x2000000 changed" => {
                let value = "the value 0 of an entry, which is easy to compress";
                expected = expected.replacen(value, "changed", 1);
            }
            "delete db zz\\x20last" => expected = expected.replace("zz last\tone more entry\n", ""),
            "delete db --from key\\x2007000 --to key\\x2009000" => {
                expected = expected.replace(&lines(7000..9000), "");
            }
            _ if command == load => {
                let last = "zz last\tone more entry\n";
                expected = expected.replace(last, &format!("{more}{last}"));
            }
            _ => {}
        }
        check_codecs(&trial, "deflate", command);
        trial.run("scan db").assert_output(0, &expected);
        assert!(run_game(&trial, "read", "") == expected, "the game reads other entries after {command}");
    }
    damage_newest_table(&trial);
    trial.run("repair db").assert_contains(0, &["salvaged"]);
    check_codecs(&trial, "deflate", "repair of a damaged table");
    assert!(run_game(&trial, "read", "") == expected, "the game reads other entries after the repair");
    // The game continues with the tables of Terrace.
    run_game(&trial, "write", &lines(3..4));
    check_codecs(&trial, "deflate", "the game again");
}

#[test]
fn game_reads_a_new_world_and_a_converted_one() {
    if !has_game_leveldb() {
        return;
    }
    for codec in ["deflate", "zlib"] {
        let trial = CliTest::new();
        let load = format!("load db - --create --compression {codec}");
        trial.run_with_input(&load, lines(0..5000).as_bytes()).assert_output(0, "");
        check_codecs(&trial, codec, "load");
        assert!(run_game(&trial, "read", "") == lines(0..5000), "{codec}");
        let trial = CliTest::with_entries(&lines(0..5000));
        trial.run("compact db").assert_contains(0, &[]);
        trial
            .run(&format!("convert db --compression {codec} --yes"))
            .assert_contains(0, &["snappy -> ", codec]);
        check_codecs(&trial, codec, "convert");
        assert!(run_game(&trial, "read", "") == lines(0..5000), "{codec}");
    }
}

/// Returns a test directory with a database of tables with blocks of `codec`.
fn with_codec(codec: &str) -> CliTest {
    let trial = CliTest::new();
    let load = format!("load db - --create --compression {codec}");
    trial.run_with_input(&load, lines(0..5000).as_bytes()).assert_output(0, "");
    check_codecs(&trial, codec, "load");
    trial
}

#[test]
fn commands_keep_every_codec() {
    for codec in ["snappy", "zstd", "zlib", "deflate"] {
        let trial = with_codec(codec);
        for command in
            ["put db a b", "delete db a", "compact db", "compact db --compression none", "repair db"]
        {
            trial.run(command).assert_contains(0, &[]);
            if command != "compact db --compression none" {
                check_codecs(&trial, codec, command);
                continue;
            }
            // Every reader reads uncompressed blocks.
            assert!(codecs(&trial).iter().all(|name| name == "none"), "{codec}");
            trial.run(&format!("convert db --compression {codec} --yes")).assert_contains(0, &[]);
        }
        damage_newest_table(&trial);
        trial.run("repair db").assert_contains(0, &["salvaged"]);
        check_codecs(&trial, codec, "repair of a damaged table");
        trial.run("scan db").assert_output(0, &lines(0..5000));
    }
}

#[test]
fn only_convert_and_load_create_accept_codecs_that_leveldb_lacks() {
    for codec in ["zstd", "zlib", "deflate"] {
        let trial = CliTest::with_entries("a\t1\n");
        trial.run("compact db").assert_contains(0, &[]);
        for command in ["load db -", "compact db", "repair db"] {
            let result = trial.run(&format!("{command} --compression {codec}"));
            result.assert_error(
                2,
                &format!(
                    "--compression {codec}: LevelDB 1.23 cannot read it; only load --create and convert accept it"
                ),
            );
        }
        let load = format!("load db - --compression {codec}");
        trial.run_with_input(&load, b"a\t2\n").assert_contains(2, &["only load --create and convert"]);
        trial.run_with_input(&(load + " --create"), b"a\t2\n").assert_contains(
            2,
            &["the blocks of db are compressed with snappy; terrace convert changes that"],
        );
        trial
            .run(&format!("convert db --compression {codec}"))
            .assert_error(2, "convert needs --yes when standard input is not a terminal");
        trial.run("scan db").assert_output(0, "a\t1\n");
        // The other direction is no side effect either.
        let trial = with_codec(codec);
        for command in ["load db -", "repair db", "compact db --from a"] {
            let result: ProgramResult = trial.run(&format!("{command} --compression snappy"));
            result.assert_contains(2, &["compressed with", codec, "terrace convert changes that"]);
        }
        check_codecs(&trial, codec, "refused commands");
    }
}

fn is_marked(trial: &CliTest) -> bool {
    let manifest = trial.read(&trial.find_file("MANIFEST"));
    manifest.windows(9).any(|bytes| bytes == b"+terrace.")
}

/// Symptom: a repair of a world made the game refuse it. Cause: the marker depended on blocks that
/// the repair had read. Guarantee: the marker depends on the blocks that are stored.
#[test]
fn marker_appears_and_disappears_with_zstd() {
    for codec in ["snappy", "zlib", "deflate"] {
        let trial = with_codec(codec);
        damage_newest_table(&trial);
        trial.run("repair db").assert_contains(0, &["salvaged"]);
        assert!(!is_marked(&trial), "{codec}");
    }
    for back in ["compact db --compression snappy", "convert db --compression snappy --yes"] {
        let trial = CliTest::with_entries(&lines(0..5000));
        trial.run("compact db").assert_contains(0, &[]);
        trial.run("convert db --compression zstd --yes").assert_contains(0, &[]);
        check_codecs(&trial, "zstd", "convert");
        assert!(is_marked(&trial));
        trial.run("stat db").assert_contains(0, &["not readable by LevelDB", "zstd"]);
        trial.run(back).assert_contains(0, &[]);
        check_codecs(&trial, "snappy", back);
        assert!(!is_marked(&trial), "{back}");
        trial.run("scan db").assert_output(0, &lines(0..5000));
    }
}

#[test]
fn known_comparator_is_found() {
    let trial = CliTest::new();
    // A table that is empty in every order.
    trial.run_with_input("load db - --create", b"").assert_output(0, "");
    let manifest = trial.find_file("MANIFEST");
    trial.file(&manifest, manifest_with_comparator("idb_cmp1"));
    for command in ["scan db", "stat db", "verify db", "dump db"] {
        trial.run(command).assert_contains(0, &[]);
        trial.run(&format!("{command} --comparator idb_cmp1")).assert_contains(0, &[]);
        trial.run(&format!("{command} --comparator bytewise")).assert_contains(
            3,
            &["the database has the comparator idb_cmp1, not leveldb.BytewiseComparator"],
        );
    }
    trial
        .run("put db a b")
        .assert_error(3, "db: the database has the comparator idb_cmp1, which is read-only");
    trial.file(&manifest, manifest_with_comparator("another"));
    trial.run("scan db").assert_contains(3, &["another", "--comparator"]);
}

/// Returns a MANIFEST of an empty database.
fn manifest_with_comparator(name: &str) -> Vec<u8> {
    let edit = terrace_format::version_edit::VersionEdit {
        comparator: Some(name.into()),
        log_number: Some(0),
        next_file_number: Some(100),
        last_sequence: Some(0),
        ..Default::default()
    };
    let mut record = Vec::new();
    edit.encode(&mut record);
    let mut bytes = Vec::new();
    for fragment in terrace_format::log::RecordWriter::resume_at(0).add_record(&record) {
        fragment.append_to(&mut bytes, 0);
    }
    bytes
}
