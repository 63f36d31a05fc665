//! Layers: a crate, and a module of the crate `terrace`, imports only lower layers.
//!
//! ```text
//!   12  terrace-cli  terrace-capi  bindings/
//!   11  terrace-bench  terrace-server
//!   10  terrace-store
//!    9  txn  bulk_load                        .
//!    8  db  verify  repair  ...               .   modules of the crate `terrace`: a module may
//!    :                                        .   also import its left neighbours in its layer
//!    3  sync  error  ...                      .
//!    2  terrace-format
//!    1  terrace-env
//!    0  terrace-sync
//! ```
//!
//! The order inside of a layer makes cycles impossible. Tests may import every module, and so may
//! `lib.rs`, which re-exports the public names.

use super::Problem;
use super::source::Source;
use super::tree::{File, Tree};

/// A crate of this repository.
struct Crate {
    name: &'static str,
    layer: u8,
    /// Whether only tests may depend on it.
    dev_only: bool,
}

const fn at(layer: u8, name: &'static str) -> Crate {
    Crate { name, layer, dev_only: false }
}

static CRATES: &[Crate] = &[
    at(0, "terrace-sync"),
    at(1, "terrace-env"),
    at(2, "terrace-format"),
    at(9, "terrace"),
    at(10, "terrace-store"),
    at(11, "terrace-bench"),
    at(11, "terrace-server"),
    at(12, "terrace-capi"),
    at(12, "terrace-cli"),
    at(12, "terrace-java"),
    at(12, "terrace-node"),
    at(12, "terrace-python"),
    Crate { name: "terrace-testkit", layer: 10, dev_only: true },
    Crate { name: "terrace-linearizability", layer: 11, dev_only: true },
    Crate { name: "terrace-torture", layer: 13, dev_only: true },
];

/// Modules of the crate `terrace` by layer. A module may import those to its left.
static MODULES: &[(u8, &[&str])] = &[
    // Options contain a cache and a snapshot.
    (
        3,
        &[
            "sync",
            "error",
            "table_info",
            "event",
            "file_io",
            "info_log",
            "snapshot",
            "cache",
            "shared_budget",
            "options",
        ],
    ),
    (4, &["stats"]),
    // Memtables and tables implement the trait of the internal iterator.
    (5, &["internal_iterator", "memtable", "table", "iterator"]),
    (6, &["version"]),
    (7, &["compaction"]),
    (8, &["db", "verify", "repair", "checkpoint", "ingest"]),
    (9, &["txn", "bulk_load"]),
    (10, &["loom_models"]),
];

const MODULES_ROOT: &str = "crates/terrace/src/";
const TABLES: &str = "xtask/src/tidy/layers.rs";

/// Dependencies of crates on crates of the same or a higher layer.
pub(super) fn crates(tree: &Tree) -> Vec<Problem> {
    tree.files.iter().filter_map(manifest).flat_map(|(name, file)| crate_problems(name, file)).collect()
}

/// Name of the crate with the manifest `file`.
fn manifest(file: &File) -> Option<(&str, &File)> {
    let directory = file.path.strip_suffix("/Cargo.toml")?;
    let name = directory.strip_prefix("crates/").or_else(|| binding(directory))?;
    Some((name, file))
}

/// Name of the crate in a directory of `bindings/`. An unknown one has the name of its directory.
fn binding(directory: &str) -> Option<&str> {
    let language = directory.strip_prefix("bindings/")?;
    let mut names = CRATES.iter().map(|known| known.name);
    names.find(|name| name.strip_prefix("terrace-") == Some(language)).or(Some(language))
}

fn crate_problems(name: &str, file: &File) -> Vec<Problem> {
    let Some(own) = known_crate(name) else { return vec![unknown_crate(name, &file.path, 1)] };
    let ours = dependencies(&file.text).into_iter().filter(|(_, used)| used.starts_with("terrace"));
    ours.filter_map(|(line, used)| match known_crate(used) {
        None => Some(unknown_crate(used, &file.path, line)),
        Some(used) if used.dev_only && !own.dev_only => Some(dev_only(used, &file.path, line)),
        Some(used) if used.layer >= own.layer => Some(upward_crate(own, used, &file.path, line)),
        Some(_) => None,
    })
    .collect()
}

fn known_crate(name: &str) -> Option<&'static Crate> {
    CRATES.iter().find(|known| known.name == name)
}

/// Dependencies of a manifest with their lines, those of tests left out.
fn dependencies(manifest: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut inside = false;
    for (line, text) in (1..).zip(manifest.lines()) {
        if let Some(section) = text.trim().strip_prefix('[') {
            let section = section.trim_end_matches(']');
            let parts: Vec<&str> = section.split('.').collect();
            let place = parts.iter().position(|part| matches!(*part, "dependencies" | "build-dependencies"));
            inside = place.is_some_and(|place| place + 1 == parts.len());
            found.extend(place.and_then(|place| parts.get(place + 1)).map(|name| (line, *name)));
        } else if inside {
            let name = text.split(['.', '=', ' ']).next().unwrap_or_default();
            if !name.is_empty() && !name.starts_with('#') {
                found.push((line, name));
            }
        }
    }
    found
}

