//! A Rust file with the parts that checks search.

use super::comments::{Split, split};
use super::paths::{self, Path};

/// A Rust file.
pub(super) struct Source {
    /// Path from the root of the repository.
    pub(super) path: String,
    /// Its lines, split into code and comments.
    pub(super) lines: Vec<Split>,
    /// Paths that the code names.
    pub(super) paths: Vec<Path>,
    /// Whether each line is part of a test.
    test: Vec<bool>,
}

impl Source {
    /// Parses the file `path` with the contents `text`.
    pub(super) fn new(path: &str, text: &str) -> Source {
        let lines = split(text);
        let code = lines.iter().map(|line| line.code.as_str()).collect::<Vec<_>>().join("\n");
        let test = if is_test_file(path) { vec![true; lines.len()] } else { test_lines(&code, lines.len()) };
        Source { path: path.to_owned(), paths: paths::paths(&code), lines, test }
    }

    /// Whether the file is part of the product: not of a tool or library of the repository's tests.
    pub(super) fn is_product(&self) -> bool {
        !["xtask/", "crates/terrace-linearizability/", "crates/terrace-testkit/", "crates/terrace-torture/"]
            .iter()
            .any(|tool| self.path.starts_with(tool))
    }

    /// Whether line `line`, counted from 1, is part of a test.
    pub(super) fn is_test(&self, line: usize) -> bool {
        self.test.get(line - 1).copied().unwrap_or(false)
    }

    /// Paths that the code names outside of tests.
    pub(super) fn product_paths(&self) -> impl Iterator<Item = &Path> {
        self.paths.iter().filter(|path| !self.is_test(path.line))
    }

    /// Whether line `line` or the line above it has a comment.
    pub(super) fn has_comment_beside(&self, line: usize) -> bool {
        let has = |line: usize| self.lines.get(line).is_some_and(|l| !l.comment.is_empty());
        has(line - 1) || (line >= 2 && has(line - 2))
    }
}

/// Whether `path` is a test binary, a bench, a file of unit tests or a model for a model checker.
fn is_test_file(path: &str) -> bool {
    path.starts_with("crates/terrace/src/loom_models/")
        || path.split('/').any(|name| matches!(name, "tests" | "benches" | "tests.rs"))
}

static TEST_MARKS: &[&str] = &["#[cfg(test)]", "#[test]"];

fn test_lines(code: &str, lines: usize) -> Vec<bool> {
    let mut test = vec![false; lines];
    for (start, mark) in TEST_MARKS.iter().flat_map(|mark| code.match_indices(mark)) {
        let end = start + item_len(&code[start + mark.len()..]) + mark.len();
        let line = |at: usize| code[..at].matches('\n').count();
        test[line(start)..=line(end)].fill(true);
    }
    test
}

/// Length of the item at the start of `code`, up to its `;` or its closing brace.
fn item_len(code: &str) -> usize {
    let mut depth = 0usize;
    for (at, c) in code.char_indices() {
        match c {
            '{' | '(' | '[' => depth += 1,
            '}' if depth <= 1 => return at,
            '}' | ')' | ']' => depth = depth.saturating_sub(1),
            ';' if depth == 0 => return at,
            _ => {}
        }
    }
    code.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, text: &str, expect: &str) {
        let source = Source::new(path, text);
        let marks = (1..=source.lines.len()).map(|line| if source.is_test(line) { 't' } else { '.' });
        assert_eq!(marks.collect::<String>(), expect);
    }

    #[test]
    fn module_of_tests() {
        check("src/a.rs", "a\n#[cfg(test)]\nmod tests {\n  {}\n}\nb", ".tttt.");
    }

    #[test]
    fn attributes_between() {
        check("src/a.rs", "#[cfg(test)]\n#[track_caller]\nfn a(b: [u8; 2]) {\n}\nc", "tttt.");
    }

    #[test]
    fn tests_in_another_file() {
        check("src/a.rs", "#[cfg(test)]\nmod tests;\nb", "tt.");
    }

    #[test]
    fn file_of_tests() {
        check("crates/x/tests/it/a.rs", "a\nb", "tt");
        check("crates/x/src/a/tests.rs", "a", "t");
    }

    #[test]
    fn mark_in_text() {
        check("src/a.rs", "f(\"#[test]\")\n// #[test]\nb", "...");
    }
}
