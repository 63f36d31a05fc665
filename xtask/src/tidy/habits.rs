//! Code habits of CONTRIBUTING.md that no lint of Clippy covers.
//!
//! ```text
//!   let (a, b) = (x, y);               two statements
//!   (self.a, self.b) = (x, y);         two statements
//!   option.iter().for_each(f);         if let Some(value) = option { f(value) }
//!   let twice = |x| 2 * x; g(twice)    g(|x| 2 * x)
//!   Some(x) if lock.lock().y == x =>   the lock is taken before the match
//!   cell.get_or_init(f)                get_or_init_for_fork(&cell, f), in the library
//! ```

use std::collections::BTreeSet;

use super::Problem;
use super::code::{Code, group_len_back, last_word, parts};
use super::comments::is_word;
use super::tree::Tree;

type Habit = fn(&Code<'_>, &Options) -> Vec<(usize, String)>;

/// A habit with the reason against it and the replacement.
static HABITS: &[(Habit, &str, &str)] = &[
    (
        tuple_lets,
        "a tuple that only joins statements hides which value goes where",
        "write one `let` for each name",
    ),
    (
        tuple_assignments,
        "a tuple that only joins statements hides which value goes where",
        "write one assignment for each place",
    ),
    (option_loops, "an `Option` is not a collection", "use `if let Some(..)`"),
    (
        single_use_closures,
        "the reader jumps back for one use",
        "write the closure in place, or make it a function",
    ),
    (
        cell_initializations,
        "a child that is forked during the initialization waits for it for ever",
        "use `terrace_sync::get_or_init_for_fork`",
    ),
    (locking_guards, "a match guard must not block or release a lock", "compute the value before the match"),
];

/// Uses of the habits.
pub(super) fn check(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    let codes: Vec<Code<'_>> = tree.sources.iter().map(Code::new).collect();
    let options = Options::new(&codes);
    for code in &codes {
        for (habit, reason, fix) in HABITS {
            problems.extend(habit(code, &options).into_iter().map(|(at, finding)| Problem {
                file: code.source.path.clone(),
                line: code.line(at),
                finding,
                reason: (*reason).into(),
                fix: (*fix).into(),
            }));
        }
    }
    problems
}

/// Names of functions that return an `Option` in each of their definitions.
struct Options {
    functions: BTreeSet<String>,
}

/// Methods of the standard library that return an `Option` (or a `Result`).
static OPTION_METHODS: &[&str] = &[
    "and_then",
    "as_deref",
    "as_mut",
    "as_ref",
    "err",
    "find",
    "first",
    "get",
    "get_mut",
    "last",
    "max_by_key",
    "min_by_key",
    "next",
    "ok",
    "or",
    "or_else",
    "pop",
    "pop_front",
    "position",
    "take",
    "then",
    "then_some",
    "upgrade",
];

/// Methods of the standard library that return an `Option` exactly if the receiver is one.
static KEEPING_METHODS: &[&str] = &["cloned", "copied", "filter", "inspect", "map"];

impl Options {
    fn new(codes: &[Code<'_>]) -> Options {
        let mut functions = BTreeSet::new();
        let mut others = BTreeSet::new();
        for code in codes {
            for at in code.words("fn") {
                let name = code.ident(code.skip_spaces(at + "fn".len())).to_owned();
                let head = &code.text[at..code.function_body(at)];
                let returns_option = head.contains("-> Option<");
                if returns_option {
                    functions.insert(name)
                } else {
                    others.insert(name)
                };
            }
        }
        functions.retain(|name| !others.contains(name));
        Options { functions }
    }

    /// Whether the expression that ends before `at` is an `Option`, as far as names tell.
    fn has_type_option(&self, code: &Code<'_>, at: usize) -> bool {
        let text = code.text[..at].trim_end();
        if text.ends_with(')') {
            let callee = text[..text.len() - group_len_back(text)].trim_end();
            let name = last_word(callee);
            return if KEEPING_METHODS.contains(&name) {
                callee[..callee.len() - name.len()]
                    .strip_suffix('.')
                    .is_some_and(|receiver| self.has_type_option(code, receiver.len()))
            } else {
                self.functions.contains(name) || OPTION_METHODS.contains(&name)
            };
        }
        let name = last_word(text);
        let is_field = text[..text.len() - name.len()].ends_with('.');
        let declaration = text.rfind(&format!("let {name} = ")).filter(|_| !is_field);
        match declaration {
            Some(start) => self.is_option_value(code, start, at),
            None => is_declared_option(&code.text, name),
        }
    }

    /// Whether the `let` at `start` binds an `Option`, if it ends before `at`.
    fn is_option_value(&self, code: &Code<'_>, start: usize, at: usize) -> bool {
        let end = code.statement_end(start);
        let value = &code.text[start..end];
        end < at
            && (value.contains("=> None") || value.contains("{ None }") || self.has_type_option(code, end))
    }
}

/// Whether `text` declares a field or parameter `name` as an `Option`, and none as a collection.
fn is_declared_option(text: &str, name: &str) -> bool {
    let declaration = format!("{name}: ");
    let starts = text.match_indices(&declaration).filter(|(at, _)| !text[..*at].ends_with(is_word));
    let types = || starts.clone().map(|(at, _)| text[at + declaration.len()..].trim_start_matches('&'));
    let is = |text: &str, names: &[&str]| {
        names.iter().any(|name| text.trim_start_matches("mut ").starts_with(name))
    };
    types().any(|text| is(text, &["Option<"])) && !types().any(|text| is(text, COLLECTIONS))
}

static COLLECTIONS: &[&str] =
    &["[", "Vec<", "VecDeque<", "BTreeMap<", "BTreeSet<", "HashMap<", "HashSet<", "Box<[", "Arc<["];

/// `let (a, b) = (x, y);`
fn tuple_lets(code: &Code<'_>, _: &Options) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for at in code.words("let") {
        if matches!(code.word_before(at), "if" | "while") {
            continue;
        }
        let pattern = code.skip_spaces(at + "let".len());
        let Some(names) = code.group(pattern) else { continue };
        let Some(value) = code.value_after(pattern + names.len()) else { continue };
        let Some(values) = code.group(value) else { continue };
        let end = code.skip_spaces(value + values.len());
        let count = parts(names);
        if code.text[end..].starts_with(';') && count >= 2 && parts(values) == count {
            found.push((at, format!("a tuple `let` of {count} names")));
        }
    }
    found
}

/// `(self.a, self.b) = ..;`
fn tuple_assignments(code: &Code<'_>, _: &Options) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (at, _) in code.text.match_indices('(') {
        let starts_statement = matches!(code.char_before(at), None | Some(';' | '{' | '}'))
            || code.text[..at].trim_end().ends_with("=>")
            || code.ends_closure_head(at);
        let Some(places) = code.group(at).filter(|_| starts_statement) else { continue };
        let has_field = places.contains('.') || places.contains('*');
        if parts(places) >= 2 && has_field && code.value_after(at + places.len()).is_some() {
            found.push((at, "a tuple assignment".into()));
        }
    }
    found
}

/// `option.iter().for_each(f)` and `for value in option.iter()`.
fn option_loops(code: &Code<'_>, options: &Options) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for call in [".iter()", ".iter_mut()", ".into_iter()"] {
        for (at, _) in code.text.match_indices(call) {
            let end = code.skip_spaces(at + call.len());
            let is_loop = if code.text[end..].starts_with('{') {
                code.is_loop_source(at)
            } else {
                code.text[end..].starts_with(".for_each(")
            };
            if is_loop && options.has_type_option(code, at) {
                found.push((end, format!("a loop over the `{call}` of an `Option`")));
            }
        }
    }
    found
}