/// Imports of modules of a higher layer.
pub(super) fn modules(tree: &Tree) -> Vec<Problem> {
    let modules = tree.sources.iter().filter_map(|source| Some((module_of(&source.path)?, source)));
    modules.flat_map(|(own, source)| module_problems(&own, source)).collect()
}

/// Entries of the table for which there is no file.
pub(super) fn stale_modules(tree: &Tree) -> Vec<Problem> {
    let present: Vec<String> = tree.sources.iter().filter_map(|source| module_of(&source.path)).collect();
    let listed = MODULES.iter().flat_map(|(_, row)| *row);
    listed.filter(|name| !present.iter().any(|module| module == *name)).map(|name| stale(name)).collect()
}

/// Top module of the file `path`.
fn module_of(path: &str) -> Option<String> {
    let below = path.strip_prefix(MODULES_ROOT)?;
    let module = below.strip_suffix(".rs").unwrap_or(below).replace('/', "::");
    (module != "lib").then(|| top_of(&module).to_owned())
}

/// Top module at the start of `path`.
fn top_of(path: &str) -> &str {
    path.split("::").next().unwrap_or(path)
}

fn module_problems(own: &str, source: &Source) -> Vec<Problem> {
    let Some(own_place) = place_of(own) else { return vec![unknown_module(own, &source.path, 1)] };
    let mut problems = Vec::new();
    for path in source.product_paths() {
        let Some(used) = used_module(&source.path, &path.text) else { continue };
        match place_of(used) {
            None => problems.push(unknown_module(used, &source.path, path.line)),
            Some(place) if place > own_place => {
                problems.push(upward_module(own, used, &source.path, path.line))
            }
            Some(_) => {}
        }
    }
    problems
}

/// Layer of a module, and its position from the left.
fn place_of(module: &str) -> Option<(u8, usize)> {
    MODULES.iter().find_map(|(floor, row)| Some((*floor, row.iter().position(|name| *name == module)?)))
}

/// Top module of the path `text`, if the path leads through the root of the crate.
fn used_module<'a>(file: &str, text: &'a str) -> Option<&'a str> {
    let mut rest = text;
    let mut climbed = 0;
    while let Some(above) = rest.strip_prefix("super::") {
        rest = above;
        climbed += 1;
    }
    let from_root =
        if climbed > 0 { (climbed >= depth(file)).then_some(rest) } else { rest.strip_prefix("crate::") };
    from_root.map(top_of)
}

/// Depth of a file's module below the root of the crate: 1 for `src/db.rs` and `src/db/mod.rs`.
fn depth(file: &str) -> usize {
    let below = file.strip_prefix(MODULES_ROOT).unwrap_or(file);
    below.strip_suffix("/mod.rs").unwrap_or(below).split('/').count()
}

fn unknown_crate(name: &str, file: &str, line: usize) -> Problem {
    Problem {
        file: file.into(),
        line,
        finding: format!("the crate `{name}` has no layer"),
        reason: "every crate belongs to one".into(),
        fix: format!("add it to CRATES in {TABLES}"),
    }
}

fn dev_only(used: &Crate, file: &str, line: usize) -> Problem {
    Problem {
        file: file.into(),
        line,
        finding: format!("depends on `{}`", used.name),
        reason: "only tests may".into(),
        fix: "move it to [dev-dependencies]".into(),
    }
}

fn upward_crate(own: &Crate, used: &Crate, file: &str, line: usize) -> Problem {
    Problem {
        file: file.into(),
        line,
        finding: format!("`{}` depends on `{}`", own.name, used.name),
        reason: format!("layer {} is not below layer {}", used.layer, own.layer),
        fix: "move the shared part to a lower crate".into(),
    }
}

fn unknown_module(name: &str, file: &str, line: usize) -> Problem {
    Problem {
        file: file.into(),
        line,
        finding: format!("`{name}` is no known top module"),
        reason: "every module belongs to a layer, and a name that lib.rs re-exports hides its module".into(),
        fix: format!("name the module that defines the item, or add a new module to MODULES in {TABLES}"),
    }
}

fn stale(name: &str) -> Problem {
    Problem {
        file: TABLES.into(),
        line: 1,
        finding: format!("no file belongs to the module `{name}`"),
        reason: "a later module with this name would have the layer of the old one".into(),
        fix: "remove it from MODULES".into(),
    }
}

