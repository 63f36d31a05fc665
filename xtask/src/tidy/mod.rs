//! What the compiler and clippy don't check about this repository.
//!
//! ```text
//!   tree      every text file, every Rust file split into code, comments and paths
//!    |
//!    +-- floors    a room imports only rooms of lower floors
//!    +-- bans      the world, panics and prints stay in the rooms that may have them
//!    +-- unsafes   unsafe code stays in the rooms that may have it
//!    +-- places    no path of somebody's machine
//!    +-- sizes     lines per room: printed, never a failure
//! ```
//!
//! It reads text and knows no types: a path hidden behind a renaming import gets past it. Clippy's lists of
//! disallowed types and methods (`clippy.toml`) stop most of those; a reviewer, the rest.

mod bans;
mod boundaries;
mod code;
mod cycles;
mod floors;
mod functions;
mod glossary;
mod habits;
mod modules;
mod names;
mod paths;
mod phrases;
mod places;
mod prose;
mod publish;
mod sizes;
mod source;
mod split;
mod text;
mod tree;
mod unsafes;

use std::fmt;
use std::process::ExitCode;

use tree::Tree;
pub(crate) use tree::root;

/// Something to mend: where, what it is, why it is wrong, and what to do.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Problem {
    file: String,
    line: usize,
    what: String,
    why: String,
    fix: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}; {}", self.file, self.line, self.what, self.why, self.fix)
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
    check("crates", floors::crates),
    check("modules", floors::modules),
    check("bans", bans::check),
    check("invariants", bans::stated_invariants),
    check("unsafe", unsafes::check),
    check("paths", places::check),
];

/// Checks that `--all` adds. The tree does not satisfy them yet.
static PENDING: &[Check] = &[
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
];

/// `cargo xtask tidy`: prints figures, then the problems. Fails if there is a problem.
///
/// With `--all`, the pending checks run too. A path prefix limits the files, `--uses` lists each
/// counted word and each long sentence, and the name of a check leaves out the others.
pub(crate) fn run() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(2).collect();
    let (flags, names): (Vec<&str>, Vec<&str>) =
        arguments.iter().map(String::as_str).partition(|argument| argument.starts_with("--"));
    if let Some(flag) = flags.iter().find(|flag| !matches!(**flag, "--all" | "--uses")) {
        eprintln!("tidy: unknown flag {flag}; usage: cargo xtask tidy [--all] [--uses] [PATH-PREFIX]");
        return ExitCode::from(2);
    }
    let tree = match Tree::read(&root()) {
        Ok(tree) => tree,
        Err(error) => {
            eprintln!("tidy: {error}");
            return ExitCode::FAILURE;
        }
    };
    let pending = if flags.contains(&"--all") { PENDING } else { &[] };
    let checks: Vec<&Check> = CHECKS.iter().chain(pending).collect();
    let extra = if flags.contains(&"--uses") { prose::uses(&tree) } else { Vec::new() };
    report(&tree, &checks, extra, names.first().copied().unwrap_or_default())
}

/// Prints the figures and the problems of the files whose path starts with `prefix`.
fn report(tree: &Tree, checks: &[&Check], extra: Vec<Problem>, prefix: &str) -> ExitCode {
    if prefix.is_empty() {
        print!("{}{}{}", sizes::report(tree), functions::report(tree), prose::report(tree));
    } else {
        print!("{}", prose::report(&tree.below(prefix)));
    }
    let mut summary = Vec::new();
    let mut all = extra;
    for check in checks {
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
        check(&Tree::of(files)).iter().map(|p| format!("{}:{}: {}", p.file, p.line, p.what)).collect();
    assert_eq!(found, problems);
}
