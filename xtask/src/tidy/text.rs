//! Prose of the repository, as paragraphs of tokens: the comments of Rust files and the Markdown
//! files.
//!
//! ```text
//!   /// Reads `key` (see [Docs](https://x)).      reads ` ( see docs ) .
//!   ///
//!   /// - An item of a list.                      an item of a list .
//! ```
//!
//! A token is a lower-case word or one mark of punctuation. A code span is the single token
//! `` ` ``. Blank lines, list items, headings and table cells end a paragraph. Fenced code is left
//! out, except `text` fences: each of their lines is a paragraph.

use super::comments::Split;
use super::tree::Tree;

/// Kind of text that a paragraph comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// `///`, `//!` or `/**`.
    Doc,
    /// `//` or `/*`.
    Plain,
    /// A Markdown file.
    Markdown,
    /// A string of product code: a help text, an error, a log line.
    String,
}

/// A word, a code span or a mark of punctuation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    /// Lower-case text. A code span is `` ` ``.
    pub(super) text: String,
    /// Line number, from 1.
    pub(super) line: usize,
}

impl Token {
    /// Whether the token counts as a word.
    pub(super) fn is_word(&self) -> bool {
        self.text == CODE || self.text.chars().any(char::is_alphanumeric)
    }

    /// Whether the token ends a sentence.
    pub(super) fn ends_sentence(&self) -> bool {
        matches!(self.text.as_str(), "." | "?" | "!")
    }
}

/// Token text of a code span.
pub(super) const CODE: &str = "`";

/// Part of the prose that no phrase and no sentence crosses.
#[derive(Debug)]
pub(super) struct Paragraph<'a> {
    pub(super) file: &'a str,
    pub(super) kind: Kind,
    /// Whether this is the first paragraph of its comment.
    pub(super) is_first: bool,
    pub(super) tokens: Vec<Token>,
}

impl Paragraph<'_> {
    /// Sentences of the paragraph, each with its final mark.
    pub(super) fn sentences(&self) -> impl Iterator<Item = &[Token]> {
        self.tokens.split_inclusive(Token::ends_sentence)
    }
}

/// Paragraphs of every comment and every Markdown file.
pub(super) fn paragraphs(tree: &Tree) -> Vec<Paragraph<'_>> {
    let mut found = Vec::new();
    for source in &tree.sources {
        for comment in comments(&source.lines) {
            parse(&source.path, comment.kind, &comment.lines, &mut found);
        }
    }
    for file in tree.files.iter().filter(|file| is_document(&file.path)) {
        let lines: Vec<(usize, &str)> = (1..).zip(file.text.lines()).collect();
        parse(&file.path, Kind::Markdown, &lines, &mut found);
    }
    found
}

/// Strings of product code, those of a line as one paragraph. Tests are left out.
pub(super) fn strings(tree: &Tree) -> Vec<Paragraph<'_>> {
    let mut found = Vec::new();
    for source in tree.sources.iter().filter(|source| source.is_product()) {
        let lines = (1..)
            .zip(&source.lines)
            .filter(|(line, split)| !split.strings.is_empty() && !source.is_test(*line));
        for (line, split) in lines {
            let text = split.strings.replace("\\n", " ").replace('\n', " ");
            parse(&source.path, Kind::String, &[(line, &text)], &mut found);
        }
    }
    found
}

/// Consecutive comment lines of one kind, without their markers.
struct Comment<'a> {
    marker: &'a str,
    kind: Kind,
    lines: Vec<(usize, &'a str)>,
}

static MARKERS: &[(&str, Kind)] = &[
    ("////", Kind::Plain),
    ("///", Kind::Doc),
    ("//!", Kind::Doc),
    ("//", Kind::Plain),
    ("/***", Kind::Plain),
    ("/**", Kind::Doc),
    ("/*!", Kind::Doc),
    ("/*", Kind::Plain),
];

