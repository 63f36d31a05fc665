//! What stays in the rooms that may have it: the world, locks, prints; and panics without a reason.

use super::Problem;
use super::paths::Path;
use super::source::Source;
use super::tree::Tree;

/// Things that product code does not name, but for some rooms.
struct Ban {
    /// Paths; one stands for everything below it, and may come without its `std::`.
    paths: &'static [&'static str],
    why: &'static str,
    fix: &'static str,
    /// Where it does not hold: the start of a file's path, and the reason.
    rooms: &'static [(&'static str, &'static str)],
}

const ENV: (&str, &str) = ("crates/terrace-env/src/", "it is the room for that");
const BENCH: (&str, &str) = ("crates/terrace-bench/", "measures the world itself");
const BENCH_COMMAND: (&str, &str) =
    ("crates/terrace-cli/src/command/bench", "makes directories to measure in, and keeps what came of it");

static BANS: &[Ban] = &[
    Ban {
        paths: &["std::fs", "std::os::unix::fs", "rustix::fs", "libc", "memmap2"],
        why: "crash and fault tests are honest only while files have one door",
        fix: "use terrace_env::FileSystem",
        rooms: &[
            ENV,
            BENCH,
            BENCH_COMMAND,
            ("crates/terrace-capi/src/", "allocates what a C program frees"),
            ("crates/terrace-capi/build.rs", "lists what to compile"),
            ("crates/terrace-cli/src/input.rs", "opens the text files that a user names"),
            (
                "crates/terrace-cli/src/inspect/",
                "decodes a single file, which need not be part of a database",
            ),
        ],
    },
    Ban {
        paths: &["std::time::Instant", "std::time::SystemTime", "std::thread::sleep"],
        why: "tests with a clock of their own are honest only while time has one door",
        fix: "use terrace_env::Clock",
        rooms: &[ENV, BENCH, BENCH_COMMAND],
    },
    Ban {
        paths: &["std::thread::spawn", "std::thread::scope", "std::thread::Builder"],
        why: "a seed replays exactly only while threads have one door",
        fix: "use terrace_env::Scheduler",
        rooms: &[ENV, BENCH],
    },
    Ban {
        paths: &["rand", "fastrand", "getrandom", "std::hash::RandomState", "rustix::rand"],
        why: "a seed replays exactly only while randomness has one door",
        fix: "use terrace_env::Random",
        rooms: &[ENV],
    },
    Ban {
        paths: &["std::net"],
        why: "a storage engine talks to nobody",
        fix: "leave it to the server",
        rooms: &[("crates/terrace-server/src/", "it is the server")],
    },
    Ban {
        paths: &["parking_lot", "std::sync::Mutex", "std::sync::RwLock", "std::sync::Condvar"],
        why: "a model checker can take the place of locks only while they have one door",
        fix: "use the crate `terrace-sync`",
        rooms: &[ENV, BENCH, ("crates/terrace-sync/", "it is the room for that")],
    },
    Ban {
        paths: &["print!", "println!", "eprint!", "eprintln!"],
        why: "a library has no terminal",
        fix: "return it, or give it to the Logger",
        rooms: &[
            ("crates/terrace-cli/", "a program"),
            ("crates/terrace-server/", "a program"),
            ("crates/terrace-bench/", "a program"),
            ("crates/terrace/examples/", "programs"),
            ("crates/terrace-capi/build.rs", "cargo listens"),
        ],
    },
    Ban {
        paths: &["todo!", "unimplemented!", "dbg!"],
        why: "it is unfinished",
        fix: "finish it or leave it out",
        rooms: &[],
    },
];

/// The bans of the table, and that the format crate can't have unsafe code.
pub(super) fn check(tree: &Tree) -> Vec<Problem> {
    let mut problems: Vec<Problem> =
        product(tree).flat_map(|source| BANS.iter().flat_map(|ban| banned(ban, source))).collect();
    problems.extend(product(tree).filter_map(missing_forbid));
    problems
}

fn product(tree: &Tree) -> impl Iterator<Item = &Source> {
    tree.sources.iter().filter(|source| source.is_product())
}

fn banned(ban: &'static Ban, source: &Source) -> Vec<Problem> {
    if ban.rooms.iter().any(|(room, _)| source.path.starts_with(room)) {
        return Vec::new();
    }
    let hits = source.product_paths().filter(|path| ban.paths.iter().any(|banned| is_below(path, banned)));
    hits.map(|path| problem(source, path.line, format!("`{}`", path.text), ban.why, ban.fix)).collect()
}

/// Whether `path` is `banned` or something in it. `use std::thread;` is allowed, so `thread::spawn` must be seen;
/// a lone last name (`fs`) would mean too many other things.
fn is_below(path: &Path, banned: &str) -> bool {
    let is_at = |whole: &str| {
        path.text.strip_prefix(whole).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    };
    let short = banned.strip_prefix("std::").filter(|short| short.contains("::"));
    is_at(banned) || short.is_some_and(is_at)
}

const FORMAT_ROOT: &str = "crates/terrace-format/src/lib.rs";

