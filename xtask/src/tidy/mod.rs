//! `cargo xtask tidy`: rules of this repository that neither the compiler nor Clippy checks.
//!
//! ```text
//!   tree                every text file; Rust files split into code, comments and paths
//!    |
//!    |  structure
//!    +-- layers         a crate or module imports only lower layers
//!    +-- boundaries     components, shared state and operations of db/
//!    +-- cycles         no import cycle among the files of a folder
//!    +-- bans           files, clocks, threads, locks and prints stay in their folders
//!    +-- unsafe_code    unsafe code stays in its files
//!    +-- publish        a published crate has a complete manifest
//!    +-- licences       THIRD-PARTY.md agrees with Cargo.lock; installed files state their licence
//!    |
//!    |  names and prose
//!    +-- names          one definition for each type and constant of the engine crates
//!    +-- glossary       file names consist of terms of docs/glossary.md
//!    +-- phrases        banned phrases
//!    +-- prose          frequent pronouns, starts of doc comments, wide comments
//!    +-- machine_paths  no path of one machine
//!    |
//!    |  code
//!    +-- habits         tuple `let`, loops over an `Option`, closures with one use
//!    +-- sizes          lines of a file
//!    +-- functions      lines of a function
//! ```
//!
//! The checks read text and know no types, so a renaming import hides a path from them. Clippy's
//! lists of disallowed types and methods (`clippy.toml`) find most of these imports.

mod bans;
mod boundaries;
mod code;
mod comments;
mod cycles;
mod functions;
mod glossary;
mod habits;
mod layers;
mod licences;
mod machine_paths;
mod modules;
mod names;
mod paths;
mod phrases;
mod prose;
mod publish;
mod sizes;
mod source;
mod text;
mod tree;
mod unsafe_code;

use std::fmt;
use std::process::ExitCode;

use tree::Tree;
pub(crate) use tree::root;

/// A violation of a rule: its place, the finding, the reason for the rule, and the repair.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Problem {
    file: String,
    line: usize,
    finding: String,
    reason: String,
    fix: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}; {}", self.file, self.line, self.finding, self.reason, self.fix)
    }
}

/// A check: its name in the summary and its function.
struct Check {
    name: &'static str,
    find: fn(&Tree) -> Vec<Problem>,
}

const fn check(name: &'static str, find: fn(&Tree) -> Vec<Problem>) -> Check {
    Check { name, find }
}

/// Checks that fail the build.
static CHECKS: &[Check] = &[
    check("crates", layers::crates),
    check("modules", layers::modules),
    check("stale modules", layers::stale_modules),
    check("bans", bans::check),
    check("invariants", bans::stated_invariants),
    check("unsafe", unsafe_code::check),
    check("paths", machine_paths::check),
    check("phrases", phrases::check),
    check("frequencies", prose::frequencies),
    check("doc starts", prose::doc_starts),
    check("columns", prose::columns),
    check("habits", habits::check),
    check("file size", sizes::check),
    check("function size", functions::check),
    check("names", names::check),
    check("glossary", glossary::check),
    check("boundaries", boundaries::check),
    check("cycles", cycles::check),
    check("publish", publish::check),
    check("licences", licences::check),
];

/// `cargo xtask tidy`: prints figures, then the problems. Fails if there is a problem.
///
/// A path prefix limits the files. `--uses` lists each counted word and each long sentence.
pub(crate) fn run() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(2).collect();
    let (flags, names): (Vec<&str>, Vec<&str>) =
        arguments.iter().map(String::as_str).partition(|argument| argument.starts_with("--"));
    if let Some(flag) = flags.iter().find(|flag| **flag != "--uses") {
        eprintln!("tidy: unknown flag {flag}; usage: cargo xtask tidy [--uses] [PATH-PREFIX]");
        return ExitCode::from(2);
    }
    let tree = match Tree::read(&root()) {
        Ok(tree) => tree,
        Err(error) => {
            eprintln!("tidy: {error}");
            return ExitCode::FAILURE;
        }
    };
    let extra = if flags.contains(&"--uses") { prose::uses(&tree) } else { Vec::new() };
    report(&tree, extra, names.first().copied().unwrap_or_default())
}

/// Prints the figures and the problems of the files with a path that starts with `prefix`.
fn report(tree: &Tree, extra: Vec<Problem>, prefix: &str) -> ExitCode {
    if prefix.is_empty() {
        print!("{}{}", sizes::report(tree), functions::report(tree));
        print!("{}{}", cycles::report(), prose::report(tree));
    } else {
        print!("{}", prose::report(&tree.below(prefix)));
    }
    let mut summary = Vec::new();
    let mut all = extra;
    all.retain(|problem| problem.file.starts_with(prefix));
    for check in CHECKS {
        let mut found = (check.find)(tree);
        found.retain(|problem| problem.file.starts_with(prefix));
        summary.push(format!("{} {}", check.name, found.len()));
        all.extend(found);
    }
    all.sort();
    for problem in &all {
        println!("{problem}");
    }
    println!("tidy: {}", summary.join(", "));
    println!(
        "tidy: {} problems in {} files",
        all.len(),
        tree.files.iter().filter(|f| f.path.starts_with(prefix)).count()
    );
    if all.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Compares the problems that a check finds in some files with the expected lines.
#[cfg(test)]
#[track_caller]
fn expect(check: fn(&Tree) -> Vec<Problem>, files: &[(&str, &str)], problems: &[&str]) {
    let found: Vec<String> =
        check(&Tree::of(files)).iter().map(|p| format!("{}:{}: {}", p.file, p.line, p.finding)).collect();
    assert_eq!(found, problems);
}
