//! Boundaries inside of `db/`: the allowed imports of its parts.
//!
//! ```text
//!   mod.rs        the handle `Db` and its documentation     may import all
//!   operations    read.rs, write/, background/, ..          components, inner.rs, mod.rs
//!   inner.rs      the shared state and the lock order        components
//!   components/   parts without access to the state         components
//! ```
//!
//! An operation is a file of `db/`, or a folder with all of its files. An operation calls another
//! one only through the methods of `DbInner`. The lock order in `inner.rs` mentions every struct of
//! the crate that has a lock.

use super::Problem;
use super::code::Code;
use super::modules::{Import, Modules};
use super::source::Source;
use super::tree::Tree;

/// The folder that the rules are about.
const DB: &str = "db";
/// Folder of the components.
const COMPONENTS: &str = "components";
/// File of the shared state.
const INNER: &str = "inner";
/// Files that belong to the shared state: guards that hold a reference to it.
static STATE_FILES: &[&str] = &[INNER, "panic_guard"];
/// Types of the shared state, which no component names.
static STATE_TYPES: &[&str] = &["DbInner", "DbState"];
/// Types that `db/mod.rs` may define.
static HANDLE_TYPES: &[&str] = &["Db", "DbHandle"];
/// Part of `db/` that a file belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part<'a> {
    /// `db/mod.rs`.
    Handle,
    /// `db/inner.rs`.
    Inner,
    Component,
    /// A file or folder of `db/`, by its name.
    Operation(&'a str),
}

impl Part<'_> {
    /// The part of the module `module`, or nothing outside of `db/`.
    fn of(module: &str) -> Option<Part<'_>> {
        let mut names = module.split("::");
        (names.next() == Some(DB)).then(|| match names.next() {
            None => Part::Handle,
            Some(name) if STATE_FILES.contains(&name) => Part::Inner,
            Some(COMPONENTS) => Part::Component,
            Some(operation) => Part::Operation(operation),
        })
    }

    /// The table of allowed imports.
    fn may_import(self, used: Part<'_>) -> bool {
        match (self, used) {
            (Part::Handle, _) | (_, Part::Component) => true,
            (Part::Component, _) | (Part::Inner, Part::Handle | Part::Operation(_)) => false,
            (Part::Inner | Part::Operation(_), Part::Inner) | (Part::Operation(_), Part::Handle) => true,
            (Part::Operation(own), Part::Operation(used)) => own == used,
        }
    }

    fn name(self) -> String {
        match self {
            Part::Handle => "the handle".into(),
            Part::Inner => "the shared state".into(),
            Part::Component => "a component".into(),
            Part::Operation(name) => format!("the operation `{name}`"),
        }
    }
}

/// Imports and definitions on the wrong side of a boundary.
pub(super) fn check(tree: &Tree) -> Vec<Problem> {
    let modules = Modules::new(tree);
    let mut problems = Vec::new();
    for (module, source) in modules.iter() {
        let Some(part) = Part::of(module) else { continue };
        problems
            .extend(modules.imports(module).iter().filter_map(|import| wrong_import(part, source, import)));
        problems.extend(match part {
            Part::Component => names_state(source),
            Part::Handle => types_beside_handle(source),
            Part::Inner | Part::Operation(_) => Vec::new(),
        });
    }
    problems.extend(undocumented_locks(&modules));
    problems
}

fn wrong_import(part: Part<'_>, source: &Source, import: &Import) -> Option<Problem> {
    let used = Part::of(&import.module).filter(|used| !part.may_import(*used))?;
    let finding = format!("{} imports {}", part.name(), used.name());
    let fix = match part {
        Part::Component => "pass the value as an argument",
        Part::Inner => "move the type to the shared state or to a component",
        Part::Handle | Part::Operation(_) => "move the type to a component or to the shared state",
    };
    Some(problem(
        source,
        import.line,
        finding,
        "the table in xtask/src/tidy/boundaries.rs does not allow it",
        fix,
    ))
}

fn names_state(source: &Source) -> Vec<Problem> {
    let named = source.product_paths().filter_map(|path| {
        let name = STATE_TYPES.iter().find(|name| path.text.split("::").any(|part| part == **name))?;
        let finding = format!("a component names `{name}`");
        Some(problem(
            source,
            path.line,
            finding,
            "components have no access to the shared state",
            "pass the value as an argument",
        ))
    });
    named.collect()
}

fn types_beside_handle(source: &Source) -> Vec<Problem> {
    let code = Code::new(source);
    let mut problems = Vec::new();
    for keyword in ["struct", "enum", "union", "trait", "type"] {
        for at in code.words(keyword).filter(|at| !source.is_test(code.line(*at))) {
            let name = code.ident(code.skip_spaces(at + keyword.len()));
            if !name.is_empty() && !HANDLE_TYPES.contains(&name) {
                let finding = format!("db/mod.rs defines `{name}`");
                let reason = "db/mod.rs contains the handle and its documentation, and nothing else";
                problems.push(problem(
                    source,
                    code.line(at),
                    finding,
                    reason,
                    "move the type to the file of its idea",
                ));
            }
        }
    }
    problems
}

