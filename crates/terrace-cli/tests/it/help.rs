//! Help, completions, manual pages.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "creates a directory, and writes to a device that is always full"
)]

use crate::cli_test::CliTest;

const COMMANDS: &[&str] = &[
    "get",
    "put",
    "delete",
    "scan",
    "serve",
    "count",
    "shell",
    "load",
    "dump",
    "stat",
    "verify",
    "repair",
    "compact",
    "convert",
    "checkpoint",
    "backup",
    "restore",
    "migrate",
    "destroy",
    "bench",
    "tour",
    "view",
    "demo",
    "completions",
    "man",
];

#[test]
fn every_command_has_help() {
    let trial = CliTest::new();
    trial.run("--help").assert_contains(0, COMMANDS);
    for command in COMMANDS {
        trial
            .run(&format!("{command} --help"))
            .assert_contains(0, &["Usage: terrace", command, "Example: terrace "]);
        let help = trial.run(&format!("{command} --help")).out;
        trial.run(&format!("help {command}")).assert_output(0, &help);
    }
    trial.run("help").assert_output(0, &trial.run("--help").out);
}

/// Number of lines of a terminal, without the line of the prompt.
const SCREEN_LINES: usize = 25;

/// The complete help of `bench` has 106 lines, and that of `delete` had 70.
#[test]
fn every_help_fits_on_a_screen() {
    let trial = CliTest::new();
    for line in COMMANDS.iter().map(|name| format!("{name} --help")).chain(["--help".into(), "get -h".into()])
    {
        let help = trial.run_in_columns(&line, 80);
        help.assert_contains(0, &["Usage: terrace", "help-all"]);
        assert!(help.out.lines().count() <= SCREEN_LINES, "{line}\n{}", help.out);
        assert!(help.out.lines().all(|line| line.chars().count() <= 80), "{line}\n{}", help.out);
    }
}

/// Regression: the list of commands did not say where the exit codes are, and `backup` had the text
/// of reads.
#[test]
fn brief_help_of_exit_codes_and_damage() {
    let trial = CliTest::new();
    trial.run("--help").assert_contains(0, &["exit codes"]);
    trial.run("--help-all").assert_contains(0, &["Exit codes:"]);
    trial.run("backup --help").assert_contains(0, &["--allow-damage  Back up a damaged database"]);
    trial.run("get --help").assert_contains(0, &["--allow-damage  Read all readable data"]);
}

/// Regression: every command that wrote an entry had all options for tables.
#[test]
fn tuning_flags_only_where_they_have_an_effect() {
    let trial = CliTest::with_entries("a\t1\n");
    for line in ["put db a 2", "delete db a", "delete db --all"] {
        for flag in ["--block-size 4k", "--filter-bits 10", "--max-file-size 1m", "--memory 8m"] {
            trial.run(&format!("{line} {flag}")).assert_contains(2, &["unexpected argument"]);
        }
    }
    trial.run("compact db --write-buffer 1m").assert_contains(2, &["unexpected argument"]);
    trial.run("compact db --block-size 8k --filter-bits 5").assert_contains(0, &[" -> "]);
    let brief = trial.run("load --help");
    assert!(!brief.out.contains("--block-size"), "{}", brief.out);
}

