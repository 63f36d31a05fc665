//! Prose rules of CONTRIBUTING.md that numbers decide: frequent pronouns, the start of a doc
//! comment, the width of comments and the length of sentences.

use std::fmt::Write;

use super::Problem;
use super::source::Source;
use super::text::{Kind, Paragraph, Token, paragraphs};
use super::tree::Tree;

/// Words with a limit of their frequency. They are signs of clauses without a noun and of threads
/// that are called persons.
struct Counted {
    name: &'static str,
    words: &'static [&'static str],
    /// Maximum number of uses per 1,000 words. About twice the frequency in the comments of redb.
    limit: f64,
}

static COUNTED: &[Counted] = &[
    Counted { name: "what", words: &["what", "what's"], limit: 2.5 },
    Counted { name: "who", words: &["who", "whom", "whose", "whoever", "who's"], limit: 1.3 },
    Counted {
        name: "-body",
        words: &[
            "nobody",
            "somebody",
            "anybody",
            "everybody",
            "nobody's",
            "somebody's",
            "anybody's",
            "everybody's",
        ],
        limit: 0.4,
    },
];

/// Maximum number of columns of a line that has a comment, its indentation included.
const MAX_COLUMNS: usize = 100;
/// Longer sentences are counted.
const LONG_SENTENCE: usize = 25;

/// Starts of doc comments that continue the name of an item instead of describing the item.
static DOC_STARTS: &[&[&str]] = &[&["of"], &["has"], &["with"], &["so"], &["to", "be"], &["what"], &["who"]];

/// Figures of one kind of prose.
#[derive(Default)]
struct Figures {
    words: usize,
    counted: [usize; COUNTED_LEN],
    sentences: usize,
    long_sentences: usize,
}

const COUNTED_LEN: usize = 3;

impl Figures {
    fn add(&mut self, paragraph: &Paragraph<'_>) {
        self.words += words(&paragraph.tokens);
        for (count, counted) in self.counted.iter_mut().zip(COUNTED) {
            *count += paragraph.tokens.iter().filter(|token| counted.matches(token)).count();
        }
        for sentence in paragraph.sentences() {
            self.sentences += 1;
            self.long_sentences += usize::from(words(sentence) > LONG_SENTENCE);
        }
    }

    /// Uses of counted word `at` per 1,000 words.
    fn rate(&self, at: usize) -> f64 {
        self.counted[at] as f64 * 1000.0 / self.words.max(1) as f64
    }
}

impl Counted {
    fn matches(&self, token: &Token) -> bool {
        self.words.contains(&token.text.as_str())
    }
}

fn words(tokens: &[Token]) -> usize {
    tokens.iter().filter(|token| token.is_word()).count()
}