/// Structs of the crate that declare a lock, without a mention in the lock order of `db/inner.rs`.
fn undocumented_locks(modules: &Modules<'_>) -> Vec<Problem> {
    let inner = format!("{DB}::{INNER}");
    let Some((_, inner)) = modules.iter().find(|(module, _)| *module == inner) else { return Vec::new() };
    let order: String = inner.lines.iter().map(|line| line.comment.as_str()).collect::<Vec<_>>().join("\n");
    let mut problems = Vec::new();
    for (_, source) in modules.iter().filter(|(_, source)| source.path != inner.path) {
        for (owner, line) in lock_owners(&Code::new(source)) {
            if !order.split(|c: char| !c.is_alphanumeric()).any(|word| word == owner) {
                let reason = "the lock order in db/inner.rs does not mention it";
                let fix = "say there which locks a thread may hold when it takes this one";
                problems.push(problem(source, line, format!("`{owner}` has a lock"), reason, fix));
            }
        }
    }
    problems
}

/// Names of the structs that have a lock as a field.
fn lock_owners(code: &Code<'_>) -> Vec<(String, usize)> {
    let mut owners: Vec<(String, usize)> = Vec::new();
    for lock in ["Mutex<", "RwLock<"] {
        for (at, _) in code.text.match_indices(lock) {
            let line = code.line(at);
            if code.text[..at].ends_with(|c: char| c.is_alphanumeric()) || code.source.is_test(line) {
                continue;
            }
            if let Some(owner) = enclosing_struct(&code.text[..at])
                && !owners.iter().any(|(name, _)| *name == owner)
            {
                owners.push((owner, line));
            }
        }
    }
    owners
}

/// Name of the struct that contains the end of `text`.
fn enclosing_struct(text: &str) -> Option<String> {
    let start =
        text.rfind("struct ").filter(|start| !text[..*start].ends_with(|c: char| c.is_alphanumeric()))?;
    let body = &text[start + "struct ".len()..];
    let count = |mark: &[char]| body.matches(mark).count();
    let is_open = count(&['{', '(']) > count(&['}', ')']);
    let name = body.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    is_open.then(|| name.to_owned())
}

fn problem(source: &Source, line: usize, finding: String, reason: &str, fix: &str) -> Problem {
    Problem { file: source.path.clone(), line, finding, reason: reason.into(), fix: fix.into() }
}

#[cfg(test)]
mod tests {
    use super::super::expect;
    use super::*;

    const HANDLE: &str = "crates/terrace/src/db/mod.rs";
    const STATE: &str = "crates/terrace/src/db/inner.rs";
    const WAL: &str = "crates/terrace/src/db/components/wal.rs";
    const READ: &str = "crates/terrace/src/db/read.rs";
    const WRITE: &str = "crates/terrace/src/db/write/mod.rs";
    const STALL: &str = "crates/terrace/src/db/write/stall.rs";

    #[track_caller]
    fn found(path: &str, text: &str, problems: &[&str]) {
        let others = [HANDLE, STATE, WAL, READ, WRITE, STALL].map(|path| (path, ""));
        let mut files: Vec<(&str, &str)> = others.into_iter().filter(|(other, _)| *other != path).collect();
        files.push((path, text));
        let lines: Vec<String> = problems.iter().map(|problem| format!("{path}:1: {problem}")).collect();
        expect(check, &files, &lines.iter().map(String::as_str).collect::<Vec<_>>());
    }

    #[test]
    fn component_that_knows_the_state() {
        let problems = ["a component imports the shared state", "a component names `DbInner`"];
        found(WAL, "use crate::db::inner::DbInner;", &problems);
        found(WAL, "fn f(db: &DbState) {}", &["a component names `DbState`"]);
    }

    #[test]
    fn component_that_knows_an_operation() {
        found(WAL, "use crate::db::write::Commit;", &["a component imports the operation `write`"]);
    }

    #[test]
    fn operations() {
        found(
            READ,
            "use super::write::stall::Stall;",
            &["the operation `read` imports the operation `write`"],
        );
        found(READ, "use super::{inner::DbInner, components::wal::Wal, Db};", &[]);
        found(STALL, "use super::Commit; use crate::db::write::Batch;", &[]);
    }

    #[test]
    fn state() {
        found(STATE, "use super::read::Get;", &["the shared state imports the operation `read`"]);
        found(STATE, "use super::components::wal::Wal; struct DbInner { state: Mutex<DbState> }", &[]);
    }

    #[test]
    fn handle() {
        found(HANDLE, "use self::write::Commit; pub struct Db(Arc<DbInner>);", &[]);
        found(HANDLE, "pub struct Db; enum Stage {}", &["db/mod.rs defines `Stage`"]);
    }

    #[test]
    fn locks_without_a_place_in_the_order() {
        let wal = "struct Wal {\n    name: u8,\n    file: Mutex<File>,\n}";
        let problem = format!("{WAL}:3: `Wal` has a lock");
        expect(check, &[(STATE, "// DbState"), (WAL, wal)], &[&problem]);
        expect(check, &[(STATE, "// `Wal::file` is taken last."), (WAL, wal)], &[]);
        let read = "struct Queue(\n    RwLock<u8>,\n);\nfn f() { Mutex::new(1); }";
        expect(check, &[(STATE, ""), (READ, read)], &[&format!("{READ}:2: `Queue` has a lock")]);
        expect(check, &[(STATE, ""), (WAL, "fn f(a: &Mutex<u8>) {}")], &[]);
    }
}
