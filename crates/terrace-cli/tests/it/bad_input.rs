//! Messages and exit codes for invalid input.
#![allow(clippy::disallowed_methods, reason = "tests create the files that the program reads")]

use std::fs;
use std::io::Read;

use crate::cli_test::{CliTest, missing_file};

#[test]
fn no_database() {
    let trial = CliTest::new();
    trial.file("file", "");
    let advice = "; --create creates one";
    for (line, message) in [
        ("get missing k", "missing: no such directory, expected a database".to_owned()),
        ("get file k", "file: a file, expected the directory of a database".to_owned()),
        ("get . k", ".: a directory without a database (it has no file CURRENT)".to_owned()),
        ("scan missing", "missing: no such directory, expected a database".to_owned()),
        ("verify missing", "missing: no such directory, expected a database".to_owned()),
        ("destroy missing --yes", "missing: no such directory, expected a database".to_owned()),
        ("repair missing", "missing: no such directory, expected a database".to_owned()),
        ("repair file", "file: a file, expected the directory of a database".to_owned()),
        ("put file k v --create", "file: a file, expected the directory of a database".to_owned()),
        ("load file - --create", "file: a file, expected the directory of a database".to_owned()),
        ("put missing k v", format!("missing: no such directory, expected a database{advice}")),
        ("load missing -", format!("missing: no such directory, expected a database{advice}")),
        ("delete missing k", "missing: no such directory, expected a database".to_owned()),
        ("compact missing", "missing: no such directory, expected a database".to_owned()),
    ] {
        trial.run(line).assert_error(3, &message);
    }
    assert_eq!(trial.list(""), ["file"], "a file was created");
}

/// Regression: some messages were those of a failed call of the system on a file below the path.
#[test]
fn file_in_place_of_a_directory() {
    let trial = CliTest::with_entries("a\t1\n");
    trial.file("file", "").run("backup create backups db").assert_contains(0, &[]);
    let database = "file: a file, expected the directory of a database";
    let backups = "file: a file, expected backups";
    for (line, message) in [
        ("backup create backups file", database),
        ("backup create file db", "invalid argument: file: is a file, expected backups"),
        ("backup list file", backups),
        ("backup verify file", backups),
        ("backup prune file --keep 1", backups),
        ("restore file new", backups),
        ("restore backups file", "invalid argument: file: exists, expected the name of a new directory"),
        ("checkpoint file new", database),
        ("checkpoint db file", "invalid argument: file: exists, expected the name of a new directory"),
        #[cfg(feature = "store")]
        ("migrate file new", database),
        #[cfg(feature = "store")]
        ("migrate db file", database),
        #[cfg(feature = "store")]
        ("migrate missing new", "missing: no such directory, expected a database"),
    ] {
        trial.run(line).assert_error(3, message);
    }
    assert_eq!(trial.list(""), ["backups", "db", "file"]);
    #[cfg(feature = "store")]
    trial.run("migrate db ./db").assert_error(2, "FROM and TO are the same");
    #[cfg(all(feature = "store", unix))]
    trial.run_in_shell("\"$0\" migrate '' db").assert_contains(2, &["a value is required for '<FROM>'"]);
}

#[test]
fn malformed_lines() {
    let trial = CliTest::new();
    for (name, text, line, reason) in [
        ("a.tsv", "a\t1\nno tab\n", 2, "no tab, expected key, tab, value"),
        ("b.tsv", "a\t1\n\nb\t2\n", 2, "no tab, expected key, tab, value"),
        ("c.tsv", "\\xzz\t1\n", 1, r"key: a backslash at byte 0 that is not one of \t \n \\ \xNN"),
        ("d.jsonl", "{\"key\":\"a\",\"value\":\"1\"}\n{]\n", 2, "not JSON: key must be a string at byte 2"),
        ("e.jsonl", "{\"key\":\"a\"}\n", 1, "no field \"value\" or \"value_base64\""),
        (
            "f.hex",
            "61\t31\n6x\t32\n",
            2,
            "key: not hexadecimal: 'x' at byte 1, expected digits 0 to 9 and a to f",
        ),
    ] {
        trial.file(name, text);
        let loaded = if line == 1 { "0 entries" } else { "1 entry" };
        trial
            .run(&format!("load db {name} --create"))
            .assert_error(4, &format!("{name}:{line}: {reason}; loaded before the error: {loaded}"));
    }
    trial.run("dump db").assert_output(0, "a\t1\n");
}

