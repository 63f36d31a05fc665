//! Files, clocks, threads, locks and prints stay in the folders that may use them, and every panic
//! has a stated reason.

use super::Problem;
use super::paths::Path;
use super::source::Source;
use super::tree::Tree;

/// Paths that product code must not name outside of some folders.
struct Ban {
    /// Paths. Each includes everything below it, with or without the leading `std::`.
    paths: &'static [&'static str],
    reason: &'static str,
    fix: &'static str,
    /// Exceptions: the start of a file's path, and the reason.
    except: &'static [(&'static str, &'static str)],
}

const ENV: (&str, &str) = ("crates/terrace-env/src/", "implements it");
const BENCH: (&str, &str) = ("crates/terrace-bench/", "measures the system itself");
const BENCH_COMMAND: (&str, &str) =
    ("crates/terrace-cli/src/command/bench", "measures the system itself, and stores its results");

static BANS: &[Ban] = &[
    Ban {
        paths: &["std::fs", "std::os::unix::fs", "rustix::fs", "libc", "memmap2"],
        reason: "crash and fault tests cover only the files of one interface",
        fix: "use terrace_env::FileSystem",
        except: &[
            ENV,
            BENCH,
            BENCH_COMMAND,
            ("crates/terrace-capi/src/", "allocates what a C program frees"),
            ("crates/terrace-capi/build.rs", "lists what to compile"),
            ("crates/terrace-cli/build.rs", "copies a library of the compiler"),
            ("crates/terrace-server/src/unix_sockets/unix.rs", "distinguishes sockets from other files"),
            ("crates/terrace-cli/src/input.rs", "opens the text files that a user names"),
            ("crates/terrace-cli/src/command/man.rs", "writes pages to a directory that a user names"),
            (
                "crates/terrace-cli/src/file_dump/",
                "decodes a single file, which need not be part of a database",
            ),
        ],
    },
    Ban {
        paths: &["std::time::Instant", "std::time::SystemTime", "std::thread::sleep"],
        reason: "tests with a simulated clock cover only the time of one interface",
        fix: "use terrace_env::Clock",
        except: &[ENV, BENCH, BENCH_COMMAND],
    },
    Ban {
        paths: &["std::thread::spawn", "std::thread::scope", "std::thread::Builder"],
        reason: "a seed repeats a run only if one interface starts all threads",
        fix: "use terrace_env::Scheduler",
        except: &[
            ENV,
            BENCH,
            BENCH_COMMAND,
            ("crates/terrace-server/src/threads.rs", "starts threads that live as long as the server"),
        ],
    },
    Ban {
        paths: &["rand", "fastrand", "getrandom", "std::hash::RandomState", "rustix::rand"],
        reason: "a seed repeats a run only if one interface has all randomness",
        fix: "use terrace_env::Random",
        except: &[ENV],
    },
    Ban {
        paths: &["std::net"],
        reason: "a storage engine has no network",
        fix: "leave it to the server",
        except: &[
            ("crates/terrace-server/src/", "it is the server"),
            ("crates/terrace-cli/src/command/demo.rs", "finds used ports before it starts servers"),
        ],
    },
    Ban {
        paths: &["parking_lot", "std::sync::Mutex", "std::sync::RwLock", "std::sync::Condvar"],
        reason: "a model checker replaces the locks of one interface",
        fix: "use the crate `terrace-sync`",
        except: &[ENV, BENCH, ("crates/terrace-sync/", "implements it")],
    },
    Ban {
        paths: &["print!", "println!", "eprint!", "eprintln!"],
        reason: "a library has no terminal",
        fix: "return the text, or pass it to the Logger",
        except: &[
            ("crates/terrace-cli/", "a program"),
            ("crates/terrace-server/", "a program"),
            ("crates/terrace-bench/", "a program"),
            ("crates/terrace/examples/", "programs"),
            ("crates/terrace-capi/build.rs", "talks to cargo"),
        ],
    },
    Ban {
        paths: &["todo!", "unimplemented!", "dbg!"],
        reason: "it is unfinished",
        fix: "finish it or leave it out",
        except: &[],
    },
];

/// Uses of banned paths, and the missing `forbid(unsafe_code)` of the format crate.
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
    if ban.except.iter().any(|(prefix, _)| source.path.starts_with(prefix)) {
        return Vec::new();
    }
    let hits = source.product_paths().filter(|path| ban.paths.iter().any(|banned| is_below(path, banned)));
    hits.map(|path| problem(source, path.line, format!("`{}`", path.text), ban.reason, ban.fix)).collect()
}

/// Whether `path` is `banned` or an item in it. `use std::thread;` is allowed, so `thread::spawn`
/// is a hit. A single last name (`fs`) has too many other meanings.
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
        let reason = "decoders of untrusted bytes stay in safe Rust";
        problem(
            source,
            1,
            "no forbid(unsafe_code)".into(),
            reason,
            "put #![forbid(unsafe_code)] below the module's documentation",
        )
    })
}

/// Calls of `unwrap` and `expect` without a comment that says why they can't fail.
pub(super) fn stated_invariants(tree: &Tree) -> Vec<Problem> {
    tree.sources
        .iter()
        .filter(|s| {
            !["crates/terrace-linearizability/", "crates/terrace-testkit/", "crates/terrace-torture/"]
                .iter()
                .any(|tool| s.path.starts_with(tool))
        })
        .flat_map(unstated)
        .collect()
}

/// The call in `code` that panics on `None` or an error.
fn panicking_call(code: &str) -> Option<&'static str> {
    [".unwrap()", ".expect("].into_iter().find(|call| code.contains(call))
}

fn unstated(source: &Source) -> Vec<Problem> {
    let calls = (1..).zip(&source.lines).filter_map(|(line, text)| Some((line, panicking_call(&text.code)?)));
    let bare = calls.filter(|(line, _)| !source.is_test(*line) && !source.has_comment_beside(*line));
    let reason = "it may panic, and no comment says why it can't";
    let fix = "return an error, or state the invariant in a comment on this line or the one above";
    bare.map(|(line, call)| problem(source, line, format!("`{call}`"), reason, fix)).collect()
}

fn problem(source: &Source, line: usize, finding: String, reason: &str, fix: &str) -> Problem {
    Problem { file: source.path.clone(), line, finding, reason: reason.into(), fix: fix.into() }
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
    fn files_in_their_folder() {
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