fn comments(lines: &[Split]) -> Vec<Comment<'_>> {
    let mut found: Vec<Comment<'_>> = Vec::new();
    let mut continues = false;
    for (line, split) in (1..).zip(lines) {
        let text = split.comment.trim();
        if text.is_empty() {
            continues = false;
            continue;
        }
        let own_line = split.code.trim().is_empty();
        let (marker, kind) = MARKERS
            .iter()
            .find(|(marker, _)| text.starts_with(marker))
            .map_or(("", Kind::Plain), |(marker, kind)| (*marker, *kind));
        let body = text[marker.len()..].trim_end_matches("*/");
        match found.last_mut() {
            Some(last)
                if continues && own_line && (marker == last.marker || is_block(last.marker, marker)) =>
            {
                last.lines.push((line, if marker.is_empty() { body.trim_start_matches('*') } else { body }));
            }
            _ => found.push(Comment { marker, kind, lines: vec![(line, body)] }),
        }
        continues = own_line || is_block(marker, "");
    }
    found
}

/// Whether a line that starts with `marker` continues a block comment that `first` opened.
fn is_block(first: &str, marker: &str) -> bool {
    marker.is_empty() && (first.starts_with("/*") || first.is_empty())
}

fn parse<'a>(file: &'a str, kind: Kind, lines: &[(usize, &str)], found: &mut Vec<Paragraph<'a>>) {
    let mut parser = Parser { file, kind, is_first: true, tokens: Vec::new(), found };
    let mut fence: Option<(&str, bool)> = None;
    for &(line, text) in lines {
        let text = text.trim();
        if let Some((mark, is_text)) = fence {
            if text.starts_with(mark) {
                fence = None;
            } else if is_text {
                parser.add(line, text);
                parser.end();
            }
        } else if let Some(mark) = ["```", "~~~"].into_iter().find(|mark| text.starts_with(mark)) {
            parser.end();
            fence = Some((mark, text[mark.len()..].trim() == "text"));
        } else {
            parser.line(line, text);
        }
    }
    parser.end();
}

struct Parser<'a, 'b> {
    file: &'a str,
    kind: Kind,
    is_first: bool,
    tokens: Vec<Token>,
    found: &'b mut Vec<Paragraph<'a>>,
}

impl Parser<'_, '_> {
    fn line(&mut self, line: usize, text: &str) {
        if text.starts_with('|') {
            self.end();
            for cell in text.split('|') {
                self.add(line, cell);
                self.end();
            }
            return;
        }
        let is_heading = text.starts_with('#');
        let item = item_marker(text);
        if text.is_empty() || is_heading || item > 0 {
            self.end();
        }
        self.add(line, &text[item..]);
        if is_heading {
            self.end();
        }
    }

    fn add(&mut self, line: usize, text: &str) {
        tokens(text, |text| self.tokens.push(Token { text: text.to_lowercase(), line }));
    }

    fn end(&mut self) {
        let tokens = std::mem::take(&mut self.tokens);
        if tokens.iter().any(Token::is_word) {
            self.found.push(Paragraph { file: self.file, kind: self.kind, is_first: self.is_first, tokens });
            self.is_first = false;
        }
    }
}

/// Length of the mark that starts an item of a list, or 0.
fn item_marker(text: &str) -> usize {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let numbered = digits > 0 && [". ", ") "].iter().any(|mark| text[digits..].starts_with(mark));
    let bulleted = ["- ", "* ", "+ "].iter().any(|mark| text.starts_with(mark));
    if numbered { digits + 2 } else { 2 * usize::from(bulleted) }
}

/// Abbreviations. The point after them ends no sentence.
static ABBREVIATIONS: &[&str] = &["e.g", "i.e", "etc", "cf", "vs"];

fn tokens(text: &str, mut add: impl FnMut(&str)) {
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let len = match c {
            '`' => code_span(rest, &mut add),
            ']' if rest.starts_with("](") => rest.find(')').map_or(1, |end| end + 1),
            c if c.is_alphanumeric() => word(rest, &mut add),
            '.' | ',' | ';' | ':' | '?' | '!' | '(' | ')' => {
                add(&rest[..1]);
                1
            }
            c => c.len_utf8(),
        };
        rest = &rest[len..];
    }
}

