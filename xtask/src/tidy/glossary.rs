//! File names of the engine crates consist of words of `docs/glossary.md` and of a few plain words.
//!
//! ```text
//!   | term | here | LevelDB | RocksDB | Pebble |
//!   |---|---|---|---|---|
//!   | write stall | A write that waits until .. | MakeRoomForWrite | WriteStallCondition | .. |
//!
//!   db/write/write_stall.rs     allowed: both words are in the glossary
//!   db/wish.rs                  a problem: no such term
//! ```

use std::collections::BTreeSet;

use super::Problem;
use super::names::ENGINE;
use super::tree::{File, Tree};

const GLOSSARY: &str = "docs/glossary.md";
const HEADER: &[&str] = &["term", "here", "LevelDB", "RocksDB", "Pebble"];

/// Words of file names that need no definition: the names that Rust gives to files, and plain
/// English with one meaning in a storage engine.
static PLAIN: &[&str] = &[
    "lib mod tests error options",
    "contents directory inner install limits open parallel plan process profiles queue reader report thread with without",
];

/// One row of the table.
struct Row<'a> {
    line: usize,
    cells: Vec<&'a str>,
}

/// Problems of the glossary, and file names with words of no term.
pub(super) fn check(tree: &Tree) -> Vec<Problem> {
    let Some(glossary) = tree.files.iter().find(|file| file.path == GLOSSARY) else {
        return vec![problem(GLOSSARY, 1, "no glossary", "it is the norm for names", "write it")];
    };
    let rows = rows(glossary);
    let mut problems = table_problems(&rows);
    problems.extend(file_names(tree, &rows));
    problems
}

fn rows(glossary: &File) -> Vec<Row<'_>> {
    let lines = (1..).zip(glossary.text.lines()).filter(|(_, text)| text.starts_with('|'));
    lines.map(|(line, text)| Row { line, cells: cells(text) }).filter(|row| !is_rule(row)).collect()
}

/// Cells of a table row. A `\\|` is part of a cell.
fn cells(text: &str) -> Vec<&str> {
    let inner = text.trim().trim_start_matches('|');
    let inner = inner.strip_suffix('|').unwrap_or(inner);
    let mut cells = Vec::new();
    let mut start = 0;
    for (at, _) in inner.match_indices('|').filter(|(at, _)| !inner[..*at].ends_with('\\')) {
        cells.push(inner[start..at].trim());
        start = at + 1;
    }
    cells.push(inner[start..].trim());
    cells
}

fn is_rule(row: &Row<'_>) -> bool {
    row.cells.iter().all(|cell| cell.chars().all(|c| matches!(c, '-' | ':')))
}

