//! Crates that users need can be published; the others say `publish = false`.
//!
//! A published crate has the fields and files that a reader of crates.io and docs.rs expects. It
//! depends only on published crates, and the workspace states a version for each of them.

use super::Problem;
use super::tree::{File, Tree};

/// Fields of `[package]`. A crate may take them from the workspace.
static FIELDS: &[&str] = &[
    "description",
    "license",
    "repository",
    "rust-version",
    "readme",
    "keywords",
    "categories",
    "documentation",
];

/// Files that a package contains.
static FILES: &[&str] = &["LICENSE-APACHE", "LICENSE-MIT"];

/// Problems of the manifests.
pub(super) fn check(tree: &Tree) -> Vec<Problem> {
    tree.files.iter().filter(|file| is_published(file)).flat_map(|file| problems(tree, file)).collect()
}

/// Whether `file` is the manifest of a crate without `publish = false`.
fn is_published(file: &File) -> bool {
    file.path.ends_with("Cargo.toml")
        && !section(file, "package").is_empty()
        && !section(file, "package")
            .iter()
            .any(|(_, text)| text.replace(' ', "").starts_with("publish=false"))
}

/// Lines of the section `name`, with their numbers.
fn section<'a>(file: &'a File, name: &str) -> Vec<(usize, &'a str)> {
    let header = format!("[{name}]");
    let lines = (1..).zip(file.text.lines()).skip_while(|(_, text)| text.trim() != header).skip(1);
    lines.take_while(|(_, text)| !text.trim_start().starts_with('[')).collect()
}

fn key(text: &str) -> &str {
    text.split(['=', '.', ' ']).next().unwrap_or_default()
}

fn problems(tree: &Tree, manifest: &File) -> Vec<Problem> {
    let package = section(manifest, "package");
    let mut found: Vec<Problem> = FIELDS
        .iter()
        .filter(|field| !package.iter().any(|(_, text)| key(text) == **field))
        .map(|field| problem(manifest, 1, format!("no `{field}`")))
        .collect();
    let folder = manifest.path.trim_end_matches("Cargo.toml");
    let missing = FILES.iter().map(|name| format!("{folder}{name}"));
    let missing = missing.filter(|path| !tree.files.iter().any(|file| file.path == *path));
    found.extend(missing.map(|path| problem(manifest, 1, format!("no {path}"))));
    found.extend(dependencies(tree, manifest));
    found
}

/// Dependencies on crates of this repository that the registry would refuse.
fn dependencies(tree: &Tree, manifest: &File) -> Vec<Problem> {
    let mut found = Vec::new();
    for section_name in ["dependencies", "build-dependencies"] {
        for (line, text) in section(manifest, section_name) {
            let name = key(text);
            let path = format!("crates/{name}/Cargo.toml");
            let Some(used) = tree.files.iter().find(|file| file.path == path) else { continue };
            if !is_published(used) {
                found.push(problem(manifest, line, format!("depends on `{name}`, which is not published")));
            }
            if !has_version(tree, text, name) {
                found.push(problem(manifest, line, format!("no version of `{name}`")));
            }
        }
    }
    found
}

/// Whether the dependency, or the workspace for it, states a version.
fn has_version(tree: &Tree, text: &str, name: &str) -> bool {
    let root = tree.files.iter().find(|file| file.path == "Cargo.toml");
    let shared = root.map(|root| section(root, "workspace.dependencies")).unwrap_or_default();
    let states = |text: &str| text.contains("version");
    states(text) || shared.iter().any(|(_, text)| key(text) == name && states(text))
}

fn problem(manifest: &File, line: usize, finding: String) -> Problem {
    let reason = "the crate can't be published without it".into();
    let fix = "complete the manifest, or say `publish = false`".into();
    Problem { file: manifest.path.clone(), line, finding, reason, fix }
}

#[cfg(test)]
mod tests {
    use super::super::expect;
    use super::*;

    const A: &str = "crates/terrace-a/Cargo.toml";
    const B: &str = "crates/terrace-b/Cargo.toml";

    /// Checks a complete crate `terrace-a` with `end` added to its manifest, and a crate
    /// `terrace-b`.
    #[track_caller]
    fn found(end: &str, b: &str, root: &str, problems: &[&str]) {
        let fields: Vec<String> = FIELDS.iter().map(|field| format!("{field}.workspace = true\n")).collect();
        let manifest = format!("[package]\nname = \"terrace-a\"\n{}{end}", fields.concat());
        let files = [
            (A, manifest.as_str()),
            ("crates/terrace-a/LICENSE-APACHE", ""),
            ("crates/terrace-a/LICENSE-MIT", ""),
            (B, b),
            ("Cargo.toml", root),
        ];
        expect(check, &files, problems);
    }

    const PRIVATE: &str = "[package]\nname = \"terrace-b\"\npublish = false\n";

    #[test]
    fn complete() {
        found("", PRIVATE, "", &[]);
    }

    #[test]
    fn empty_manifest() {
        let text = "[package]\nname = \"terrace-a\"\nreadme = \"README.md\"\nkeywords = []\ncategories = []\n\
                    description = \"\"\nlicense = \"MIT\"\nrepository = \"\"\nrust-version = \"1\"\n";
        let problems = [
            format!("{A}:1: no `documentation`"),
            format!("{A}:1: no crates/terrace-a/LICENSE-APACHE"),
            format!("{A}:1: no crates/terrace-a/LICENSE-MIT"),
        ];
        expect(check, &[(A, text)], &problems.each_ref().map(String::as_str));
    }

    #[test]
    fn dependency_that_is_not_published() {
        let end = "\n[dependencies]\nterrace-b = { version = \"1\", path = \"../terrace-b\" }\n";
        found(end, PRIVATE, "", &[&format!("{A}:13: depends on `terrace-b`, which is not published")]);
    }

    #[test]
    fn version_of_a_dependency() {
        let end = "publish = false\n\n[dependencies]\nterrace-b.workspace = true\n";
        found(end, PRIVATE, "", &[]);
        check_version("terrace-b = { path = \"b\", version = \"0.1.0\" }", true);
        check_version("terrace-b = { path = \"b\" }", false);
    }

    #[track_caller]
    fn check_version(shared: &str, expect: bool) {
        let root = format!("[workspace.dependencies]\n{shared}\n");
        let tree = Tree::of(&[("Cargo.toml", &root)]);
        assert_eq!(has_version(&tree, "terrace-b.workspace = true", "terrace-b"), expect);
    }
}
