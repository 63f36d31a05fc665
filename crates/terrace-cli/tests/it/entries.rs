//! Reading and writing entries: get, put, delete, scan, load, dump.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use crate::cli_test::{CliTest, missing_file};

const FEW: &str = "a\t1\nb\t2\nba\t3\nc\t4\n";

/// Lines with every byte as a key, a long key, an empty key, an empty value, and characters that
/// are special in some format.
fn awkward() -> String {
    let mut lines = vec![String::from("\t"), String::from("empty\t"), format!("{}\tlong", "k".repeat(5000))];
    lines.extend((0..=255).map(|byte| format!("every-\\x{byte:02x}\t\\x{byte:02x}")));
    lines.extend(["{\"key\":1}\t\"", "Zürich\tdie größte", "back\\\\slash\t\\\\"].map(str::to_owned));
    lines.iter().map(|line| format!("{line}\n")).collect()
}

#[test]
fn put_get_delete() {
    let trial = CliTest::new();
    trial.run("put db k v --create").assert_output(0, "");
    trial.run("get db k").assert_output(0, "v\n");
    trial.run("put db k other --sync").assert_output(0, "");
    trial.run("get db k --raw").assert_output(0, "other");
    trial.run("delete db k --sync").assert_output(0, "");
    trial.run("get db k").assert_error(1, "db: no key 'k'");
    trial.run("delete db k").assert_output(0, "");
}

#[test]
fn load_in_bulk() {
    let trial = CliTest::new();
    trial.file("f.tsv", "c\t1\na\t2\nc\t3\nb\t\n");
    trial.run("load db f.tsv --create --bulk always").assert_output(0, "");
    trial.run("scan db").assert_output(0, "a\t2\nb\t\nc\t3\n");
    trial.run("verify db").assert_contains(0, &["no problem"]);
    // The second load overlaps the first one and is put.
    trial.run_with_input("load db - --bulk always", b"b\tnew\nd\t4\n").assert_output(0, "");
    trial.run("scan db").assert_output(0, "a\t2\nb\tnew\nc\t3\nd\t4\n");
    trial.file("bad.tsv", "x\t1\ny\n");
    let message = "bad.tsv:2: no tab, expected key, tab, value; loaded before the error: 0 entries";
    trial.run("load db bad.tsv --bulk always").assert_error(4, message);
    trial.run("get db x").assert_error(1, "db: no key 'x'");
    let message = "bad.tsv:2: no tab, expected key, tab, value; loaded before the error: 1 entry";
    trial.run("load db bad.tsv --bulk never").assert_error(4, message);
    trial.run("get db x").assert_output(0, "1\n");
    assert!(trial.list("db").iter().all(|name| !name.ends_with(".dbtmp")));
}

#[test]
fn delete_ranges() {
    for (flags, remaining) in [
        ("--from b --to c", "a\t1\nc\t4\n"),
        ("--from ba", "a\t1\nb\t2\n"),
        ("--to b", "b\t2\nba\t3\nc\t4\n"),
        ("--hex --from 62 --to 6261", "a\t1\nba\t3\nc\t4\n"),
        ("--all", ""),
    ] {
        let trial = CliTest::with_entries(FEW);
        trial.run(&format!("delete db {flags}")).assert_output(0, "");
        trial.run("scan db").assert_output(0, remaining);
    }
    let trial = CliTest::with_entries(FEW);
    trial.run("delete db").assert_contains(2, &["required", "--all"]);
    trial.run("delete db a --from b").assert_contains(2, &["cannot be used with"]);
    trial.run("delete db --from b --to b").assert_output(0, "");
    trial.run("scan db").assert_output(0, FEW);
}

#[test]
fn escaped_and_hexadecimal_keys() {
    let trial = CliTest::new();
    trial.run(r"put db \x00\t\\ \xff\n --create").assert_output(0, "");
    trial.run(r"get db \x00\t\\").assert_output(0, "\\xff\\n\n");
    trial.run("get db --hex 00095c").assert_output(0, "ff0a\n");
    trial.run("put db --hex 00 FF").assert_output(0, "");
    trial.run(r"get db \x00").assert_output(0, "\\xff\n");
}