fn table_problems(rows: &[Row<'_>]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut add =
        |line, finding: String, reason, fix| problems.push(problem(GLOSSARY, line, &finding, reason, fix));
    let Some((header, rows)) = rows.split_first().filter(|(header, _)| header.cells == HEADER) else {
        let fix = "begin the table with | term | here | LevelDB | RocksDB | Pebble |";
        add(1, "no table of terms".into(), "this check reads it", fix);
        return problems;
    };
    let mut before = String::new();
    for row in rows {
        let term = sort_key(row.cells[0]);
        if row.cells.len() != header.cells.len() {
            add(
                row.line,
                format!("{} cells", row.cells.len()),
                "the table has five columns",
                "add or join cells",
            );
        } else if row.cells[0].is_empty() || row.cells[1].is_empty() {
            add(
                row.line,
                "a row without a term or a definition".into(),
                "every term has one meaning",
                "write it",
            );
        }
        if term == before {
            add(row.line, format!("`{}` twice", row.cells[0]), "every term has one meaning", "join the rows");
        } else if term < before {
            add(
                row.line,
                format!("`{}` after `{before}`", row.cells[0]),
                "the rows are sorted",
                "move the row",
            );
        }
        before = term;
    }
    problems
}

fn sort_key(term: &str) -> String {
    term.to_lowercase().replace(['`', '-', '_'], "")
}

fn file_names(tree: &Tree, rows: &[Row<'_>]) -> Vec<Problem> {
    let mut known: BTreeSet<String> = PLAIN.iter().flat_map(|words| words.split(' ')).map(singular).collect();
    for row in rows.iter().skip(1) {
        known.extend(row.cells[0].split(|c: char| !c.is_alphanumeric()).map(singular));
    }
    let mut reported = BTreeSet::new();
    let mut problems = Vec::new();
    for source in &tree.sources {
        let Some(below) = ENGINE.iter().find_map(|folder| source.path.strip_prefix(folder)) else { continue };
        for name in below.trim_end_matches(".rs").split('/') {
            let unknown = name.split('_').filter(|word| !known.contains(&singular(word)));
            for word in unknown {
                let folder_len = source.path.find(&format!("/{name}")).map_or(0, |at| at + 1 + name.len());
                if reported.insert((source.path[..folder_len].to_owned(), word.to_owned())) {
                    let finding = format!("`{word}` in a file name is no term of the glossary");
                    let reason = "a reader who knows LevelDB guesses the file from its name";
                    let fix = "use the field's term, or add a row with its source to docs/glossary.md";
                    problems.push(problem(&source.path, 1, &finding, reason, fix));
                }
            }
        }
    }
    problems
}

/// The word in lower case, without the `s` of a plural.
fn singular(word: &str) -> String {
    let word = word.to_lowercase();
    if let Some(stem) = word.strip_suffix("ies") {
        return format!("{stem}y");
    }
    match word.strip_suffix('s') {
        Some(stem) if stem.len() > 2 && !stem.ends_with('s') => stem.to_owned(),
        _ => word,
    }
}

fn problem(file: &str, line: usize, finding: &str, reason: &str, fix: &str) -> Problem {
    Problem { file: file.into(), line, finding: finding.into(), reason: reason.into(), fix: fix.into() }
}

#[cfg(test)]
mod tests {
    use super::super::expect;
    use super::*;

    const HEAD: &str = "# Glossary\n\n| term | here | LevelDB | RocksDB | Pebble |\n|---|---|---|---|---|\n";

    #[track_caller]
    fn found(rows: &str, files: &[&str], problems: &[&str]) {
        let glossary = format!("{HEAD}{rows}");
        let mut all: Vec<(&str, &str)> = files.iter().map(|path| (*path, "")).collect();
        all.push((GLOSSARY, &glossary));
        expect(check, &all, problems);
    }

    #[test]
    fn invented_file_name() {
        let file = "crates/terrace/src/db/wish.rs";
        let problems = ["db", "wish"]
            .map(|word| format!("{file}:1: `{word}` in a file name is no term of the glossary"));
        found("", &[file], &problems.each_ref().map(String::as_str));
        found("| db | A. | - | - | - |\n| wish list | B. | - | - | - |\n", &[file], &[]);
    }

    #[test]
    fn words_of_terms() {
        let rows = "| obsolete file | A. | - | - | - |\n| write stall | B. | - | - | - |\n";
        found(rows, &["crates/terrace/src/obsolete_files.rs", "crates/terrace/src/write_stalls/mod.rs"], &[]);
        found("", &["crates/terrace-bench/src/wish.rs"], &[]);
    }

    #[test]
    fn unsorted_and_repeated_rows() {
        let rows = "| b | A. | - | - | - |\n| a | A. | - | - | - |\n| a | A. | - | - | - |\n";
        found(rows, &[], &["docs/glossary.md:6: `a` after `b`", "docs/glossary.md:7: `a` twice"]);
    }

    #[test]
    fn incomplete_rows() {
        found("| a |  | - | - | - |\n", &[], &["docs/glossary.md:5: a row without a term or a definition"]);
        found("| a | A. |\n", &[], &["docs/glossary.md:5: 2 cells"]);
        expect(check, &[(GLOSSARY, "| term | here |\n")], &["docs/glossary.md:1: no table of terms"]);
        expect(check, &[], &["docs/glossary.md:1: no glossary"]);
    }
}
