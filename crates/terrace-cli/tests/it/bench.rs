//! `terrace bench` as a whole: rounds, table, files.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "prepares a program and a standard error"
)]

use crate::cli_test::CliTest;

const SMALL: &str = "--num 500 --engines terrace --rounds 2 --dir .";

#[test]
fn suite_end_to_end() {
    let trial = CliTest::new();
    let ended =
        trial.run("bench --suite go --num 300 --engines terrace --rounds 1 --json r.json --report r.html");
    ended.assert_contains(
        0,
        &[
            "go, scale 0.0003, 1 round on ",
            "WriteRandom",
            "ReadMissing",
            "DeleteSequential",
            "written",
            "\nr.html: page with plots\n",
        ],
    );
    let text = String::from_utf8(trial.read("r.json")).expect("JSON is UTF-8");
    let json: serde_json::Value = serde_json::from_str(&text).expect("the file is JSON");
    assert_eq!(json["results"].as_array().map(Vec::len), Some(11));
    assert_eq!(json["phases"][1]["name"], "WriteRandom");
    assert!(json["results"][1]["ops_per_second"].as_f64() > Some(0.0), "{}", json["results"][1]);
    assert!(json["machine"]["cores"].as_u64() > Some(0));
    assert!(String::from_utf8_lossy(&trial.read("r.html")).contains("WriteRandom"));
    assert_eq!(trial.list(""), ["r.html", "r.json"], "other files were left");
}

