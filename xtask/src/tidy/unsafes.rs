//! Unsafe code stays in few rooms, and is counted.

use super::Problem;
use super::source::Source;
use super::tree::Tree;

/// Where unsafe code may stand: the start of a file's path, and what it is there for.
static ROOMS: &[(&str, &str)] = &[
    ("crates/terrace-env/src/posix", "maps files into memory"),
    ("crates/terrace-testkit/src/stock", "calls the C functions of the stock library"),
];

/// Every `unsafe` of the repository, tests included, as a file and a line.
pub(super) fn sites(tree: &Tree) -> Vec<(&str, usize)> {
    tree.sources.iter().flat_map(sites_in).collect()
}

fn sites_in(source: &Source) -> impl Iterator<Item = (&str, usize)> {
    let words = source.paths.iter().filter(|path| path.text == "unsafe");
    words.map(|path| (source.path.as_str(), path.line))
}

/// Unsafe code outside of its rooms.
pub(super) fn check(tree: &Tree) -> Vec<Problem> {
    let outside = |file: &str| !ROOMS.iter().any(|(room, _)| file.starts_with(room));
    sites(tree)
        .into_iter()
        .filter(|(file, _)| outside(file))
        .map(|(file, line)| problem(file, line))
        .collect()
}

fn problem(file: &str, line: usize) -> Problem {
    Problem {
        file: file.into(),
        line,
        what: "`unsafe`".into(),
        why: "unsafe code stays in the rooms that are reviewed for it".into(),
        fix: "use safe code, or add the room with its reason to ROOMS in xtask/src/tidy/unsafes.rs".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::expect;
    use super::*;

    #[test]
    fn outside() {
        let path = "crates/terrace/src/arena.rs";
        let text = "a\nunsafe { f() }\nunsafe impl Send for A {}";
        expect(check, &[(path, text)], &[&format!("{path}:2: `unsafe`"), &format!("{path}:3: `unsafe`")]);
    }

    #[test]
    fn inside() {
        expect(check, &[("crates/terrace-env/src/posix/map.rs", "unsafe { f() }")], &[]);
    }

    #[test]
    fn only_words_about_it() {
        expect(check, &[("crates/terrace/src/a.rs", "#![deny(unsafe_code)] // unsafe\nf(\"unsafe\")")], &[]);
    }
}
