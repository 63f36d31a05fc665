//! Sizes of the modules: lines of code, of comments and of tests, without empty lines.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::Problem;
use super::source::Source;
use super::tree::Tree;
use super::unsafe_code;

/// Maximum number of lines of a file outside of tests.
const LONG: usize = 500;
/// Number of the longest files that the report lists.
const LISTED: usize = 5;

#[derive(Default, Clone, Copy)]
struct Lines {
    files: usize,
    code: usize,
    comments: usize,
    tests: usize,
}

impl Lines {
    fn of(source: &Source) -> Lines {
        let mut lines = Lines { files: 1, ..Lines::default() };
        for (number, line) in (1..).zip(&source.lines) {
            match (line.code.trim().is_empty(), line.comment.is_empty()) {
                (true, true) => {}
                _ if source.is_test(number) => lines.tests += 1,
                (true, false) => lines.comments += 1,
                (false, _) => lines.code += 1,
            }
        }
        lines
    }

    fn add(&mut self, other: Lines) {
        self.files += other.files;
        self.code += other.code;
        self.comments += other.comments;
        self.tests += other.tests;
    }

    fn all(&self) -> usize {
        self.code + self.comments + self.tests
    }
}

/// Table of the modules, the longest files, and the sites of unsafe code.
pub(super) fn report(tree: &Tree) -> String {
    let mut text = String::new();
    modules(tree, &mut text);
    longest(tree, &mut text);
    unsafe_sites(tree, &mut text);
    text
}

fn modules(tree: &Tree, text: &mut String) {
    let mut modules = BTreeMap::<String, Lines>::new();
    let mut sum = Lines::default();
    for source in &tree.sources {
        let lines = Lines::of(source);
        modules.entry(module_of(&source.path)).or_default().add(lines);
        sum.add(lines);
    }
    line(text, format_args!("{:<28}{:>7}{:>9}{:>10}{:>8}", "module", "files", "code", "comments", "tests"));
    for (module, lines) in
        modules.iter().map(|(module, lines)| (module.as_str(), lines)).chain([("all", &sum)])
    {
        let Lines { files, code, comments, tests } = lines;
        line(text, format_args!("{module:<28}{files:>7}{code:>9}{comments:>10}{tests:>8}"));
    }
}

/// Crate of a file, and its top module in the crate `terrace`.
fn module_of(path: &str) -> String {
    let mut names = path.trim_start_matches("crates/").split('/');
    let name = names.next().unwrap_or_default();
    match (name, names.next(), names.next()) {
        ("terrace", Some("src"), Some(module)) => format!("terrace::{}", module.trim_end_matches(".rs")),
        ("terrace", Some(folder), _) => format!("terrace {folder}"),
        _ => name.to_owned(),
    }
}

fn longest(tree: &Tree, text: &mut String) {
    let mut files: Vec<(usize, &str)> =
        tree.sources.iter().map(|source| (Lines::of(source).all(), source.path.as_str())).collect();
    files.sort_by(|a, b| b.cmp(a));
    line(text, format_args!("\nlongest files"));
    for (position, (lines, path)) in files.iter().enumerate() {
        if position < LISTED || *lines > LONG {
            let note = if *lines > LONG { "   longer than 500 lines" } else { "" };
            line(text, format_args!("{lines:>6}  {path}{note}"));
        }
    }
}

/// Generated tables, which no person reads from top to bottom.
static GENERATED: &[&str] = &[];

/// Files that are too long, tests and generated tables left out.
pub(super) fn check(tree: &Tree) -> Vec<Problem> {
    let files = tree.sources.iter().filter(|source| !GENERATED.contains(&source.path.as_str()));
    let sizes = files.map(|source| (source, Lines::of(source)));
    let long = sizes.filter(|(_, lines)| lines.code + lines.comments > LONG);
    long.map(|(source, lines)| Problem {
        file: source.path.clone(),
        line: 1,
        finding: format!("{} lines", lines.code + lines.comments),
        reason: format!("the limit is {LONG}, without tests and empty lines"),
        fix: "split the file at its ideas".into(),
    })
    .collect()
}

/// Each site in the product, and the number of the others.
fn unsafe_sites(tree: &Tree, text: &mut String) {
    let (product, other): (Vec<&Source>, Vec<&Source>) = tree.sources.iter().partition(|s| s.is_product());
    let count =
        |sources: &[&Source]| sources.iter().map(|source| unsafe_code::sites(source).count()).sum::<usize>();
    line(text, format_args!("\nunsafe: {} in the product, {} elsewhere", count(&product), count(&other)));
    for source in product {
        for at in unsafe_code::sites(source) {
            line(text, format_args!("        {}:{at}", source.path));
        }
    }
    text.push('\n');
}

fn line(text: &mut String, words: std::fmt::Arguments<'_>) {
    // Writing to a `String` never fails.
    let _ = writeln!(text, "{words}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_lines() {
        let text = "//! Doc.\n\nfn f() {} // why\n/* a\nb */\n#[test]\nfn t() {\n    // x\n}\n";
        let lines = Lines::of(&Source::new("src/a.rs", text));
        assert_eq!((lines.code, lines.comments, lines.tests), (1, 3, 4));
    }

    #[test]
    fn modules_of_files() {
        assert_eq!(module_of("crates/terrace/src/db/open.rs"), "terrace::db");
        assert_eq!(module_of("crates/terrace/src/error.rs"), "terrace::error");
        assert_eq!(module_of("crates/terrace/tests/it/model.rs"), "terrace tests");
        assert_eq!(module_of("crates/terrace-env/src/mem/disk.rs"), "terrace-env");
        assert_eq!(module_of("xtask/src/main.rs"), "xtask");
    }

    #[test]
    fn long_files_are_listed() {
        let long = "x\n".repeat(LONG + 1);
        let report = report(&Tree::of(&[("xtask/a.rs", &long), ("xtask/b.rs", "x")]));
        assert!(report.contains("   501  xtask/a.rs   longer than 500 lines"), "{report}");
        assert!(report.contains("     1  xtask/b.rs\n"), "{report}");
    }

    #[test]
    fn unsafe_sites_of_the_product_are_listed() {
        let text = "\nunsafe { f() }";
        let files = [("crates/terrace-env/src/a.rs", text), ("crates/terrace-testkit/src/b.rs", text)];
        let report = report(&Tree::of(&files));
        let expect = "unsafe: 1 in the product, 1 elsewhere\n        crates/terrace-env/src/a.rs:2\n\n";
        assert!(report.ends_with(expect), "{report}");
    }
}