#[test]
fn stable_flags() {
    let trial = CliTest::new();
    let tables =
        ["--compression", "--block-size", "--block-restart-interval", "--filter-bits", "--max-file-size"];
    for (command, flags) in [
        ("get", &["--hex", "--raw", "--comparator"][..]),
        ("put", &["--create", "--hex", "--sync", "--value-file", "--if-value", "--if-absent"]),
        ("shell", &["--create", "--hex", "--sync"]),
        ("delete", &["--from", "--to", "--all", "--sync"]),
        ("load", &tables),
        ("load", &["--format", "--create", "--sync", "--write-buffer", "--memory"]),
        ("compact", &tables),
        ("repair", &tables),
        ("count", &["--prefix", "--from", "--to", "--hex"]),
        ("scan", &["--prefix", "--from", "--to", "--reverse", "--limit", "--keys-only", "--format"]),
        ("dump", &["--file", "--format", "--hex"]),
        ("stat", &["--json"]),
        ("repair", &["--dry-run"]),
        ("compact", &["--from", "--to"]),
        ("checkpoint", &["--allow-damage", "--comparator"]),
        ("backup", &["--id", "--keep", "--json", "--allow-damage"]),
        ("restore", &["--id"]),
        ("destroy", &["--yes"]),
        ("tour", &["--dir"]),
        (
            "bench",
            &[
                "--suite",
                "--engines",
                "--num",
                "--scale",
                "--threads",
                "--key-size",
                "--value-size",
                "--order",
            ],
        ),
        (
            "bench",
            &["--batch", "--cache", "--filter-bits", "--compression", "--sync", "--rounds", "--settings"],
        ),
        ("bench", &["--dir", "--json", "--report", "--compare", "--list"]),
    ] {
        trial.run(&format!("{command} --help-all")).assert_contains(0, flags);
    }
}

#[test]
fn completions_know_every_command() {
    let trial = CliTest::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        trial.run(&format!("completions {shell}")).assert_contains(0, COMMANDS);
    }
    trial.run("completions tcsh").assert_contains(2, &["tcsh"]);
}

#[test]
fn manual_pages() {
    let trial = CliTest::new();
    trial.run("man").assert_contains(0, &[".TH terrace", "EXIT STATUS", "key not found"]);
    trial
        .run("man scan")
        .assert_contains(0, &["terrace-scan", "prefix", concat!("terrace ", env!("CARGO_PKG_VERSION"))]);
    trial.run("man frobnicate").assert_contains(2, &["frobnicate"]);
}

/// Regression: the pages had a section EXTRA, and one with a whole sentence as its name.
#[test]
fn manual_pages_have_the_conventional_sections() {
    let trial = CliTest::new();
    let sections =
        ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "COMMANDS", "EXIT STATUS", "EXAMPLES", "SEE ALSO"];
    for command in COMMANDS.iter().copied().chain([""]) {
        let page = trial.run(&format!("man {command}"));
        let found: Vec<&str> =
            page.out.lines().filter_map(|line| Some(line.strip_prefix(".SH ")?.trim_matches('"'))).collect();
        let expect: Vec<&str> =
            sections.into_iter().filter(|name| *name != "COMMANDS" || command.is_empty()).collect();
        assert_eq!(found, expect, "man {command}");
        assert!(!page.out.contains("help(1)"), "a page that does not exist: {}", page.out);
    }
    // Arguments that the brief help omits have their text.
    trial.run("man bench").assert_contains(0, &["Number of keys", ".SS SIZE"]);
    trial
        .run("man load")
        .assert_contains(0, &["Size of blocks before compression", "Comparator the database"]);
}

#[test]
fn all_manual_pages_in_a_directory() {
    let trial = CliTest::new();
    std::fs::create_dir(trial.path("man1")).unwrap();
    trial.run("man --dir man1").assert_output(0, "");
    let mut expect: Vec<String> = COMMANDS.iter().map(|name| format!("terrace-{name}.1")).collect();
    expect.push("terrace.1".into());
    expect.sort();
    assert_eq!(trial.list("man1"), expect);
    assert_eq!(trial.read("man1/terrace-get.1"), trial.run("man get").out.into_bytes());
    trial
        .run("man --dir missing")
        .assert_error(4, "missing: no such directory, expected the directory of the pages");
    let message = "man1/terrace.1: a file, expected the directory of the pages";
    trial.run("man --dir man1/terrace.1").assert_error(4, message);
}

#[cfg(target_os = "linux")]
#[test]
fn help_on_a_full_disk() {
    for word in ["--help", "--version", "man"] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let ended = std::process::Command::new(env!("CARGO_BIN_EXE_terrace"))
            .arg(word)
            .stdout(full)
            .output()
            .unwrap();
        assert_eq!(ended.status.code(), Some(4), "{word}");
        assert!(
            String::from_utf8_lossy(&ended.stderr).starts_with("terrace: standard output: "),
            "{ended:?}"
        );
    }
}