fn code_span(rest: &str, add: &mut impl FnMut(&str)) -> usize {
    let ticks = rest.len() - rest.trim_start_matches('`').len();
    let end = rest[ticks..].find(&rest[..ticks]).map_or(rest.len(), |at| at + 2 * ticks);
    add(CODE);
    // `Type`s and `key`'s are one word.
    let suffix =
        rest[end..].find(|c: char| !c.is_alphanumeric() && !"'’".contains(c)).unwrap_or(rest.len() - end);
    end + suffix
}

/// Length of the word at the start of `rest`. A mark inside of a word belongs to it: `db/mod.rs`,
/// `don't`.
fn word(rest: &str, add: &mut impl FnMut(&str)) -> usize {
    let end =
        rest.find(|c: char| c.is_whitespace() || "`()[]{}<>|\"“”,;!?*".contains(c)).unwrap_or(rest.len());
    let text = rest[..end].trim_end_matches(|c: char| !c.is_alphanumeric());
    add(text);
    let is_abbreviation = ABBREVIATIONS.iter().any(|known| text.eq_ignore_ascii_case(known));
    text.len() + usize::from(is_abbreviation && rest[text.len()..].starts_with('.'))
}

/// Whether the file is a document of this project. Licence texts have other authors.
fn is_document(path: &str) -> bool {
    path.ends_with(".md") && !path.ends_with("THIRD-PARTY.md")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, text: &str, expect: &[&str]) {
        let tree = Tree::of(&[(path, text)]);
        let found: Vec<String> = paragraphs(&tree)
            .iter()
            .map(|p| p.tokens.iter().map(|t| t.text.as_str()).collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(found, expect);
    }

    #[test]
    fn words_and_marks() {
        check("a.md", "Reads `a b`s (see [Docs](https://x)); don't.", &["reads ` ( see docs ) ; don't ."]);
        check("a.md", "e.g. a file, db/mod.rs.", &["e.g a file , db/mod.rs ."]);
    }

    #[test]
    fn paragraphs_of_markdown() {
        check("a.md", "# A b\nc\nd\n\n- e\n- f\n  g\n1. h", &["a b", "c d", "e", "f g", "h"]);
        check("a.md", "| a | b c |\n|---|---|\n| d | e |", &["a", "b c", "d", "e"]);
    }

    #[test]
    fn fences() {
        check("a.md", "a\n```rust\nlet b;\n```\nc\n```text\nd e\nf\n```", &["a", "c", "d e", "f"]);
    }

    #[test]
    fn comments_of_rust() {
        check(
            "a.rs",
            "//! A\n//! b.\n\n/// C.\n// d\nlet e = 1; // f\n// g\n",
            &["a b .", "c .", "d", "f", "g"],
        );
        check("a.rs", "/* a\n * b\n */\nlet c = \"// d\";", &["a b"]);
        check("a.rs", "/// A\n/// ```\n/// let b;\n/// ```\n/// c\nfn d() {}", &["a", "c"]);
    }

    #[test]
    fn strings_of_product_code() {
        let text = "f(\"A b\\nc\");\n#[test]\nfn d() { \"e\" }\n";
        let files = [("crates/terrace/src/a.rs", text), ("crates/terrace-testkit/src/a.rs", text)];
        let tree = Tree::of(&files);
        let found = strings(&tree);
        assert_eq!(found.len(), 1);
        assert_eq!(
            found[0].tokens.iter().map(|token| token.text.as_str()).collect::<Vec<_>>(),
            ["a", "b", "c"]
        );
    }

    #[test]
    fn lines_of_words() {
        let tree = Tree::of(&[("a.rs", "x\n// a\n// b c\n")]);
        let lines: Vec<usize> = paragraphs(&tree)[0].tokens.iter().map(|t| t.line).collect();
        assert_eq!(lines, [2, 3, 3]);
    }

    #[test]
    fn sentences_end_at_marks() {
        let tree = Tree::of(&[("a.md", "A b (e.g. c). D? F: g")]);
        let lens: Vec<usize> = paragraphs(&tree)[0].sentences().map(<[Token]>::len).collect();
        assert_eq!(lens, [7, 2, 3]);
    }
}