#[test]
fn values_do_not_reach_a_terminal_raw() {
    CliTest::with_entries("k\t\\x1b[2J\n").run("scan db").assert_output(0, "k\t\\x1b[2J\n");
}

/// Regression: a value ended at the limit of an argument, 128 KiB.
#[test]
fn put_a_value_from_standard_input_or_a_file() {
    let trial = CliTest::new();
    let value = [b"\xff\0\\t\n".as_slice(), &[b'v'; 300_000]].concat();
    trial.file("value", &value);
    trial.run_with_input("put db stdin - --create", &value).assert_output(0, "");
    trial.run("put db file --value-file value").assert_output(0, "");
    trial.run_with_input("put db dash --value-file -", b"dash").assert_output(0, "");
    trial.run_with_input("put db --hex 00 -", b"").assert_output(0, "");
    trial.run(r"put db literal \x2d").assert_output(0, "");
    #[cfg(unix)]
    for key in ["stdin", "file"] {
        let shell = format!("\"$0\" get db {key} --raw | cmp - value");
        trial.run_in_shell(&shell).assert_output(0, "");
    }
    trial.run("get db dash").assert_output(0, "dash\n");
    trial.run("get db --hex 00").assert_output(0, "\n");
    trial.run("get db literal").assert_output(0, "-\n");
    trial.run("put db k --value-file missing").assert_error(4, &format!("missing: {}", missing_file()));
    trial.run("put db k").assert_contains(2, &["<VALUE>"]);
    trial.run("put db k v --value-file value").assert_contains(2, &["cannot be used with"]);
    trial.run("count db").assert_output(0, "5\n");
}

#[test]
fn count_ranges() {
    let trial = CliTest::with_entries(FEW);
    for (flags, out) in [
        ("", "4\n"),
        ("--prefix b", "2\n"),
        ("--from b", "3\n"),
        ("--to b", "1\n"),
        ("--from b --to c", "2\n"),
        ("--hex --prefix 62", "2\n"),
        ("--from x", "0\n"),
    ] {
        trial.run(&format!("count db {flags}")).assert_output(0, out);
    }
    trial.run("count db --prefix a --from b").assert_contains(2, &["cannot be used with"]);
    let many: String = (0..2500).map(|i| format!("{i:05}\t{i}\n")).collect();
    CliTest::with_entries(&many).run("count db").assert_output(0, "2500\n");
}

/// Regression: the first key of a file from a Windows program began with an invisible character.
#[test]
fn byte_order_mark_of_a_file() {
    let trial = CliTest::new();
    for (name, text) in
        [("a.tsv", "\u{feff}a\t1\n"), ("b", "\u{feff}{\"key\":\"a\",\"value\":\"1\"}\n"), ("c", "\u{feff}")]
    {
        trial.file(name, text);
        trial.run(&format!("load {name}.db {name} --create")).assert_output(0, "");
    }
    trial.file("d.zst", zstd::encode_all("\u{feff}a\t1\n".as_bytes(), 3).unwrap());
    trial.run("load d.db d.zst --create").assert_output(0, "");
    for name in ["a", "b", "d"] {
        let db = if name == "a" { "a.tsv.db".to_owned() } else { format!("{name}.db") };
        trial.run(&format!("scan {db} --hex")).assert_output(0, "61\t31\n");
    }
    trial.run("count c.db").assert_output(0, "0\n");
}

