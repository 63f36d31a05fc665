//! Chores of this repository: `cargo xtask COMMAND`.
//!
//! Needs nothing but the standard library, so that it builds in a second, before anything else does.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "reads the repository itself; no code of the database runs here"
)]

mod sanitize;
mod tidy;
mod torture;

use std::process::ExitCode;

/// A command: what to type, what it does, and the function that does it.
struct Command {
    name: &'static str,
    help: &'static str,
    run: fn() -> ExitCode,
}

static COMMANDS: &[Command] = &[
    Command {
        name: "tidy",
        help: "Check floors, bans, unsafe code and machine paths; print sizes",
        run: tidy::run,
    },
    Command { name: "check", help: "Run a fixed share of every attack", run: torture::check },
    Command { name: "torture", help: "Run every attack for a time: --budget 10m", run: torture::torture },
    Command {
        name: "fuzz",
        help: "Run fuzz targets under libFuzzer: [TARGET] --seconds N",
        run: torture::fuzz,
    },
    Command { name: "mutants", help: "Build every deliberate bug and see it found", run: torture::mutants },
    Command { name: "loom", help: "Explore the models of the protocols, or one: [NAME]", run: torture::loom },
    Command {
        name: "sanitize",
        help: "Run the tests where threads meet under a sanitizer: thread|address",
        run: sanitize::run,
    },
    Command { name: "replay", help: "Repeat one case of an attack: --seed N", run: torture::replay },
];

fn main() -> ExitCode {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    match COMMANDS.iter().find(|command| command.name == wanted) {
        Some(command) => (command.run)(),
        None => usage(),
    }
}

fn usage() -> ExitCode {
    eprintln!("usage: cargo xtask COMMAND\n");
    for Command { name, help, .. } in COMMANDS {
        eprintln!("  {name:<8} {help}");
    }
    ExitCode::from(2)
}