/// Regression: the last one of two equal fields was loaded.
#[test]
fn field_twice_in_one_line() {
    let trial = CliTest::new();
    let first = "{\"key\":\"a\",\"value\":\"1\"}\n";
    for (line, name) in [
        (r#"{"key":"b","value":"1","value":"2"}"#, "value"),
        (r#"{"key":"b","value":"1","\u006bey":"c"}"#, "key"),
        (r#"{"key":"b","value":1,"value":"2"}"#, "value"),
    ] {
        trial.file("f.jsonl", format!("{first}{line}\n"));
        let message = format!("f.jsonl:2: field \"{name}\" twice; loaded before the error: 1 entry");
        trial.run("load db f.jsonl --create").assert_error(4, &message);
        trial.run("dump db").assert_output(0, "a\t1\n");
    }
}

/// Regression: the lines between the last batch and the malformed line were not loaded.
#[test]
fn entries_before_a_malformed_line_are_kept() {
    let trial = CliTest::new();
    let mut lines: String = (0..1500).map(|i| format!("{i:04}\t\n")).collect();
    lines.push_str("oops\n");
    trial.file("f.tsv", &lines);
    trial
        .run("load db f.tsv --create")
        .assert_contains(4, &["f.tsv:1501: no tab", "; loaded before the error: 1,500 entries\n"]);
    assert_eq!(trial.run("dump db").out.lines().count(), 1500);
}

#[test]
fn truncated_compressed_files() {
    let trial = CliTest::new();
    let text: String = (0..5000).map(|i| format!("{i}\t{}\n", i * 7919)).collect();
    let mut gzip = Vec::new();
    flate2::read::GzEncoder::new(text.as_bytes(), flate2::Compression::fast())
        .read_to_end(&mut gzip)
        .unwrap();
    let zstd = zstd::encode_all(text.as_bytes(), 1).unwrap();
    trial.file("t.tsv.gz", &gzip[..gzip.len() - 20]).file("t.tsv.zst", &zstd[..zstd.len() - 20]);
    for name in ["t.tsv.gz", "t.tsv.zst"] {
        let ended = trial.run(&format!("load {name}.db {name} --create"));
        ended.assert_contains(4, &[&format!("terrace: {name}:")]);
    }
}

#[test]
fn input_is_not_a_file() {
    let trial = CliTest::new();
    trial.run("load db missing.tsv --create").assert_error(4, &format!("missing.tsv: {}", missing_file()));
    trial.run("load db . --create").assert_error(4, ".: a directory, expected a file");
    assert!(trial.list("").is_empty(), "a database was created");
}

#[test]
fn terminal_escapes_in_names() {
    CliTest::new()
        .run("get \u{1b}[2J k")
        .assert_error(3, r"\u{1b}[2J: no such directory, expected a database");
}

/// Regression: `-5` was parsed as a flag.
#[test]
fn negative_number_as_key() {
    let trial = CliTest::with_entries("-5\tcold\n");
    trial.run("get db -5").assert_output(0, "cold\n");
    trial.run("put db -12 colder").assert_output(0, "");
    trial.run("scan db --from -5").assert_output(0, "-5\tcold\n");
}

/// Regression: the result of a range whose bounds were exchanged was empty, like that of a range
/// without entries.
#[test]
fn reversed_range() {
    let trial = CliTest::with_entries("a\t1\nz\t2\n");
    let message = "--from 'z' is after --to 'a', expected the first key of the range and its end";
    for command in ["scan", "count", "delete", "compact"] {
        trial.run(&format!("{command} db --from z --to a")).assert_error(2, message);
    }
    let message = r"--from '\xff' is after --to '\x00', expected the first key of the range and its end";
    trial.run("scan db --hex --from ff --to 00").assert_error(2, message);
    trial.run("compact db --hex --from ff --to 00").assert_error(2, message);
    trial.run("scan db --from a --to a").assert_output(0, "");
    trial.run("compact db --from a --to a").assert_contains(0, &["1 table"]);
    trial.run("count db").assert_output(0, "2\n");
}

/// Regression: a load of a foreign file left a new database without entries.
#[test]
fn malformed_first_line_creates_nothing() {
    let trial = CliTest::new();
    let message = "standard input:1: no tab, expected key, tab, value; loaded before the error: 0 entries";
    for flags in ["", "--bulk always"] {
        let load = format!("load db - --create --format tsv {flags}");
        trial.run_with_input(&load, b"foreign\nb\t2\n").assert_error(4, message);
        assert!(!trial.path("db").exists(), "{load}");
    }
    trial
        .run_with_input("load db - --create --format tsv", b"a\t1\nbad\n")
        .assert_contains(4, &[":2: no tab"]);
    trial.run_with_input("load db - --format tsv", b"a\t1\nb\t2\n").assert_output(0, "");
    trial.run("count db").assert_output(0, "2\n");
}

/// Regression: the messages of the parser had several lines and another beginning than all others.
#[test]
fn usage_errors_are_one_line() {
    let trial = CliTest::with_entries("a\t1\n");
    trial.run("get db").assert_error(
        2,
        "the following required arguments were not provided: <KEY>; Usage: terrace get <DB> <KEY>; \
         For more information, try '--help'.",
    );
    for (line, part) in [
        ("frobnicate", "Usage: terrace COMMAND"),
        ("gett db a", "tip: a similar subcommand exists: 'get'; Usage: "),
        ("scan db --limt 1", "tip: a similar argument exists: '--limit'; Usage: terrace scan"),
        ("scan db --format xml", "[possible values: tsv, jsonl, hex]; "),
        ("delete db", "Usage: terrace delete"),
    ] {
        let refused = trial.run(line);
        refused.assert_contains(2, &[part, "--help"]);
        assert_eq!(refused.err.lines().count(), 1, "{refused:?}");
    }
}

#[test]
fn usage_errors() {
    let trial = CliTest::with_entries("a\t1\n");
    trial.run(r"get db \q").assert_error(2, r"'\\q': a backslash at byte 0 that is not one of \t \n \\ \xNN");
    let message = "'6': not hexadecimal: an odd number of digits, expected two for each byte";
    trial.run("get db --hex 6").assert_error(2, message);
    let message = "'0x61': not hexadecimal: 'x' at byte 1, expected digits 0 to 9 and a to f (without 0x)";
    for command in ["scan", "count", "delete", "compact"] {
        for bound in ["--from", "--to"] {
            trial.run(&format!("{command} db --hex {bound} 0x61")).assert_error(2, message);
        }
    }
    for command in ["scan", "count"] {
        trial.run(&format!("{command} db --hex --prefix 0x61")).assert_error(2, message);
    }
    trial.run("count db").assert_output(0, "1\n");
    trial.run("destroy db").assert_error(2, "destroy needs --yes when standard input is not a terminal");
    for (line, word) in [
        ("frobnicate", "frobnicate"),
        ("get db", "<KEY>"),
        ("scan db --prefix a --from b", "--from"),
        ("load db - --block-size 3parsecs", "expected a size"),
        ("load db - --compression deflate", "deflate"),
        ("load db - --filter-bits 99999999999", "0..=255"),
        ("scan db --limit -1", "invalid value '-1' for '--limit <N>'"),
        ("load db - --filter-bits -1", "-1 is not in 0..=255"),
        ("dump", "<DB>"),
        ("dump --file x.ldb --hex", "--hex"),
        ("scan db --format xml", "[possible values: tsv, jsonl, hex]"),
        ("load db - --format xml", "[possible values: auto, tsv, jsonl, hex]"),
    ] {
        trial.run(line).assert_contains(2, &[word]);
    }
}

/// Regression: the message only said that the two cannot be used together.
#[test]
fn dump_of_a_database_and_a_file() {
    let trial = CliTest::with_entries("a\t1\n");
    let message = "dump prints a database or one file; for the file alone: terrace dump --file";
    trial.run("dump db --file 000005.ldb").assert_error(2, &format!("{message} db/000005.ldb"));
    trial.run("dump db --file other/000005.ldb").assert_error(2, &format!("{message} other/000005.ldb"));
}

/// Regression: a backup with a closed standard output ended with success and without output.
#[cfg(target_os = "linux")]
#[test]
fn closed_standard_output() {
    let trial = CliTest::with_entries("a\t1\n");
    for line in
        ["get db a", "scan db", "dump db", "count db", "stat db", "verify db", "--help", "--version", "man"]
    {
        trial
            .run_in_shell(&format!("\"$0\" {line} >&-"))
            .assert_error(4, "standard output: Bad file descriptor (os error 9)");
    }
    // Commands without output, and a standard output that is discarded on purpose.
    for line in ["put db b 2 >&-", "delete db b >&-", "get db a >/dev/null", "get db a <>/dev/null >&0"] {
        trial.run_in_shell(&format!("\"$0\" {line}")).assert_output(0, "");
    }
}

/// Regression: `load` panicked when standard error was full.
#[cfg(target_os = "linux")]
#[test]
fn full_standard_error() {
    let trial = CliTest::with_entries("a\t1\n");
    trial.run_in_shell("echo 'b\t2' | \"$0\" load db - 2>/dev/full").assert_output(0, "");
    trial.run("count db").assert_output(0, "2\n");
}

/// Regression: a user restored a backup without CURRENT and loaded into it with --create, and the
/// new database removed the old tables.
#[test]
fn database_without_current() {
    let trial = CliTest::with_entries("a\t1\nb\t2\n");
    trial.run("compact db").assert_contains(0, &[]);
    fs::remove_file(trial.path("db/CURRENT")).unwrap();
    let files = trial.list("db");
    let message = "db: files of a database without the file CURRENT; repair recovers what can be read";
    for line in ["put db k v --create", "load db - --create", "get db a", "stat db", "compact db"] {
        trial.run(line).assert_error(3, message);
        assert_eq!(trial.list("db"), files, "{line}");
    }
    trial.run("verify db").assert_contains(3, &["CURRENT: ", "2 versions: 1 problem"]);
    trial.run("repair db").assert_contains(0, &[]);
    trial.run("scan db").assert_output(0, "a\t1\nb\t2\n");
}

/// Regression: `destroy` removed a database of RocksDB, and `repair` would have moved all its
/// tables, because their names are LevelDB's.
#[test]
fn rocksdb_database() {
    for file in ["IDENTITY", "OPTIONS-000007"] {
        let trial = CliTest::with_entries("a\t1\n");
        trial.file(&format!("db/{file}"), "").file("db/OPTIONS-", "").file("db/identity", "");
        let files = trial.list("db");
        let message = format!("db: a database of RocksDB (it has a file {file})");
        for line in [
            "get db a",
            "put db k v --create",
            "load db - --create",
            "stat db",
            "verify db",
            "repair db",
            "compact db",
            "destroy db --yes",
        ] {
            trial.run(line).assert_error(3, &message);
            assert_eq!(trial.list("db"), files, "{line}");
        }
        fs::remove_file(trial.path(&format!("db/{file}"))).unwrap();
        trial.run("get db a").assert_output(0, "1\n");
    }
}

#[test]
fn interrupted_creation() {
    for line in ["put db k v --create", "destroy db --yes"] {
        let trial = CliTest::new();
        fs::create_dir(trial.path("db")).unwrap();
        trial.file("db/LOCK", "").file("db/LOG", "").file("db/000002.log", "").file("db/MANIFEST-000003", "");
        trial.run("get db k").assert_contains(3, &["db: files of a database without the file CURRENT"]);
        trial.run(line).assert_output(0, "");
    }
}

/// Regression: messages of concurrent programs were mixed: "terrace: terrace: io: ..".
#[cfg(target_os = "linux")]
#[test]
fn message_is_written_with_one_call() {
    let (ours, theirs) = std::os::unix::net::UnixDatagram::pair().unwrap();
    let trial = CliTest::new();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_terrace"));
    command
        .args(["get", "missing", "k"])
        .current_dir(trial.path(""))
        .stderr(std::os::fd::OwnedFd::from(theirs));
    assert_eq!(command.status().unwrap().code(), Some(3));
    let mut first = [0; 1000];
    let len = ours.recv(&mut first).unwrap();
    let message = "terrace: missing: no such directory, expected a database\n";
    assert_eq!(String::from_utf8_lossy(&first[..len]), message);
}
