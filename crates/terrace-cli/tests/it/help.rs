//! Help, completions, manual pages.
#![allow(clippy::disallowed_types, reason = "writes to a device that is always full")]

use std::process::Command;

use crate::cli_test::CliTest;

const COMMANDS: &[&str] = &[
    "get",
    "put",
    "delete",
    "scan",
    "load",
    "dump",
    "stat",
    "verify",
    "repair",
    "compact",
    "destroy",
    "bench",
    "tour",
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
    }
}

#[test]
fn stable_flags() {
    let trial = CliTest::new();
    let writing = [
        "--sync",
        "--compression",
        "--block-size",
        "--write-buffer",
        "--filter-bits",
        "--max-file-size",
        "--memory",
    ];
    for (command, flags) in [
        ("get", &["--hex", "--raw", "--comparator"][..]),
        ("put", &["--create", "--hex"]),
        ("put", &writing),
        ("delete", &writing),
        ("delete", &["--from", "--to", "--all"]),
        ("load", &writing),
        ("load", &["--format", "--create"]),
        ("scan", &["--prefix", "--from", "--to", "--reverse", "--limit", "--keys-only", "--format"]),
        ("dump", &["--file", "--format"]),
        ("stat", &["--json"]),
        ("repair", &["--dry-run", "--compression"]),
        ("compact", &["--from", "--to"]),
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
        trial.run(&format!("{command} --help")).assert_contains(0, flags);
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
    trial.run("man").assert_contains(0, &[".TH terrace", "Exit codes"]);
    trial
        .run("man scan")
        .assert_contains(0, &["terrace-scan", "prefix", concat!("terrace ", env!("CARGO_PKG_VERSION"))]);
    trial.run("man frobnicate").assert_contains(2, &["frobnicate"]);
}

#[cfg(target_os = "linux")]
#[test]
fn help_on_a_full_disk() {
    for word in ["--help", "--version", "man"] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let ended = Command::new(env!("CARGO_BIN_EXE_terrace")).arg(word).stdout(full).output().unwrap();
        assert_eq!(ended.status.code(), Some(4), "{word}");
        assert!(
            String::from_utf8_lossy(&ended.stderr).starts_with("terrace: standard output: "),
            "{ended:?}"
        );
    }
}