/// `let name = |..| ..;` with one later use of `name` in the block.
fn single_use_closures(code: &Code<'_>, _: &Options) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for at in code.words("let") {
        let start = code.skip_spaces(at + "let".len());
        let name = code.ident(start);
        if name.is_empty() || name == "mut" {
            continue;
        }
        let Some(value) = code.value_after(start + name.len()) else { continue };
        let head = code.text[value..].trim_start_matches("move ");
        if !head.starts_with('|') {
            continue;
        }
        let end = code.statement_end(value);
        let block_end = code.block_end(end);
        let uses = code.words_within(name, end, block_end).count();
        if uses == 1 {
            found.push((at, format!("the closure `{name}` has one use")));
        }
    }
    found
}

/// Calls that block or release a lock.
static LOCKING: &[&str] = &[".lock(", ".wait(", ".wait_", ".join(", "unlocked(", "drop("];

/// `pattern if value.lock() =>`
fn locking_guards(code: &Code<'_>, _: &Options) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (at, _) in code.text.match_indices("=>") {
        let Some(guard) = code.guard_before(at) else { continue };
        if let Some(call) = LOCKING.iter().find(|call| code.text[guard..at].contains(**call)) {
            found.push((guard, format!("a match guard that calls `{}`", call.trim_matches(['.', '(']))));
        }
    }
    found
}

/// Code that runs in the processes of users, which may fork.
const LIBRARY: &[&str] = &[
    "crates/terrace/src/",
    "crates/terrace-env/src/",
    "crates/terrace-format/src/",
    "crates/terrace-capi/src/",
];

