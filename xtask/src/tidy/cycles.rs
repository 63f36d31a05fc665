//! No import cycle among the files of a folder of the crate `terrace`.
//!
//! Each file and each subfolder of a folder is a node; an import outside of tests is an edge. A
//! name that a file only re-exports belongs to the file that defines it.

use std::collections::{BTreeMap, BTreeSet};

use super::Problem;
use super::modules::{Modules, is_re_export};
use super::tree::Tree;

/// Edges of known cycles, with the reason why they stay: folder, importing file, imported file.
static DEBT: &[(&str, &str, &str)] = &[];

/// Edges of one folder: the importing and the imported node, with a place of the import.
type Edges = BTreeMap<(String, String), (String, usize)>;

/// The known cycles, or nothing if there are none.
pub(super) fn report() -> String {
    let lines =
        DEBT.iter().map(|(folder, from, to)| format!("known import cycle: {folder}/ {from} -> {to}\n"));
    lines.collect()
}

/// Every edge that is part of a cycle.
pub(super) fn check(tree: &Tree) -> Vec<Problem> {
    let mut folders = BTreeMap::<String, Edges>::new();
    let modules = Modules::new(tree);
    for (module, source) in modules.iter() {
        for import in modules.imports(module).into_iter().filter(|import| !is_re_export(source, import.line))
        {
            let Some((folder, from, to)) = edge(module, &import.module) else { continue };
            let place = (source.path.clone(), import.line);
            folders.entry(folder).or_default().entry((from, to)).or_insert(place);
        }
    }
    folders.iter_mut().flat_map(|(folder, edges)| cycles(folder, edges)).collect()
}

/// The folder that has two modules in different nodes, and the nodes. A folder's own file is `mod`.
fn edge(from: &str, to: &str) -> Option<(String, String, String)> {
    let mut folder = Vec::new();
    let mut from = from.split("::").filter(|name| !name.is_empty());
    let mut to = to.split("::").filter(|name| !name.is_empty());
    loop {
        match (from.next(), to.next()) {
            (Some(a), Some(b)) if a == b => folder.push(a),
            (None, None) => return None,
            (a, b) => {
                // `lib.rs` gives the crate's names and may name every module.
                let is_root = folder.is_empty() && (a.is_none() || b.is_none());
                let node = |name: Option<&str>| name.unwrap_or("mod").to_owned();
                return (!is_root).then(|| (folder.join("/"), node(a), node(b)));
            }
        }
    }
}

fn cycles(folder: &str, edges: &mut Edges) -> Vec<Problem> {
    edges.retain(|(from, to), _| !DEBT.contains(&(folder, from, to)));
    let in_cycle = edges.iter().filter_map(|((from, to), place)| Some((path(edges, to, from)?, place)));
    // Each edge of a cycle is a place where it can be cut.
    in_cycle
        .map(|(back, (file, line))| Problem {
            file: file.clone(),
            line: *line,
            finding: format!("an import cycle in {folder}/"),
            reason: format!("{} -> {}", back.last().map_or("", String::as_str), back.join(" -> ")),
            fix: "move the shared part to a file that both may import".into(),
        })
        .collect()
}

/// A shortest path of nodes from `start` to `end`.
fn path(edges: &Edges, start: &str, end: &str) -> Option<Vec<String>> {
    let mut seen = BTreeSet::from([start.to_owned()]);
    let mut paths = vec![vec![start.to_owned()]];
    while !paths.is_empty() {
        let mut longer = Vec::new();
        for path in paths {
            let last = path.last()?;
            if last == end {
                return Some(path);
            }
            for (_, to) in edges.keys().filter(|(from, _)| from == last) {
                if seen.insert(to.clone()) {
                    longer.push([path.as_slice(), std::slice::from_ref(to)].concat());
                }
            }
        }
        paths = longer;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::expect;
    use super::*;

    const A: &str = "crates/terrace/src/x/a.rs";
    const B: &str = "crates/terrace/src/x/b.rs";
    const C: &str = "crates/terrace/src/x/c/d.rs";
    const MOD: &str = "crates/terrace/src/x/mod.rs";

    #[track_caller]
    fn found(files: &[(&str, &str)], places: &[&str]) {
        let lines: Vec<String> =
            places.iter().map(|place| format!("{place}: an import cycle in x/")).collect();
        expect(check, files, &lines.iter().map(String::as_str).collect::<Vec<_>>());
    }

    #[test]
    fn two_files() {
        found(
            &[(A, "use super::b::B;"), (B, "\nuse crate::x::a::A;")],
            &[&format!("{A}:1"), &format!("{B}:2")],
        );
    }

    #[test]
    fn three_nodes_one_of_them_a_folder() {
        let files = [(A, "use super::b::B;"), (B, "use super::c::d::D;"), (C, "use crate::x::a::A;")];
        found(&files, &[&format!("{A}:1"), &format!("{B}:1"), &format!("{C}:1")]);
    }

    #[test]
    fn folder_file_that_uses_its_child() {
        let files = [(MOD, "use self::a::A; struct B;"), (A, "use super::B;")];
        found(&files, &[&format!("{A}:1"), &format!("{MOD}:1")]);
    }

    #[test]
    fn re_exports_are_no_cycle() {
        found(&[(MOD, "pub use a::A; pub(crate) use b::B;"), (A, "use super::B;"), (B, "")], &[]);
    }

    #[test]
    fn tests_and_one_direction() {
        found(&[(A, "use super::b::B;"), (B, "#[cfg(test)]\nmod tests { use super::super::a::A; }")], &[]);
    }
}
