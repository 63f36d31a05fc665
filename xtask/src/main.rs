//! Commands for work on this repository: `cargo xtask COMMAND`.
//!
//! This crate depends on the standard library alone, so it builds in a second.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "reads the repository; no code of the database runs here"
)]

mod benchmarks;
mod bindings;
mod platforms;
mod sanitize;
mod serve_benchmarks;
mod store_histories;
mod suites;
mod tidy;
mod torture;

use std::process::ExitCode;

/// A command of the table.
struct Command {
    name: &'static str,
    help: &'static str,
    run: fn() -> ExitCode,
}

static COMMANDS: &[Command] = &[
    Command {
        name: "tidy",
        help: "Check structure, names, prose and code habits: [--uses] [PATH-PREFIX]",
        run: tidy::run,
    },
    Command { name: "check", help: "Run a fixed share of every torture harness", run: torture::check },
    Command {
        name: "torture",
        help: "Run every torture harness for a time: --budget 10m",
        run: torture::torture,
    },
    Command {
        name: "fuzz",
        help: "Run fuzz targets under libFuzzer: [TARGET] --seconds N",
        run: torture::fuzz,
    },
    Command {
        name: "mutants",
        help: "Check that the tests find every deliberate bug",
        run: torture::mutants,
    },
    Command {
        name: "loom",
        help: "Model-check the concurrent protocols, or one: [NAME]",
        run: torture::loom,
    },
    Command {
        name: "sanitize",
        help: "Run the concurrent tests under a sanitizer: thread|address",
        run: sanitize::run,
    },
    Command {
        name: "benchmarks",
        help: "Update docs/benchmarks.md from target/benchmarks: [--measure] [NAME ...]",
        run: benchmarks::run,
    },
    Command {
        name: "bindings",
        help: "Check the bindings for other languages: [LANGUAGE ...]",
        run: bindings::run,
    },
    Command {
        name: "platforms",
        help: "Build and test for other platforms: [--all] [TARGET ...]",
        run: platforms::run,
    },
    Command {
        name: "redis-suites",
        help: "Run Redis' own suite against redis-server and terrace serve: [--program PATH] [--reuse-redis] [--share] [UNIT ...]",
        run: suites::run_redis,
    },
    Command {
        name: "client-suites",
        help: "Run suites of clients against redis-server and terrace serve: [--program PATH] [CLIENT ...]",
        run: suites::run_clients,
    },
    Command {
        name: "store-histories",
        help: "Check histories of front ends while etcd, or the double of TiKV, fails: [--operations N]",
        run: store_histories::run,
    },
    Command {
        name: "serve-benchmarks",
        help: "Measure terrace serve beside redis-server: [--rounds N] [--requests N] [ROW ...]",
        run: serve_benchmarks::run,
    },
    Command { name: "replay", help: "Repeat one case of a torture harness: --seed N", run: torture::replay },
];

fn main() -> ExitCode {
    let name = std::env::args().nth(1).unwrap_or_default();
    match COMMANDS.iter().find(|command| command.name == name) {
        Some(command) => (command.run)(),
        None => usage(),
    }
}

fn usage() -> ExitCode {
    eprintln!("usage: cargo xtask COMMAND\n");
    for Command { name, help, .. } in COMMANDS {
        eprintln!("  {name:<17} {help}");
    }
    ExitCode::from(2)
}