fn missing_forbid(source: &Source) -> Option<Problem> {
    let there = source.lines.iter().any(|line| line.code.contains("#![forbid(unsafe_code)]"));
    (source.path == FORMAT_ROOT && !there).then(|| {
        let why = "decoders of untrusted bytes stay in safe Rust";
        problem(
            source,
            1,
            "no forbid(unsafe_code)".into(),
            why,
            "put #![forbid(unsafe_code)] under the module's doc",
        )
    })
}

/// An `unwrap` or `expect` says beside it why it can't fail.
pub(super) fn stated_invariants(tree: &Tree) -> Vec<Problem> {
    tree.sources
        .iter()
        .filter(|s| {
            !["crates/terrace-races/", "crates/terrace-testkit/", "crates/terrace-torture/"]
                .iter()
                .any(|room| s.path.starts_with(room))
        })
        .flat_map(unstated)
        .collect()
}

fn unstated(source: &Source) -> Vec<Problem> {
    let panics = |code: &str| [".unwrap()", ".expect("].into_iter().find(|call| code.contains(call));
    let calls = (1..).zip(&source.lines).filter_map(|(line, text)| Some((line, panics(&text.code)?)));
    let bare = calls.filter(|(line, _)| !source.is_test(*line) && !source.has_comment_beside(*line));
    let why = "it panics if the reason that it can't is wrong, and no reason is given";
    let fix = "return an error, or state the invariant in a comment on this line or the one above";
    bare.map(|(line, call)| problem(source, line, format!("`{call}`"), why, fix)).collect()
}

fn problem(source: &Source, line: usize, what: String, why: &str, fix: &str) -> Problem {
    Problem { file: source.path.clone(), line, what, why: why.into(), fix: fix.into() }
}

#[cfg(test)]
mod tests {
    use super::super::expect;
    use super::*;

    const DB: &str = "crates/terrace/src/db.rs";

    #[test]
    fn files_through_a_group() {
        expect(
            check,
            &[(DB, "use std::{\n    fs::File,\n    io,\n};")],
            &[&format!("{DB}:2: `std::fs::File`")],
        );
    }

    #[test]
    fn files_in_their_room() {
        expect(check, &[("crates/terrace-env/src/posix.rs", "use std::fs::File;")], &[]);
    }

    #[test]
    fn clock_by_its_last_names() {
        expect(check, &[(DB, "let t = time::Instant::now();")], &[&format!("{DB}:1: `time::Instant::now`")]);
    }

    #[test]
    fn durations_are_no_clock() {
        expect(check, &[(DB, "use std::time::Duration; fs::read(); thread::panicking()")], &[]);
    }

    #[test]
    fn threads() {
        expect(check, &[(DB, "use std::thread;\nthread::spawn(f);")], &[&format!("{DB}:2: `thread::spawn`")]);
    }

    #[test]
    fn names_that_only_begin_alike() {
        expect(check, &[(DB, "random(rand_key, my::rand::f)")], &[]);
    }

    #[test]
    fn locks_outside_of_sync() {
        let expected = format!("{DB}:1: `parking_lot::Mutex`");
        expect(check, &[(DB, "use parking_lot::Mutex;")], &[&expected]);
        expect(check, &[("crates/terrace-sync/src/lib.rs", "use parking_lot::Mutex;")], &[]);
    }

    #[test]
    fn prints_in_a_library_and_in_a_program() {
        expect(check, &[(DB, "println!(\"x\")")], &[&format!("{DB}:1: `println!`")]);
        expect(check, &[("crates/terrace-cli/src/main.rs", "println!(\"x\")")], &[]);
    }

    #[test]
    fn unfinished() {
        expect(check, &[(DB, "fn f() {\n    todo!()\n}")], &[&format!("{DB}:2: `todo!`")]);
    }

    #[test]
    fn in_text_and_in_tests() {
        expect(
            check,
            &[(DB, "// std::fs::File\nf(\"todo!()\");\n#[test]\nfn t() { std::fs::read(); }")],
            &[],
        );
    }

    #[test]
    fn format_without_forbid() {
        expect(check, &[(FORMAT_ROOT, "")], &[&format!("{FORMAT_ROOT}:1: no forbid(unsafe_code)")]);
        expect(check, &[(FORMAT_ROOT, "#![forbid(unsafe_code)]")], &[]);
    }

    #[test]
    fn unwrap_without_a_reason() {
        expect(stated_invariants, &[(DB, "\nx.unwrap();")], &[&format!("{DB}:2: `.unwrap()`")]);
        expect(stated_invariants, &[(DB, "\nx\n    .expect(\"y\");")], &[&format!("{DB}:3: `.expect(`")]);
    }

    #[test]
    fn unwrap_with_a_reason() {
        expect(stated_invariants, &[(DB, "x.unwrap(); // never empty")], &[]);
        expect(stated_invariants, &[(DB, "// Never empty.\nx.expect(\"y\");")], &[]);
    }

    #[test]
    fn unwrap_in_tests() {
        expect(stated_invariants, &[(DB, "#[test]\nfn t() {\n    x.unwrap();\n}")], &[]);
        expect(stated_invariants, &[("crates/terrace/tests/it/main.rs", "x.unwrap()")], &[]);
    }
}