/// LevelDB, if it is installed, has no transactions, and takes no part in their rows.
#[test]
fn transactions_end_to_end() {
    let trial = CliTest::new();
    let ended =
        trial.run("bench --suite transactions --num 900 --engines terrace,leveldb --rounds 1 --json r.json");
    ended.assert_contains(0, &["txn-rmw-4", "txn-hot-4", "txn-scan-1", "get-put-1"]);
    let text = String::from_utf8(trial.read("r.json")).expect("JSON is UTF-8");
    let json: serde_json::Value = serde_json::from_str(&text).expect("the file is JSON");
    let rows = |engine: &str| -> Vec<u64> {
        let results = json["results"].as_array().expect("an array").iter();
        results
            .filter(|result| result["engine"] == engine)
            .filter_map(|result| result["row"].as_u64())
            .collect()
    };
    assert_eq!(rows("terrace"), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    assert!(rows("leveldb").is_empty() || rows("leveldb") == [0, 1, 3], "{:?}", rows("leveldb"));
}

#[test]
fn same_engine_twice() {
    let trial = CliTest::new();
    let line = "bench fillrandom readrandom --num 500 --engines terrace,terrace --rounds 2 --json a.json";
    trial.run(line).assert_contains(0, &["terrace-2", "readrandom"]);
    trial.run("bench --compare a.json a.json").assert_contains(0, &["fillrandom  terrace", "1.000x  noise"]);
}

#[test]
fn flags_change_the_workload() {
    let trial = CliTest::new();
    let flags =
        "--threads 2 --key-size 20 --value-size 10 --batch 5 --order reverse --compression none --cache 1m";
    trial
        .run(&format!("bench fillseq {SMALL} {flags} --json r.json"))
        .assert_contains(0, &["cache 1.00 MiB", "compression none"]);
    let text = String::from_utf8(trial.read("r.json")).expect("JSON is UTF-8");
    let json: serde_json::Value = serde_json::from_str(&text).expect("the file is JSON");
    let work = &json["phases"][0]["workload"];
    for (name, value) in [("threads", 2), ("key_size", 20), ("value_size", 10), ("batch", 5), ("num", 500)] {
        assert_eq!(work[name], value, "{name}");
    }
    assert_eq!(json["results"][0]["bytes"], 500 * 30);
}

#[test]
fn list_names_workloads_and_engines() {
    let parts = ["fillrandom", "ycsb-e", "bangdb", "terrace", "lmdb", "pebble", "redb"];
    CliTest::new().run("bench --list").assert_contains(0, &parts);
}

/// Regression: the list built the Go program, and downloaded its modules.
#[cfg(unix)]
#[test]
fn list_builds_nothing() {
    let trial = CliTest::new();
    std::fs::create_dir(trial.path("bin")).expect("the directory is writable");
    trial.file("bin/go", "#!/bin/sh\necho run >>\"$0.log\"\nexit 1\n");
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(trial.path("bin/go"), executable).expect("the file exists");
    let path = format!("{}:/usr/bin:/bin", trial.path("bin").display());
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_terrace"));
    let output = command.args(["bench", "--list"]).env("PATH", path).output().expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.contains("pebble"), "{text}");
    assert!(!trial.path("bin/go.log").exists(), "go was called");
    // A path is never divided.
    let mut lines = text.lines().filter(|line| line.trim().contains(' '));
    assert!(lines.all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn unknown_names_are_usage_errors() {
    let trial = CliTest::new();
    for (line, message) in [
        ("bench moon", "no workload is called \"moon\"; there are: fillseq, "),
        (
            "bench --suite moon",
            "no suite is called \"moon\"; there are: leveldb, quick, bangdb, go, ycsb, transactions",
        ),
        (
            "bench --engines moon",
            "no engine is called \"moon\"; there are: terrace, terrace-appended, terrace-leveled, ",
        ),
        ("bench --order moon", "no order of keys is called \"moon\"; there are: seq, "),
        ("bench --settings moon", "no kind of settings is called \"moon\"; there are: same, defaults"),
        ("bench --compression moon", "no codec is called \"moon\"; there are: none, snappy, zstd"),
        (
            "bench fillseq --key-size 2",
            "fillseq: keys of 2 bytes, expected at least 7 for this number of keys",
        ),
        ("bench --scale 0", "scale 0, expected above 0"),
        ("bench fillseq --suite go", "cannot be used with"),
        ("bench --rounds 0", "0 is not in 1..=1000"),
    ] {
        trial.run(line).assert_contains(2, &[message]);
    }
    assert!(trial.list("").is_empty(), "a file was created");
}

#[test]
fn file_that_is_no_leveldb_library() {
    let trial = CliTest::new();
    trial.file("bad.so", "no library");
    let line = "bench fillseq --num 500 --rounds 1 --engines leveldb=./bad.so,terrace --json r.json";
    trial
        .run(line)
        .assert_contains(3 + 1, &["leveldb       not available: ", "bad.so", "fillseq\n  terrace  median "]);
    assert!(trial.list("").contains(&"r.json".to_owned()));
}

#[test]
fn failing_engine_does_not_stop_the_others() {
    let trial = CliTest::new();
    // The directory of the first run cannot be created, because a file has its name.
    trial.file("terrace-0", "").file("terrace-2-0.txt", "");
    let line = "bench fillseq --num 500 --rounds 1 --engines terrace,terrace --dir . --json r.json";
    trial.run(line).assert_contains(
        3,
        &["FAILED  terrace in fillseq, round 1: ", "terrace-2", "terrace: failures: 1; the other results"],
    );
    let text = String::from_utf8(trial.read("r.json")).expect("JSON is UTF-8");
    assert!(text.contains("\"engine\":\"terrace-2\",\"round\":0,\"ops\":500"), "{text}");
}

#[test]
fn unwritable_paths() {
    let trial = CliTest::new();
    trial.file("file", "");
    trial.run("bench fillseq --dir file/db").assert_contains(4, &["terrace: file/db: "]);
    trial
        .run(&format!("bench fillseq {SMALL} --json none/r.json"))
        .assert_contains(4, &["terrace: none/r.json: "]);
    trial.run("bench --compare file file").assert_contains(4, &["terrace: file: not a result file: "]);
}

#[cfg(target_os = "linux")]
#[test]
fn full_stderr_keeps_the_exit_code() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has /dev/full");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_terrace"));
    let status = command.args(["get", "/nowhere", "key"]).stderr(full).status().expect("the program starts");
    assert_eq!(status.code(), Some(3));
}
