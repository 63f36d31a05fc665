//! One name, one meaning: no type and no constant of the engine crates is defined twice.
//!
//! Definitions at the level of a module count, tests left out. Associated types and constants, and
//! those of a function body, have an owner that tells them apart.

use std::collections::BTreeMap;

use super::Problem;
use super::code::{Code, last_word};
use super::tree::Tree;

/// Source folders of the crates that share one vocabulary.
pub(super) static ENGINE: &[&str] = &[
    "crates/terrace-sync/src/",
    "crates/terrace-env/src/",
    "crates/terrace-format/src/",
    "crates/terrace/src/",
];

/// Names that may have several definitions, with the reason.
static SHARED: &[(&str, &str)] = &[
    ("Error", "by Rust's convention, the error type of each crate"),
    ("Result", "by Rust's convention, the result type of each crate"),
    ("LoomCells", "cfg alternatives: with a model checker, and without"),
    ("ForkLocks", "cfg alternatives: with a model checker, and without"),
    ("ForkParticipant", "cfg alternatives: with a model checker, and without"),
    ("ForkRank", "cfg alternatives: with a model checker, and without"),
    ("ForkRegistration", "cfg alternatives: with a model checker, and without"),
    ("Mutex", "cfg alternatives: with a model checker, and without"),
    ("MutexGuard", "cfg alternatives: with a model checker, and without"),
    ("Condvar", "cfg alternatives: with a model checker, and without"),
    ("UNREADABLE", "cfg alternatives: the POSIX family, and Windows"),
    ("NO_DESCRIPTORS", "cfg alternatives: the POSIX family, and Windows"),
];

static KEYWORDS: &[&str] = &["struct", "enum", "union", "trait", "type", "const", "static"];

struct Definition {
    name: String,
    file: String,
    line: usize,
}

/// Names with more than one definition.
pub(super) fn check(tree: &Tree) -> Vec<Problem> {
    let mut by_name = BTreeMap::<String, Vec<Definition>>::new();
    for source in
        tree.sources.iter().filter(|source| ENGINE.iter().any(|crate_| source.path.starts_with(crate_)))
    {
        for definition in definitions(&Code::new(source)) {
            by_name.entry(definition.name.clone()).or_default().push(definition);
        }
    }
    by_name.retain(|name, all| all.len() > 1 && !SHARED.iter().any(|(shared, _)| shared == name));
    by_name.into_values().flat_map(|all| repeated(&all)).collect()
}

/// A problem for each definition but the first.
fn repeated(all: &[Definition]) -> Vec<Problem> {
    let Some((first, others)) = all.split_first() else { return Vec::new() };
    let problems = others.iter().map(|other| Problem {
        file: other.file.clone(),
        line: other.line,
        finding: format!("a second definition of `{}`", other.name),
        reason: format!("{}:{} defines it too", first.file, first.line),
        fix: REPAIR.into(),
    });
    problems.collect()
}

const REPAIR: &str =
    "give each a name of its own; for cfg alternatives, add the name to SHARED in xtask/src/tidy/names.rs";

fn definitions(code: &Code<'_>) -> Vec<Definition> {
    let mut found = Vec::new();
    for keyword in KEYWORDS {
        for at in code.words(keyword) {
            let line = code.line(at);
            let name = code.ident(code.skip_spaces(at + keyword.len()));
            if is_definition(code, at, name) && !code.source.is_test(line) && is_at_module_level(code, at) {
                found.push(Definition { name: name.to_owned(), file: code.source.path.clone(), line });
            }
        }
    }
    found
}

/// Whether the keyword at `at` begins an item: not `*const T`, `<const N: usize>` or `const fn`.
fn is_definition(code: &Code<'_>, at: usize, name: &str) -> bool {
    let is_item = matches!(code.char_before(at), None | Some(';' | '{' | '}' | ']' | ')'))
        || matches!(code.word_before(at), "pub" | "unsafe" | "auto");
    is_item && name.starts_with(|c: char| c.is_ascii_uppercase())
}

/// Whether all blocks around `at` are modules.
fn is_at_module_level(code: &Code<'_>, at: usize) -> bool {
    let mut open = Vec::new();
    for (brace, c) in code.text[..at].char_indices() {
        match c {
            '{' => open.push(brace),
            '}' => {
                open.pop();
            }
            _ => {}
        }
    }
    open.iter().all(|brace| {
        let head = code.text[..*brace].trim_end();
        let name = last_word(head);
        last_word(&head[..head.len() - name.len()]) == "mod"
    })
}

#[cfg(test)]
mod tests {
    use super::super::expect;
    use super::*;

    const A: &str = "crates/terrace/src/a.rs";
    const B: &str = "crates/terrace-env/src/b.rs";

    #[track_caller]
    fn found(a: &str, b: &str, name: Option<&str>) {
        let problem = name.map(|name| format!("{A}:1: a second definition of `{name}`"));
        expect(check, &[(B, b), (A, a)], &problem.as_deref().into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn types_of_two_crates() {
        found("pub(crate) struct Place(u8);", "enum Place {}", Some("Place"));
        found("pub trait Place {}", "#[derive(Debug)]\npub type Place = u8;", Some("Place"));
    }

    #[test]
    fn constants() {
        found("const MARK: u8 = 1;", "pub static MARK: u8 = 2;", Some("MARK"));
    }

    #[test]
    fn names_with_an_owner() {
        found(
            "impl A { const MARK: u8 = 1; type Item = u8; }",
            "trait B { type Item; const MARK: u8; }",
            None,
        );
        found(
            "fn f<const N: usize>(a: *const A, b: &'static A) { const C: u8 = 1; }",
            "const C: u8 = 1;",
            None,
        );
    }

    #[test]
    fn tests_and_other_crates() {
        found("struct A;\n#[cfg(test)]\nmod tests { struct B; }", "struct B;", None);
        let tool = "crates/terrace-bench/src/a.rs";
        expect(check, &[(tool, "struct A;"), (A, "struct A;")], &[]);
    }

    #[test]
    fn shared_by_convention() {
        found("pub enum Error {}", "pub struct Error;", None);
    }
}
