//! Histories of front ends on etcd and on the double of TiKV, while servers and front ends fail.
//!
//! `make test` checks a share of them. This command chooses their number.

use std::process::{Command, ExitCode};

use crate::torture::wait;

/// Number of operations without `--operations`.
const OPERATIONS: &str = "100000";
/// Environment variable with the number of operations, for the tests.
const VARIABLE: &str = "TERRACE_FRONT_END_OPERATIONS";
const TESTS: &str = "front_end_faults::histories";

pub(crate) fn run() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(2).collect();
    let operations = match arguments.as_slice() {
        [] => OPERATIONS,
        [flag, number] if flag == "--operations" && number.parse::<u64>().is_ok() => number,
        _ => {
            eprintln!("usage: cargo xtask store-histories [--operations N]");
            return ExitCode::from(2);
        }
    };
    let mut cargo = Command::new("cargo");
    cargo.args(["test", "--profile", "ci", "--package", "terrace-server", "--features", "etcd,tikv"]);
    cargo.args(["--test", "it", TESTS, "--", "--nocapture"]);
    // A program or an engine that is missing is an error here.
    cargo.env(VARIABLE, operations).env("TERRACE_REQUIRE_STOCK", "1");
    wait(cargo)
}