/// Files in which no child can need a cell during its initialization.
const NOT_IN_CHILD: &[&str] = &[
    // The thread that forks initializes it.
    "crates/terrace-env/src/posix/lock_owner.rs",
    // A mutant.
    "crates/terrace/src/table/mapped_blocks.rs",
    // `DB::Open` has not returned yet.
    "crates/terrace-capi/src/cxx_abi/callbacks/logger.rs",
];

/// `cell.get_or_init(..)` of a `OnceLock` in the library.
fn cell_initializations(code: &Code<'_>, _: &Options) -> Vec<(usize, String)> {
    let path = &code.source.path;
    let is_in = |folders: &[&str]| folders.iter().any(|folder| path.starts_with(folder));
    if !is_in(LIBRARY) || is_in(NOT_IN_CHILD) {
        return Vec::new();
    }
    let hits = code.text.match_indices(".get_or_init(");
    hits.map(|(at, _)| (at, "`get_or_init` of a cell".into())).collect()
}

#[cfg(test)]
mod tests {
    use super::super::expect;
    use super::*;

    #[track_caller]
    fn found(code: &str, problems: &[&str]) {
        let lines: Vec<String> = problems.iter().map(|problem| format!("a.rs:1: {problem}")).collect();
        expect(check, &[("a.rs", code)], &lines.iter().map(String::as_str).collect::<Vec<_>>());
    }

    #[test]
    fn tuple_let() {
        found("let (a, mut b) = (f(1, 2), [3, 4]);", &["a tuple `let` of 2 names"]);
        found("let (a, b): (u8, u8) = (1, 2);", &["a tuple `let` of 2 names"]);
    }

    #[test]
    fn lets_that_take_a_tuple_apart() {
        found("let (a, b) = f(1, 2); let (c, d) = (a, b).swap(); let (x,) = (1,);", &[]);
        found("if let (Some(a), Some(b)) = (x, y) { } let (Some(a), b) = (x, y) else { return };", &[]);
    }

    #[test]
    fn cell_initialization_in_the_library() {
        let code = "fn f(a: &OnceLock<A>) -> &A { a.get_or_init(A::new) }";
        let problem = "crates/terrace/src/a.rs:1: `get_or_init` of a cell";
        expect(check, &[("crates/terrace/src/a.rs", code)], &[problem]);
        found(code, &[]);
    }

    #[test]
    fn tuple_assignment() {
        found("{ (self.a, self.b) = (1, 2); }", &["a tuple assignment"]);
        found("f(|d| (d.a, d.b) = (1, 2));", &["a tuple assignment"]);
        found("match a { 1 => (d.a, d.b) = (1, 2), }", &["a tuple assignment"]);
    }

    #[test]
    fn tuples_that_are_no_assignment() {
        found("(a, b) = f(); let (a, b) = f(); (a.b == c, d.e)", &[]);
    }

    #[test]
    fn loop_over_an_option() {
        let problem = ["a loop over the `.iter()` of an `Option`"];
        found("struct A { b: Option<C> } fn f(a: A) { a.b.iter().for_each(|b| g(b)); }", &problem);
        found("fn h(a: &[A]) -> Option<B> {} fn f() { h(a).iter().for_each(g); }", &problem);
        found("fn h() -> Option<B> {} fn f() { let b = h(); b.iter().for_each(g); }", &problem);
        found("fn f() { let b = match c { 1 => Some(2), _ => None }; b.iter().for_each(g); }", &problem);
        found("fn f(b: &Option<C>) { for c in b.iter() { g(c) } }", &problem);
        found("fn f() { a.find(|a| a.b).map(h).iter().for_each(g); }", &problem);
    }

    #[test]
    fn loop_over_a_collection() {
        found(
            "struct A { b: Vec<C> } fn f(a: A) { a.b.iter().for_each(|b| g(b)); h().iter().for_each(g); }",
            &[],
        );
    }

    #[test]
    fn closure_with_one_use() {
        found("{ let twice = |x| { 2 * x }; g(twice); }", &["the closure `twice` has one use"]);
        found("{ let go: &dyn Fn() = move || f(); go() }", &["the closure `go` has one use"]);
        found("{ let go = move || f(); go() } go()", &["the closure `go` has one use"]);
    }

    #[test]
    fn closure_with_two_uses() {
        found("{ let twice = |x| 2 * x; twice(1) + twice(2) }", &[]);
        found("{ let either = a | b; f(either) }", &[]);
    }

    #[test]
    fn guard_that_locks() {
        found("match a { Some(x) if s.lock().y == x => 1, _ => 2 }", &["a match guard that calls `lock`"]);
        found("match a { Some(x) if x > 1 => s.lock().y, _ => s.lock().z }", &[]);
    }
}
