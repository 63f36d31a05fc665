//! `terrace bench`, whole: processes, rounds, table, files.

use crate::trial::Trial;

const SMALL: &str = "--num 500 --engines terrace --rounds 2 --dir .";

#[test]
fn a_suite_from_end_to_end() {
    let trial = Trial::new();
    let ended =
        trial.run("bench --suite go --num 300 --engines terrace --rounds 1 --json r.json --report r.html");
    ended.shows(
        0,
        &["go, scale 0.0003, 1 round on ", "WriteRandom", "ReadMissing", "DeleteSequential", "w-amp"],
    );
    let text = String::from_utf8(trial.read("r.json")).expect("JSON is UTF-8");
    let json: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    assert_eq!(json["results"].as_array().map(Vec::len), Some(11));
    assert_eq!(json["phases"][1]["name"], "WriteRandom");
    assert!(json["results"][1]["ops_per_second"].as_f64() > Some(0.0), "{}", json["results"][1]);
    assert!(json["machine"]["cores"].as_u64() > Some(0));
    assert!(String::from_utf8_lossy(&trial.read("r.html")).contains("WriteRandom"));
    assert_eq!(trial.list(""), ["r.html", "r.json"], "something is left behind");
}

#[test]
fn the_same_engine_twice_is_compared_with_itself() {
    let trial = Trial::new();
    let line = "bench fillrandom readrandom --num 500 --engines terrace,terrace --rounds 2 --json a.json";
    trial.run(line).shows(0, &["terrace-2", "readrandom"]);
    trial.run("bench --compare a.json a.json").shows(0, &["fillrandom  terrace", "1.000x  noise"]);
}

#[test]
fn flags_change_the_work() {
    let trial = Trial::new();
    let flags =
        "--threads 2 --key-size 20 --value-size 10 --batch 5 --order reverse --compression none --cache 1m";
    trial
        .run(&format!("bench fillseq {SMALL} {flags} --json r.json"))
        .shows(0, &["cache 1.00 MiB", "compression none"]);
    let text = String::from_utf8(trial.read("r.json")).expect("JSON is UTF-8");
    let json: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    let work = &json["phases"][0]["workload"];
    for (name, value) in [("threads", 2), ("key_size", 20), ("value_size", 10), ("batch", 5), ("num", 500)] {
        assert_eq!(work[name], value, "{name}");
    }
    assert_eq!(json["results"][0]["bytes"], 500 * 30);
}

#[test]
fn what_exists_is_listed() {
    let parts = ["fillrandom", "ycsb-e", "bangdb", "terrace", "lmdb", "pebble", "redb"];
    Trial::new().run("bench --list").shows(0, &parts);
}

#[test]
fn what_does_not_exist() {
    let trial = Trial::new();
    for (line, sentence) in [
        ("bench moon", "no workload is called \"moon\"; there are: fillseq, "),
        ("bench --suite moon", "no suite is called \"moon\"; there are: leveldb, bangdb, go, ycsb"),
        ("bench --engines moon", "no engine is called \"moon\"; there are: terrace, terrace-c, leveldb, "),
        ("bench --order moon", "no order of keys is called \"moon\"; there are: seq, "),
        ("bench --settings moon", "no kind of settings is called \"moon\"; there are: same, defaults"),
        ("bench --compression moon", "no codec is called \"moon\"; there are: none, snappy, zstd"),
        ("bench fillseq --key-size 2", "fillseq: keys of 2 bytes, expected at least 7 for so many"),
        ("bench --scale 0", "scale 0, expected above 0"),
        ("bench fillseq --suite go", "cannot be used with"),
        ("bench --rounds 0", "0 is not in 1..=1000"),
    ] {
        trial.run(line).shows(2, &[sentence]);
    }
    assert!(trial.list("").is_empty(), "something was made");
}

#[test]
fn a_library_without_the_functions() {
    let trial = Trial::new();
    trial.file("bad.so", "no library");
    let line = "bench fillseq --num 500 --rounds 1 --engines leveldb=./bad.so,terrace --json r.json";
    trial.run(line).shows(3 + 1, &["leveldb     not there: ", "bad.so", "fillseq  terrace"]);
    assert!(trial.list("").contains(&"r.json".to_owned()));
}

#[test]
fn an_engine_that_fails_leaves_the_others_alone() {
    let trial = Trial::new();
    // The directory of its first turn can't be made: a file has the name.
    trial.file("terrace-0", "").file("terrace-2-0.txt", "");
    let line = "bench fillseq --num 500 --rounds 1 --engines terrace,terrace --dir . --json r.json";
    trial
        .run(line)
        .shows(3, &["FAILED  terrace in fillseq, round 1: ", "terrace-2", "terrace: failures: 1; what was"]);
    let text = String::from_utf8(trial.read("r.json")).expect("JSON is UTF-8");
    assert!(text.contains("\"engine\":\"terrace-2\",\"round\":0,\"ops\":500"), "{text}");
}

#[test]
fn places_that_can_not_be_written() {
    let trial = Trial::new();
    trial.file("file", "");
    trial.run("bench fillseq --dir file/db").shows(4, &["terrace: file/db: "]);
    trial.run(&format!("bench fillseq {SMALL} --json none/r.json")).shows(4, &["terrace: none/r.json: "]);
    trial.run("bench --compare file file").shows(4, &["terrace: file: no result file: "]);
}
