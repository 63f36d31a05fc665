//! The module tree of a crate, and which file a path names.
//!
//! ```text
//!   crates/terrace/src/db/mod.rs          db
//!   crates/terrace/src/db/read.rs         db::read
//!   `super::inner::DbInner` in db::read   db::inner
//!   `super::Db` in db::read               db, or the module that db re-exports `Db` from
//! ```

use std::collections::BTreeMap;

use super::source::Source;
use super::tree::Tree;

/// Source folder of the crate `terrace`.
pub(super) const ROOT: &str = "crates/terrace/src/";

/// Modules of the crate `terrace` that have files of their own.
pub(super) struct Modules<'a> {
    /// Source of each module path. The root is the empty path.
    files: BTreeMap<String, &'a Source>,
}

/// Use of another module.
pub(super) struct Import {
    /// Module path of the used file.
    pub(super) module: String,
    pub(super) line: usize,
}

impl<'a> Modules<'a> {
    pub(super) fn new(tree: &'a Tree) -> Modules<'a> {
        let files = tree.sources.iter().filter_map(|source| Some((module_path(&source.path)?, source)));
        Modules { files: files.collect() }
    }

    /// Each module path with its source.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &'a Source)> {
        self.files.iter().map(|(module, source)| (module.as_str(), *source))
    }

    /// Modules that `module` uses outside of tests, itself left out.
    pub(super) fn imports(&self, module: &str) -> Vec<Import> {
        let Some(source) = self.files.get(module) else { return Vec::new() };
        let imports = source.product_paths().filter_map(|path| {
            let absolute = self.absolute(module, &path.text)?;
            let (used, names) = self.split(&absolute);
            let used = self.origin(used, names, &mut Vec::new());
            (used != module).then_some(Import { module: used, line: path.line })
        });
        imports.collect()
    }

    /// The path from the root of the crate, for paths that lead to a module of the crate.
    fn absolute(&self, module: &str, path: &str) -> Option<String> {
        // A single name is `mod name;`, `pub(super)` or a local variable.
        let (first, rest) = path.split_once("::")?;
        match first {
            "crate" => Some(rest.to_owned()),
            "self" => Some(join(module, rest)),
            "super" => {
                let parent = module.rsplit_once("::").map_or("", |(parent, _)| parent);
                if rest.starts_with("super::") {
                    self.absolute(parent, rest)
                } else {
                    Some(join(parent, rest))
                }
            }
            _ => self.files.contains_key(&join(module, first)).then(|| join(module, path)),
        }
    }

    /// The longest module path at the start of `path`, and the rest.
    fn split<'b>(&self, path: &'b str) -> (&'b str, &'b str) {
        let mut module = path;
        loop {
            if self.files.contains_key(module) {
                return (module, path[module.len()..].trim_start_matches("::"));
            }
            match module.rsplit_once("::") {
                Some((parent, _)) => module = parent,
                None => return ("", path),
            }
        }
    }

    /// The module that defines `names`, if `module` only imports or re-exports them. Child modules
    /// may name its private imports too.
    fn origin(&self, module: &str, names: &str, seen: &mut Vec<String>) -> String {
        seen.push(module.to_owned());
        let name = names.split("::").next().unwrap_or_default();
        let Some(source) = self.files.get(module).filter(|_| !name.is_empty()) else {
            return module.to_owned();
        };
        let imports = source.product_paths().filter(|path| path.text.rsplit("::").next() == Some(name));
        let imports = imports.filter(|path| statement(source, path.line).contains("use "));
        for absolute in imports.filter_map(|path| self.absolute(module, &path.text)) {
            let (origin, rest) = self.split(&absolute);
            if !seen.iter().any(|module| module == origin) {
                return self.origin(origin, rest, seen);
            }
        }
        module.to_owned()
    }
}

/// Whether the statement around `line` is `pub use ..` or `pub(crate) use ..`.
pub(super) fn is_re_export(source: &Source, line: usize) -> bool {
    let start = statement(source, line);
    start.starts_with("pub") && start.contains(" use ")
}

/// First line of the statement around `line`, or of its import.
fn statement(source: &Source, line: usize) -> &str {
    let mut start = "";
    for code in source.lines[..line].iter().rev().map(|line| line.code.trim()) {
        if !start.is_empty() && code.ends_with([';', '}']) {
            break;
        }
        start = if code.is_empty() { start } else { code };
        if start.contains("use ") {
            break;
        }
    }
    start
}

fn join(module: &str, rest: &str) -> String {
    match (module, rest) {
        ("", rest) => rest.to_owned(),
        (module, "") => module.to_owned(),
        (module, rest) => format!("{module}::{rest}"),
    }
}

/// Module path of the file `path` of the crate `terrace`.
pub(super) fn module_path(path: &str) -> Option<String> {
    let below = path.strip_prefix(ROOT)?.strip_suffix(".rs")?;
    let module = below.strip_suffix("/mod").unwrap_or(below);
    Some(if matches!(module, "lib" | "mod") { String::new() } else { module.replace('/', "::") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: &[&str]) {
        let files = [
            ("crates/terrace/src/lib.rs", "pub use db::Db;"),
            (
                "crates/terrace/src/db/mod.rs",
                "pub(crate) use {\n    inner::DbInner,\n    read::Reader,\n};\nuse write::Commit;\nstruct Db;",
            ),
            ("crates/terrace/src/db/inner.rs", ""),
            ("crates/terrace/src/db/read.rs", text),
            ("crates/terrace/src/db/write/mod.rs", ""),
            ("crates/terrace/src/db/write/make_room.rs", ""),
            ("crates/terrace/src/version.rs", ""),
        ];
        let tree = Tree::of(&files);
        let imports = Modules::new(&tree).imports("db::read");
        assert_eq!(imports.iter().map(|import| import.module.as_str()).collect::<Vec<_>>(), expect);
    }

    #[test]
    fn paths_to_modules() {
        check("use crate::version::Version;", &["version"]);
        check("use super::inner::DbInner;", &["db::inner"]);
        check("fn f() { super::write::make_room::g() }", &["db::write::make_room"]);
        check("use super::super::version;", &["version"]);
        check("pub(super) fn read() { let write = read; }", &[]);
    }

    #[test]
    fn re_exported_names() {
        check("use super::DbInner;", &["db::inner"]);
        check("use super::Db;", &["db"]);
        check("use super::Commit;", &["db::write"]);
        check("use crate::Db;", &["db"]);
    }

    #[test]
    fn own_module_other_crates_and_tests() {
        check("use super::Reader; use std::fmt; use terrace_env::Env; use self::f;", &[]);
        check("#[cfg(test)]\nmod tests { use crate::version::Version; }", &[]);
    }
}