fn upward_module(own: &str, used: &str, file: &str, line: usize) -> Problem {
    Problem {
        file: file.into(),
        line,
        finding: format!("`{own}` imports `{used}`"),
        reason: format!("`{used}` is in a higher layer, or to its right in the same layer"),
        fix: "move the shared part down, or pass it as an argument".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::expect;
    use super::*;

    const DB: &str = "crates/terrace/src/db/open.rs";
    const CACHE: &str = "crates/terrace/src/cache.rs";

    #[test]
    fn crate_above() {
        let toml = "[dependencies]\nsnap.workspace = true\nterrace = { workspace = true }\n";
        let path = "crates/terrace-format/Cargo.toml";
        expect(crates, &[(path, toml)], &[&format!("{path}:3: `terrace-format` depends on `terrace`")]);
    }

    #[test]
    fn crate_above_in_a_section_of_its_own() {
        let toml = "[target.'cfg(unix)'.dependencies.terrace-format]\nworkspace = true\n";
        let path = "crates/terrace-env/Cargo.toml";
        expect(crates, &[(path, toml)], &[&format!("{path}:1: `terrace-env` depends on `terrace-format`")]);
    }

    #[test]
    fn testkit_outside_of_tests() {
        let toml = "[dependencies]\nterrace-testkit.workspace = true\n";
        let path = "crates/terrace-cli/Cargo.toml";
        expect(crates, &[(path, toml)], &[&format!("{path}:2: depends on `terrace-testkit`")]);
    }

    #[test]
    fn crate_below_and_testkit_for_tests() {
        let toml = "[dependencies]\nterrace-env.workspace = true\n\n[dev-dependencies]\nterrace-testkit.workspace = true\n";
        expect(crates, &[("crates/terrace/Cargo.toml", toml)], &[]);
    }

    #[test]
    fn crate_without_a_layer() {
        let path = "crates/terrace-moon/Cargo.toml";
        expect(crates, &[(path, "")], &[&format!("{path}:1: the crate `terrace-moon` has no layer")]);
    }

    #[test]
    fn module_below() {
        expect(modules, &[(DB, "use crate::{version::Set, error::Result};\ncrate::sync::f()")], &[]);
    }

    #[test]
    fn module_above() {
        let text = "use crate::sync::Arc;\nuse crate::{\n    db::Db,\n};";
        expect(modules, &[(CACHE, text)], &[&format!("{CACHE}:3: `cache` imports `db`")]);
    }

    #[test]
    fn own_module() {
        expect(modules, &[(DB, "use crate::db::write::Writer; use super::read::Reader;")], &[]);
    }

    #[test]
    fn to_the_right_in_the_same_layer() {
        let path = "crates/terrace/src/table/table_writer.rs";
        expect(
            modules,
            &[(path, "use crate::iterator::MergingIter;")],
            &[&format!("{path}:1: `table` imports `iterator`")],
        );
        expect(modules, &[("crates/terrace/src/iterator/mod.rs", "use crate::table::TableCache;")], &[]);
    }

    #[test]
    fn upward_through_the_root() {
        expect(modules, &[(CACHE, "use super::db::Db;")], &[&format!("{CACHE}:1: `cache` imports `db`")]);
    }

    #[test]
    fn top_module_of_a_path() {
        assert_eq!(top_of("db::read::Reader"), "db");
        assert_eq!(top_of("db"), "db");
        assert_eq!(top_of("iterator::MergingIter"), "iterator");
        assert_eq!(module_of("crates/terrace/src/db/read.rs").as_deref(), Some("db"));
        assert_eq!(module_of("crates/terrace/src/lib.rs"), None);
    }

    #[test]
    fn module_above_in_tests() {
        expect(modules, &[(CACHE, "#[cfg(test)]\nmod tests {\n    use crate::db::Db;\n}")], &[]);
    }

    #[test]
    fn name_that_the_root_re_exports() {
        expect(
            modules,
            &[(CACHE, "use crate::Result;")],
            &[&format!("{CACHE}:1: `Result` is no known top module")],
        );
    }

    #[test]
    fn module_without_a_layer() {
        let path = "crates/terrace/src/moon.rs";
        expect(modules, &[(path, "")], &[&format!("{path}:1: `moon` is no known top module")]);
    }

    #[test]
    fn entry_without_a_module() {
        let names = MODULES.iter().flat_map(|(_, row)| *row);
        let paths: Vec<String> = names.map(|name| format!("{MODULES_ROOT}{}.rs", name)).collect();
        let mut files: Vec<(&str, &str)> = paths.iter().map(|path| (path.as_str(), "")).collect();
        expect(stale_modules, &files, &[]);
        files.retain(|(path, _)| *path != CACHE);
        expect(stale_modules, &files, &[&format!("{TABLES}:1: no file belongs to the module `cache`")]);
    }

    #[test]
    fn root_that_names_every_module() {
        expect(modules, &[("crates/terrace/src/lib.rs", "pub use crate::txn::Txn;")], &[]);
    }
}
