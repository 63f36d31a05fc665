//! Tests of stat, verify, repair, compact and destroy.

use crate::cli_test::CliTest;

const FEW: &str = "a\t1\nb\t2\nc\t3\n";

#[test]
fn stat_draws_levels() {
    let trial = CliTest::with_entries(FEW);
    trial.run("compact db").assert_contains(0, &["table", " -> "]);
    let stat = trial.run("stat db");
    stat.assert_contains(
        0,
        &[
            "db\n",
            "1 table, ",
            " of memory, ",
            "level  files",
            "##########",
            "a .. c",
            "leveldb.BytewiseComparator",
        ],
    );
    assert!(stat.out.is_ascii(), "drawing characters or colours in a pipe: {}", stat.out);
}

#[test]
fn stat_as_json() {
    let trial = CliTest::with_entries(FEW);
    trial.run("compact db").assert_contains(0, &[]);
    let stat: serde_json::Value = serde_json::from_str(&trial.run("stat db --json").out).unwrap();
    assert_eq!((&stat["tables"], &stat["sequence"]), (&1.into(), &3.into()));
    assert!(stat["memory"].as_u64().unwrap() > 0, "{stat}");
    let levels = stat["levels"].as_array().unwrap();
    assert_eq!(levels.len(), 7);
    let file = levels.iter().find_map(|level| level["files"].get(0)).unwrap();
    assert_eq!((&file["smallest"], &file["largest"]), (&"a".into(), &"c".into()));
}

#[test]
fn verify_intact_and_damaged() {
    let trial = CliTest::with_entries(FEW);
    trial.run("compact db").assert_contains(0, &[]);
    trial.run("verify db").assert_contains(0, &[]);
    let table = trial.find_file(".ldb");
    let mut bytes = trial.read(&table);
    bytes[2] ^= 1;
    trial.file(&table, bytes);
    trial
        .run("verify db")
        .assert_contains(3, &["terrace: db: ", " problem", &table["db/".len()..], "checksum"]);
    trial.run("dump db").assert_contains(
        3,
        &["terrace: corruption: ", "checksum 0x", "; terrace verify lists all corruption, "],
    );
}

#[test]
fn repair_reports() {
    let trial = CliTest::with_entries(FEW);
    let before = trial.list("db");
    trial.run("repair db --dry-run").assert_contains(0, &[]);
    assert_eq!(trial.list("db"), before, "the dry run changed files");
    trial.run("repair db").assert_contains(0, &[]);
    trial.run("scan db").assert_output(0, FEW);
}

#[test]
fn compact_a_range() {
    let trial = CliTest::with_entries(FEW);
    trial.run("compact db --from a --to b").assert_contains(0, &[" -> "]);
    trial.run("scan db").assert_output(0, FEW);
}

#[test]
fn destroy_leaves_other_files() {
    let trial = CliTest::with_entries(FEW);
    trial.file("db/mine.txt", "");
    trial.run("destroy db --yes").assert_output(0, "");
    assert_eq!(trial.list("db"), ["mine.txt"]);
}
