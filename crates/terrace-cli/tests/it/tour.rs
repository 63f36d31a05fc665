//! The tour, on a small file.

use crate::trial::Trial;

fn cities() -> String {
    let names = ["AD/Canillo", "CH/Uster", "CH/Wil", "CH/Zug", "DE/Ulm", "ZW/Harare"];
    names.map(|name| format!("{name}\t1,2\n")).concat()
}

#[test]
fn all_stations() {
    let trial = Trial::new();
    trial.file("cities.tsv", cities());
    let ended = trial.run("tour cities.tsv --dir here");
    ended.shows(
        0,
        &[
            "load        6 entries in ",
            "get         10,000 keys",
            "prefix      3 entries begin with \"CH/\"",
            "reverse     1 entry of a range",
            "batch ",
            "snapshot ",
            "all 6 entries there",
            "level  files",
            "terrace scan here --prefix CH/ --reverse --limit 5",
        ],
    );
    assert!(ended.out.lines().count() <= 48, "two screens");
    trial.run("get here CH/Uster").is(0, "1,2\n");
}

#[test]
fn every_command_it_names_works() {
    let trial = Trial::new();
    trial.file("cities.tsv", cities());
    let ended = trial.run("tour cities.tsv --dir here");
    let named: Vec<_> = ended
        .out
        .lines()
        .filter_map(|line| line.strip_prefix(concat!("  ", env!("CARGO_BIN_EXE_terrace"), " ")))
        .collect();
    assert!(named.len() >= 4, "{named:?}");
    for line in named {
        let line = line.split('|').next().unwrap();
        trial.run(line).shows(0, &[]);
    }
}

#[test]
fn again_in_the_same_place() {
    let trial = Trial::new();
    trial.file("cities.tsv", cities()).file("one.tsv", "only\tone\n");
    trial.run("tour cities.tsv").shows(0, &["terrace-tour"]);
    trial.run("tour one.tsv").shows(0, &["1 entry in "]);
    trial.run("dump terrace-tour").is(0, "only (moved)\tone\n");
}

#[test]
fn a_directory_that_is_not_its_own() {
    let trial = Trial::with("a\t1\n");
    trial.file("cities.tsv", cities());
    let sentence = "db: not empty and not made by a tour; --dir names another directory";
    trial.run("tour cities.tsv --dir db").fails(3, sentence);
    trial.run("dump db").is(0, "a\t1\n");
}

#[test]
fn nothing_to_show() {
    let trial = Trial::new();
    trial.file("empty.tsv", "");
    trial.run("tour empty.tsv --dir here").fails(4, "the tour needs a file with at least one entry");
}
