//! No text file names a path of one machine.

use super::Problem;
use super::tree::{File, Tree};

/// First folders of such paths, joined so that this file names none.
static FOLDERS: &[&str] = &[concat!("/", "work/"), concat!("/", "root/")];

/// Lines that name such a path.
pub(super) fn check(tree: &Tree) -> Vec<Problem> {
    tree.files.iter().flat_map(named).collect()
}

fn named(file: &File) -> Vec<Problem> {
    let lines = (1..).zip(file.text.lines());
    lines
        .filter(|(_, text)| FOLDERS.iter().any(|folder| names(text, folder)))
        .map(|(line, _)| problem(file, line))
        .collect()
}

/// Whether `folder` begins a path in `text`: `src/work/x` and `./root/x` only contain it.
fn names(text: &str, folder: &str) -> bool {
    text.match_indices(folder).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "._-~/*})".contains(c))
    })
}

fn problem(file: &File, line: usize) -> Problem {
    Problem {
        file: file.path.clone(),
        line,
        finding: "a path of one machine".into(),
        reason: "it exists on no other machine".into(),
        fix: "write it from the root of the repository".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::expect;
    use super::*;

    #[test]
    fn in_any_text() {
        let text = format!("a\nsee {}main/x", FOLDERS[0]);
        expect(check, &[("docs/a.md", &text)], &["docs/a.md:2: a path of one machine"]);
    }

    #[test]
    fn at_the_start_of_a_line() {
        let text = format!("{}x", FOLDERS[1]);
        expect(check, &[("a.sh", &text)], &["a.sh:1: a path of one machine"]);
    }

    #[test]
    fn below_another_folder() {
        let text = format!("src{}x .{}y", FOLDERS[0], FOLDERS[1]);
        expect(check, &[("a.sh", &text)], &[]);
    }
}