/// Regression: each value of a file of Windows ended with a carriage return.
#[test]
fn line_ends_of_windows() {
    for (name, text) in [
        ("f.tsv", "a\t1\r\nb\t2\\x0d\r\nc\t\r\n"),
        (
            "f.jsonl",
            "{\"key\":\"a\",\"value\":\"1\"}\r\n{\"key\":\"b\",\"value\":\"2\\r\"}\r\n{\"key\":\"c\",\"value\":\"\"}\r\n",
        ),
    ] {
        let trial = CliTest::new();
        trial.file(name, text).run(&format!("load db {name} --create")).assert_output(0, "");
        trial.run("scan db").assert_output(0, "a\t1\nb\t2\\x0d\nc\t\n");
    }
    let trial = CliTest::new();
    trial.run_with_input("load db - --create --format hex", b"61\t31\r\n").assert_output(0, "");
    trial.run("scan db").assert_output(0, "a\t1\n");
}

/// A key that begins with the mark survives a dump and a load.
#[test]
fn byte_order_mark_of_a_key() {
    let trial = CliTest::with_entries("\\xef\\xbb\\xbfk\t\\xef\\xbb\\xbf\n");
    trial.run("dump db").assert_output(0, "\\xef\\xbb\\xbfk\t\\xef\\xbb\\xbf\n");
    for format in ["tsv", "jsonl", "hex"] {
        let text = trial.run(&format!("dump db --format {format}"));
        trial
            .run_with_input(&format!("load {format} - --create --format {format}"), text.out.as_bytes())
            .assert_output(0, "");
        trial.run(&format!("scan {format} --hex")).assert_output(0, "efbbbf6b\tefbbbf\n");
    }
}

#[test]
fn scan_ranges() {
    let trial = CliTest::with_entries(FEW);
    for (flags, out) in [
        ("", FEW),
        ("--prefix b", "b\t2\nba\t3\n"),
        ("--from b", "b\t2\nba\t3\nc\t4\n"),
        ("--to b", "a\t1\n"),
        ("--from b --to c --reverse", "ba\t3\nb\t2\n"),
        ("--limit 2 --keys-only", "a\nb\n"),
        ("--reverse --limit 1", "c\t4\n"),
        ("--limit 0", ""),
        ("--hex --prefix 6261", "6261\t33\n"),
        ("--hex --prefix 6261 --keys-only", "6261\n"),
        ("--hex --prefix 6261 --format tsv", "ba\t3\n"),
        ("--prefix a --format hex", "61\t31\n"),
        ("--prefix a --format json", "{\"key\":\"a\",\"value\":\"1\"}\n"),
        ("--prefix a --format jsonl", "{\"key\":\"a\",\"value\":\"1\"}\n"),
        ("--prefix a --format jsonl --keys-only", "{\"key\":\"a\"}\n"),
        ("--from x", ""),
    ] {
        trial.run(&format!("scan db {flags}")).assert_output(0, out);
    }
}

#[test]
fn dump_and_load_give_the_same_database() {
    let trial = CliTest::with_entries(&awkward());
    let dumped = trial.run("dump db");
    dumped.assert_contains(0, &[]);
    assert_eq!(dumped.out.lines().count(), awkward().lines().count());
    for (flags, format) in
        [("", "auto"), ("--format jsonl", "auto"), ("--format json", "json"), ("--hex", "hex")]
    {
        let text = trial.run(&format!("dump db {flags}"));
        let copy = format!("copy{}", flags.replace([' ', '-'], ""));
        trial
            .run_with_input(&format!("load {copy} - --create --format {format}"), text.out.as_bytes())
            .assert_output(0, "");
        trial.run(&format!("dump {copy}")).assert_output(0, &dumped.out);
    }
}

#[test]
fn load_into_an_existing_database() {
    let trial = CliTest::with_entries(FEW);
    trial.run_with_input("load db -", b"b\tnew\nz\t26\n").assert_contains(0, &["2 entries in "]);
    trial.run("scan db").assert_output(0, "a\t1\nb\tnew\nba\t3\nc\t4\nz\t26\n");
}

#[test]
fn load_more_than_a_batch() {
    let lines: String = (0..2500).map(|i| format!("{i:05}\t{i}\n")).collect();
    CliTest::with_entries(&lines).run("dump db").assert_output(0, &lines);
}

