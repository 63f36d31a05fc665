//! The tour, on a small file.

use std::env::consts::EXE_SUFFIX;

use crate::cli_test::CliTest;

fn cities() -> String {
    let names = ["AD/Canillo", "CH/Uster", "CH/Wil", "CH/Zug", "DE/Ulm", "ZW/Harare"];
    names.map(|name| format!("{name}\t1,2\n")).concat()
}

#[test]
fn all_steps() {
    let trial = CliTest::new();
    trial.file("cities.tsv", cities());
    let ended = trial.run("tour cities.tsv --dir here");
    ended.assert_contains(
        0,
        &[
            "load        6 entries in ",
            "get         10,000 random keys",
            "prefix      3 entries begin with \"CH/\"",
            "reverse     1 entry of a range",
            "batch ",
            "snapshot ",
            "transact    swapped two values, repeated after a conflict",
            "all 6 entries found",
            "level  files",
            &format!("terrace{EXE_SUFFIX} scan here --prefix CH/ --reverse --limit 5"),
        ],
    );
    assert!(ended.out.lines().count() <= 48, "the output is longer than two screens");
    trial.run("get here CH/Uster").assert_output(0, "1,2\n");
}

#[test]
fn suggested_commands_work() {
    let trial = CliTest::new();
    trial.file("cities.tsv", cities());
    let ended = trial.run("tour cities.tsv --dir here");
    let commands: Vec<_> = ended
        .out
        .lines()
        .filter_map(|line| line.strip_prefix(concat!("  ", env!("CARGO_BIN_EXE_terrace"), " ")))
        .collect();
    assert!(commands.len() >= 4, "{commands:?}");
    for line in commands {
        let line = line.split('|').next().unwrap();
        trial.run(line).assert_contains(0, &[]);
    }
}

#[test]
fn second_tour_replaces_the_first() {
    let trial = CliTest::new();
    trial.file("cities.tsv", cities()).file("one.tsv", "only\tone\n");
    trial.run("tour cities.tsv").assert_contains(0, &["terrace-tour"]);
    trial.run("tour one.tsv").assert_contains(0, &["1 entry in "]);
    trial.run("dump terrace-tour").assert_output(0, "only (moved)\tone\n");
}

#[test]
fn existing_directory_is_refused() {
    let trial = CliTest::with_entries("a\t1\n");
    trial.file("cities.tsv", cities());
    let message = "db: not empty and not created by a tour; choose another directory with --dir";
    trial.run("tour cities.tsv --dir db").assert_error(3, message);
    trial.run("dump db").assert_output(0, "a\t1\n");
}

#[test]
fn empty_input_file() {
    let trial = CliTest::new();
    trial.file("empty.tsv", "");
    trial.run("tour empty.tsv --dir here").assert_error(4, "the tour needs a file with at least one entry");
}