/// The two kinds of prose with a limit of their own, and their figures.
fn figures(tree: &Tree) -> [(&'static str, Figures); 2] {
    let mut all = [("comments", Figures::default()), ("documents", Figures::default())];
    for paragraph in paragraphs(tree) {
        all[usize::from(paragraph.kind == Kind::Markdown)].1.add(&paragraph);
    }
    all
}

/// Table of the frequencies and their limits.
pub(super) fn report(tree: &Tree) -> String {
    let mut text = format!("{:<28}{:>7}", "prose, per 1,000 words", "words");
    for counted in COUNTED {
        let _ = write!(text, "{:>8}", counted.name);
    }
    let _ = writeln!(text, "{:>11}{:>20}", "sentences", "> 25 words");
    for (name, figures) in figures(tree) {
        let _ = write!(text, "{name:<28}{:>7}", figures.words);
        for at in 0..COUNTED_LEN {
            let _ = write!(text, "{:>8.1}", figures.rate(at));
        }
        let share = figures.long_sentences as f64 * 100.0 / figures.sentences.max(1) as f64;
        let _ = writeln!(text, "{:>11}{:>12} ({share:>3.0} %)", figures.sentences, figures.long_sentences);
    }
    let _ = write!(text, "{:<35}", "limit");
    for counted in COUNTED {
        let _ = write!(text, "{:>8.1}", counted.limit);
    }
    text.push_str("\n\n");
    text
}

/// Frequencies above their limit.
pub(super) fn frequencies(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (name, figures) in figures(tree) {
        for (at, counted) in COUNTED.iter().enumerate() {
            if figures.rate(at) > counted.limit {
                let finding =
                    format!("\"{}\" {:.1} times per 1,000 words of {name}", counted.name, figures.rate(at));
                let reason = format!("the limit is {:.1}", counted.limit);
                let fix = "name the thing or the actor (`cargo xtask tidy --all --uses` lists the places)";
                problems.push(Problem { file: name.into(), line: 0, finding, reason, fix: fix.into() });
            }
        }
    }
    problems
}

/// Every use of a counted word and every long sentence.
pub(super) fn uses(tree: &Tree) -> Vec<Problem> {
    let mut all = Vec::new();
    for paragraph in paragraphs(tree) {
        for token in
            paragraph.tokens.iter().filter(|token| COUNTED.iter().any(|counted| counted.matches(token)))
        {
            all.push(at(&paragraph, token, format!("\"{}\"", token.text), "has a limit per 1,000 words"));
        }
        for sentence in paragraph.sentences().filter(|sentence| words(sentence) > LONG_SENTENCE) {
            let finding = format!("a sentence of {} words", words(sentence));
            all.push(at(&paragraph, &sentence[0], finding, "25 words are enough for one idea"));
        }
    }
    all
}

fn at(paragraph: &Paragraph<'_>, token: &Token, finding: String, reason: &str) -> Problem {
    let fix = "use subject, verb and object, and name the actor".into();
    Problem { file: paragraph.file.into(), line: token.line, finding, reason: reason.into(), fix }
}

/// Doc comments that begin with a word of [`DOC_STARTS`].
pub(super) fn doc_starts(tree: &Tree) -> Vec<Problem> {
    let docs =
        paragraphs(tree).into_iter().filter(|paragraph| paragraph.kind == Kind::Doc && paragraph.is_first);
    docs.filter_map(|paragraph| {
        let words: Vec<&str> = paragraph.tokens.iter().map(|token| token.text.as_str()).take(2).collect();
        let start = DOC_STARTS.iter().find(|start| words.starts_with(start))?;
        Some(Problem {
            file: paragraph.file.into(),
            line: paragraph.tokens[0].line,
            finding: format!("a doc comment that begins with \"{}\"", start.join(" ")),
            reason: "it makes no sense when it is read alone".into(),
            fix: "begin with a noun or with a verb in the third person".into(),
        })
    })
    .collect()
}

/// Lines with comments that are too wide.
pub(super) fn columns(tree: &Tree) -> Vec<Problem> {
    tree.sources
        .iter()
        .flat_map(|source| (1..=source.lines.len()).filter_map(|line| too_wide(source, line)))
        .collect()
}

fn too_wide(source: &Source, line: usize) -> Option<Problem> {
    let split = &source.lines[line - 1];
    let columns = split.code.chars().count() + split.comment.chars().count();
    // A row of a table cannot wrap.
    let is_table_row = split.comment.trim_start_matches(['/', '!', ' ']).starts_with("| ");
    let is_address = split.comment.split_whitespace().any(|word| word.contains("://"));
    (!split.comment.is_empty() && columns > MAX_COLUMNS && !is_address && !is_table_row).then(|| Problem {
        file: source.path.clone(),
        line,
        finding: format!("a comment up to column {columns}"),
        reason: format!("comments wrap at {MAX_COLUMNS} columns"),
        fix: "wrap it".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::expect;
    use super::*;

    #[test]
    fn too_many_whats() {
        let text = format!("What {}", "a ".repeat(300));
        let found = "comments:0: \"what\" 3.3 times per 1,000 words of comments";
        expect(frequencies, &[("a.rs", &format!("// {text}"))], &[found]);
        let found = "documents:0: \"what\" 3.3 times per 1,000 words of documents";
        expect(frequencies, &[("a.md", &text)], &[found]);
    }

    #[test]
    fn few_whats() {
        expect(frequencies, &[("a.md", &format!("What {}", "a ".repeat(400)))], &[]);
        expect(frequencies, &[("a.rs", "what(who, nobody)")], &[]);
    }

    #[test]
    fn frequencies_are_printed() {
        let report = report(&Tree::of(&[("a.md", "Nobody knows who. Nobody.")]));
        assert!(report.contains("documents                         4     0.0   250.0   500.0"), "{report}");
    }

    #[test]
    fn places_of_uses_and_long_sentences() {
        let text = format!("Who?\n{}", "a ".repeat(26));
        expect(uses, &[("a.md", &text)], &["a.md:1: \"who\"", "a.md:2: a sentence of 26 words"]);
    }

    #[test]
    fn starts_of_doc_comments() {
        let found = "a.rs:2: a doc comment that begins with \"of\"";
        expect(doc_starts, &[("a.rs", "fn a() {}\n/// Of all keys.\n")], &[found]);
        let found = "a.rs:1: a doc comment that begins with \"to be\"";
        expect(doc_starts, &[("a.rs", "//! To be\n//! called.\n")], &[found]);
        expect(doc_starts, &[("a.rs", "/// Keys.\n///\n/// Of all.\n// Of all.\n")], &[]);
    }

    #[test]
    fn width_of_comments() {
        let wide = "a".repeat(98);
        let found = "a.rs:1: a comment up to column 101";
        expect(columns, &[("a.rs", &format!("// {wide}"))], &[found]);
        expect(columns, &[("a.rs", &format!("//{wide}\nlet a = \"{wide}\";"))], &[]);
        expect(columns, &[("a.rs", &format!("// https://{wide}"))], &[]);
        expect(columns, &[("a.rs", &format!("//! | {wide} |"))], &[]);
    }
}