#[test]
fn load_compressed() {
    let trial = CliTest::new();
    let mut gz = flate2::read::GzEncoder::new(FEW.as_bytes(), flate2::Compression::default());
    let mut gzip = Vec::new();
    gz.read_to_end(&mut gzip).unwrap();
    trial.file("few.tsv.gz", gzip).file("few.zst", zstd::encode_all(FEW.as_bytes(), 3).unwrap());
    for file in ["few.tsv.gz", "few.zst"] {
        trial.run(&format!("load {file}-db {file} --create")).assert_output(0, "");
        trial.run(&format!("scan {file}-db")).assert_output(0, FEW);
    }
}

#[test]
fn load_detects_the_format() {
    let trial = CliTest::new();
    let json = "{\"key\":\"a\",\"value\":\"1\"}\n";
    trial.file("by-name.jsonl", json).file("by-first-byte", json).file("braces.tsv", "{\t1\n");
    trial.file("tag", "{a}\t1\n");
    for (file, flags, out) in [
        ("by-name.jsonl", "", "a\t1\n"),
        ("by-first-byte", "", "a\t1\n"),
        ("braces.tsv", "", "{\t1\n"),
        ("tag", "", "{a}\t1\n"),
        ("by-first-byte", "--format jsonl", "a\t1\n"),
    ] {
        let db = format!("db-{file}{}", flags.len());
        trial.run(&format!("load {db} {file} --create {flags}")).assert_output(0, "");
        trial.run(&format!("scan {db}")).assert_output(0, out);
    }
}

#[test]
fn compression_reaches_the_tables() {
    let trial = CliTest::new();
    let lines: String = (0..1000).map(|i| format!("key {i:05}\tthe same value\n")).collect();
    for codec in ["none", "snappy", "zstd"] {
        let flags = format!("--compression {codec}");
        trial.run_with_input(&format!("load db - --create {flags}"), lines.as_bytes()).assert_output(0, "");
        // The flag is for codecs that LevelDB reads; a database keeps its codec without it.
        let compact_flags = if codec == "zstd" { "" } else { &flags };
        trial.run(&format!("compact db {compact_flags}")).assert_contains(0, &[]);
        let table = trial.find_file(".ldb");
        let dumped = trial.run(&format!("dump --file {table}"));
        let block = dumped.out.lines().find(|line| line.starts_with("block at 0: ")).unwrap();
        assert!(block.contains(&format!(" uncompressed, {codec}")), "{block}");
        trial.run("destroy db --yes").assert_output(0, "");
    }
}

#[test]
fn last_line_without_line_feed() {
    CliTest::with_entries("a\t1\nb\t2").run("scan db").assert_output(0, "a\t1\nb\t2\n");
}

#[test]
fn reading_writes_nothing() {
    let trial = CliTest::with_entries(FEW);
    let files = || -> Vec<_> {
        trial.list("db").into_iter().map(|name| (trial.read(&format!("db/{name}")), name)).collect()
    };
    let before = files();
    for line in ["get db a", "scan db", "dump db", "stat db", "stat db --json", "verify db"] {
        trial.run(line).assert_contains(0, &[]);
        assert!(files() == before, "{line} changed the files");
    }
}

#[test]
fn closed_pipe_ends_a_scan() {
    let lines: String = (0..20_000).map(|i| format!("{i:05}\tsome value\n")).collect();
    let trial = CliTest::with_entries(&lines);
    let mut child = Command::new(env!("CARGO_BIN_EXE_terrace"))
        .args(["scan", "db"])
        .current_dir(trial.path(""))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::with_capacity(16, child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((line.as_str(), output.status.code()), ("00000\tsome value\n", Some(0)));
    assert!(output.stderr.is_empty());
}

#[test]
fn read_only_comparator() {
    let trial = CliTest::with_entries(FEW);
    trial.run("put db a b --comparator idb_cmp1").assert_error(2, "--comparator idb_cmp1: read-only");
    trial.run("get db a --comparator nonsense").assert_contains(2, &["nonsense", "bytewise", "idb_cmp1"]);
}
