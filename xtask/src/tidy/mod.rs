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
mod floors;
mod paths;
mod places;
mod sizes;
mod source;
mod split;
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

static CHECKS: &[fn(&Tree) -> Vec<Problem>] =
    &[floors::crates, floors::modules, bans::check, bans::stated_invariants, unsafes::check, places::check];

/// Prints the sizes, then what is wrong. Fails if anything is.
pub(crate) fn run() -> ExitCode {
    let tree = match Tree::read(&root()) {
        Ok(tree) => tree,
        Err(error) => {
            eprintln!("tidy: {error}");
            return ExitCode::FAILURE;
        }
    };
    print!("{}", sizes::report(&tree));
    let problems = problems(&tree);
    for problem in &problems {
        println!("{problem}");
    }
    match problems.len() {
        0 => {
            println!("tidy: nothing to mend in {} files", tree.files.len());
            ExitCode::SUCCESS
        }
        count => {
            println!("tidy: {count} to mend");
            ExitCode::FAILURE
        }
    }
}

fn problems(tree: &Tree) -> Vec<Problem> {
    let mut all: Vec<Problem> = CHECKS.iter().flat_map(|check| check(tree)).collect();
    all.sort();
    all
}

/// What a check says about some files, one line a problem.
#[cfg(test)]
#[track_caller]
fn expect(check: fn(&Tree) -> Vec<Problem>, files: &[(&str, &str)], problems: &[&str]) {
    let found: Vec<String> =
        check(&Tree::of(files)).iter().map(|p| format!("{}:{}: {}", p.file, p.line, p.what)).collect();
    assert_eq!(found, problems);
}
