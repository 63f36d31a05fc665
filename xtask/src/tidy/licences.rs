//! Licences: the list of other projects' code agrees with `Cargo.lock`, and files that users copy
//! state their licence.
//!
//! `.ci/notices --check` also compares the indirect dependencies, which needs Cargo.

use std::collections::BTreeSet;

use super::Problem;
use super::tree::{File, Tree};

/// The generated list.
const LIST: &str = "THIRD-PARTY.md";

/// Directories of the crates that the libraries, the program and the bindings are built from.
const ROOTS: &[&str] = &["crates/terrace-capi", "crates/terrace-cli", "bindings/python"];

/// Folders whose files users install or compile, and the licence that each file states.
static STATED: &[(&str, &[&str])] = &[
    (
        "include/leveldb/",
        &["SPDX-License-Identifier: BSD-3-Clause", "The LevelDB Authors. All rights reserved."],
    ),
    ("include/terrace/", &["SPDX-License-Identifier: MIT OR Apache-2.0"]),
    ("crates/terrace-capi/shim/", &["SPDX-License-Identifier: MIT OR Apache-2.0"]),
    ("crates/terrace-capi/install/", &["SPDX-License-Identifier: MIT OR Apache-2.0"]),
];

/// Problems of the list and of the statements.
pub(super) fn check(tree: &Tree) -> Vec<Problem> {
    let mut found = Vec::new();
    for (folder, texts) in STATED {
        for file in tree.files.iter().filter(|file| file.path.starts_with(folder) && !is_licence(file)) {
            let missing = texts.iter().filter(|text| !file.text.contains(**text));
            found.extend(missing.map(|text| statement_problem(file, text)));
        }
    }
    if let Some(list) = file(tree, LIST) {
        found.extend(list_problems(tree, list));
    }
    found
}

fn is_licence(file: &File) -> bool {
    file.path.ends_with("/LICENSE")
}

fn file<'a>(tree: &'a Tree, path: &str) -> Option<&'a File> {
    tree.files.iter().find(|file| file.path == path)
}

/// Rows with another version than the lock file, and direct dependencies without a row.
fn list_problems(tree: &Tree, list: &File) -> Vec<Problem> {
    let locked = file(tree, "Cargo.lock").map(locked_packages).unwrap_or_default();
    let mut found = Vec::new();
    let mut names = BTreeSet::new();
    for (line, text) in (1..).zip(list.text.lines()) {
        // name, version, licence, address
        let cells: Vec<&str> = text.split('|').map(str::trim).collect();
        let ["", name, version, _, address, ""] = cells[..] else { continue };
        if !address.starts_with('<') {
            continue;
        }
        names.insert(name);
        if !locked.contains(&(name, version)) {
            found.push(list_problem(line, format!("{name} {version}, which Cargo.lock lacks")));
        }
    }
    let missing = direct_dependencies(tree).into_iter().filter(|name| !names.contains(name.as_str()));
    found.extend(missing.map(|name| list_problem(1, format!("no row for {name}"))));
    found
}

/// Names and versions of the packages in the lock file.
fn locked_packages(lock: &File) -> BTreeSet<(&str, &str)> {
    let lines: Vec<&str> = lock.text.lines().collect();
    let pairs = lines
        .windows(2)
        .filter_map(|pair| Some((quoted(pair[0], "name = ")?, quoted(pair[1], "version = ")?)));
    pairs.collect()
}

/// Text in quotes after `key`.
fn quoted<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    line.strip_prefix(key)?.strip_prefix('"')?.strip_suffix('"')
}

/// Crates of other projects that the crates of [`ROOTS`], and the crates that they use, name in
/// `[dependencies]`, without optional ones that no default feature enables.
fn direct_dependencies(tree: &Tree) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut to_visit: Vec<String> = ROOTS.iter().map(|name| (*name).to_owned()).collect();
    while let Some(directory) = to_visit.pop() {
        let Some(manifest) = file(tree, &format!("{directory}/Cargo.toml")) else { continue };
        for dependency in dependencies(&manifest.text) {
            let directory = format!("crates/{dependency}");
            if file(tree, &format!("{directory}/Cargo.toml")).is_none() {
                found.insert(dependency);
            } else if seen.insert(directory.clone()) {
                to_visit.push(directory);
            }
        }
    }
    found
}

fn dependencies(manifest: &str) -> impl Iterator<Item = String> {
    let lines = manifest.lines().skip_while(|line| line.trim() != "[dependencies]").skip(1);
    let lines =
        lines.take_while(|line| !line.starts_with('[')).filter(|line| !line.contains("optional = true"));
    let names = lines.filter_map(|line| Some(line.split_once(['=', '.'])?.0.trim().to_owned()));
    names.filter(|name| !name.is_empty() && !name.starts_with('#'))
}

fn list_problem(line: usize, finding: String) -> Problem {
    Problem {
        file: LIST.into(),
        line,
        finding,
        reason: "the binaries need the licences of all code that they contain".into(),
        fix: "run `make notices`".into(),
    }
}

fn statement_problem(file: &File, text: &str) -> Problem {
    Problem {
        file: file.path.clone(),
        line: 1,
        finding: format!("no line `{text}`"),
        reason: "users copy the file without the repository".into(),
        fix: "add it to the comment at the start".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::expect;
    use super::*;

    const LOCK: &str = "[[package]]\nname = \"snap\"\nversion = \"1.1.2\"\n\n[[package]]\nname = \"libc\"\nversion = \"0.2.1\"\n";
    const CAPI: &str = "[package]\n[dependencies]\nlibc.workspace = true\nterrace-a = { path = \"\" }\n\n\
                        [dev-dependencies]\ntempfile = \"1\"\n";
    const A: &str =
        "[dependencies]\nsnap = \"1\"\n# a comment\nfjall = { version = \"3\", optional = true }\n";

    #[track_caller]
    fn found(list: &str, problems: &[&str]) {
        let files = [
            (LIST, list),
            ("Cargo.lock", LOCK),
            ("crates/terrace-capi/Cargo.toml", CAPI),
            ("crates/terrace-a/Cargo.toml", A),
        ];
        expect(check, &files, problems);
    }

    #[test]
    fn complete_list() {
        found(
            "| crate | version | licence | source |\n| libc | 0.2.1 | MIT | <a> |\n| snap | 1.1.2 | MIT | <b> |\n",
            &[],
        );
    }

    #[test]
    fn stale_version_and_missing_row() {
        found(
            "| libc | 0.2.0 | MIT | <a> |\n",
            &["THIRD-PARTY.md:1: libc 0.2.0, which Cargo.lock lacks", "THIRD-PARTY.md:1: no row for snap"],
        );
    }

    #[test]
    fn header_without_a_notice() {
        let complete = "// Copyright (c) 2011 The LevelDB Authors. All rights reserved.\n// SPDX-License-Identifier: BSD-3-Clause\n";
        let files =
            [("include/leveldb/a.h", complete), ("include/leveldb/LICENSE", ""), ("include/terrace/b.h", "")];
        expect(
            check,
            &files,
            &["include/terrace/b.h:1: no line `SPDX-License-Identifier: MIT OR Apache-2.0`"],
        );
    }
}
