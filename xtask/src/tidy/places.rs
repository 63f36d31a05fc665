//! No path of somebody's machine, in any text file.

use super::Problem;
use super::tree::{File, Tree};

/// The first folder of such paths. Joined here, so that this file names none.
static PLACES: &[&str] = &[concat!("/", "work/"), concat!("/", "root/")];

/// Lines that name such a path.
pub(super) fn check(tree: &Tree) -> Vec<Problem> {
    tree.files.iter().flat_map(named).collect()
}

fn named(file: &File) -> Vec<Problem> {
    let lines = (1..).zip(file.text.lines());
    lines
        .filter(|(_, text)| PLACES.iter().any(|place| names(text, place)))
        .map(|(line, _)| problem(file, line))
        .collect()
}

/// Whether `place` begins a path in `text`: `src/work/x` and `./root/x` only contain it.
fn names(text: &str, place: &str) -> bool {
    text.match_indices(place).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "._-~/*})".contains(c))
    })
}

fn problem(file: &File, line: usize) -> Problem {
    Problem {
        file: file.path.clone(),
        line,
        what: "a path of some machine".into(),
        why: "it exists nowhere else".into(),
        fix: "write it from the root of the repository".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::expect;
    use super::*;

    #[test]
    fn in_any_text() {
        let text = format!("a\nsee {}main/x", PLACES[0]);
        expect(check, &[("docs/a.md", &text)], &["docs/a.md:2: a path of some machine"]);
    }

    #[test]
    fn at_the_start_of_a_line() {
        let text = format!("{}x", PLACES[1]);
        expect(check, &[("a.sh", &text)], &["a.sh:1: a path of some machine"]);
    }

    #[test]
    fn below_another_folder() {
        let text = format!("src{}x .{}y", PLACES[0], PLACES[1]);
        expect(check, &[("a.sh", &text)], &[]);
    }
}
