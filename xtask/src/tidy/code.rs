//! The code of a Rust file as one text, without comments and literals, with the searches that
//! checks of habits need.

use super::comments::is_word;
use super::source::Source;

/// Code of a file. Positions are byte offsets into `text`.
pub(super) struct Code<'a> {
    pub(super) source: &'a Source,
    pub(super) text: String,
    /// Offset of each line.
    lines: Vec<usize>,
}

impl<'a> Code<'a> {
    pub(super) fn new(source: &'a Source) -> Code<'a> {
        let mut text = String::new();
        let mut lines = Vec::new();
        for line in &source.lines {
            lines.push(text.len());
            text.push_str(&line.code);
            text.push('\n');
        }
        Code { source, text, lines }
    }

    /// Line number of the position `at`, from 1.
    pub(super) fn line(&self, at: usize) -> usize {
        self.lines.partition_point(|start| *start <= at)
    }

    /// Positions of the word `word`.
    pub(super) fn words(&self, word: &str) -> impl Iterator<Item = usize> {
        self.words_within(word, 0, self.text.len())
    }

    /// Positions of the word `word` from `start` to `end`.
    pub(super) fn words_within(&self, word: &str, start: usize, end: usize) -> impl Iterator<Item = usize> {
        let hits = self.text[start..end].match_indices(word).map(move |(at, _)| start + at);
        hits.filter(move |at| {
            let before = self.text[..*at].chars().next_back();
            let after = self.text[at + word.len()..].chars().next();
            !before.is_some_and(is_word) && !after.is_some_and(is_word)
        })
    }

    pub(super) fn skip_spaces(&self, at: usize) -> usize {
        let rest = &self.text[at..];
        at + rest.len() - rest.trim_start().len()
    }

    /// The name at `at`, or nothing.
    pub(super) fn ident(&self, at: usize) -> &str {
        let rest = &self.text[at..];
        &rest[..rest.find(|c| !is_word(c)).unwrap_or(rest.len())]
    }

    /// The character before `at`, spaces skipped.
    pub(super) fn char_before(&self, at: usize) -> Option<char> {
        self.text[..at].trim_end().chars().next_back()
    }

    /// The word that ends before `at`, spaces skipped.
    pub(super) fn word_before(&self, at: usize) -> &str {
        last_word(&self.text[..at])
    }

    /// The bracketed text at `at`, brackets included.
    pub(super) fn group(&self, at: usize) -> Option<&str> {
        self.text[at..].starts_with('(').then(|| &self.text[at..at + group_len(&self.text[at..])])
    }

    /// Position of the value after `= ` (or `: Type = `) at `at`.
    pub(super) fn value_after(&self, at: usize) -> Option<usize> {
        let mut at = self.skip_spaces(at);
        if self.text[at..].starts_with(':') && !self.text[at..].starts_with("::") {
            at = self.skip_type(at + 1);
        }
        let rest = &self.text[at..];
        (rest.starts_with('=') && !rest.starts_with("==") && !rest.starts_with("=>"))
            .then(|| self.skip_spaces(at + 1))
    }

    /// Position of the `=` or `;` after the type at `at`.
    fn skip_type(&self, mut at: usize) -> usize {
        while let Some(c) = self.text[at..].chars().next() {
            match c {
                '=' | ';' => return at,
                '(' | '[' => at += group_len(&self.text[at..]),
                '-' if self.text[at..].starts_with("->") => at += 2,
                c => at += c.len_utf8(),
            }
        }
        at
    }

    /// Position of the `;` that ends the statement around `at`, or of its block's closing bracket.
    pub(super) fn statement_end(&self, at: usize) -> usize {
        self.skip_until(at, |c| c == ';')
    }

    /// Position of the bracket that ends the block around `at`.
    pub(super) fn block_end(&self, at: usize) -> usize {
        self.skip_until(at, |_| false)
    }

    /// Position of the body, or of the `;`, after the head of the function at `at`.
    pub(super) fn function_body(&self, mut at: usize) -> usize {
        while let Some(c) = self.text[at..].chars().next() {
            match c {
                '(' | '[' => at += group_len(&self.text[at..]),
                '{' | '}' | ';' => return at,
                c => at += c.len_utf8(),
            }
        }
        at
    }

    fn skip_until(&self, mut at: usize, stop: impl Fn(char) -> bool) -> usize {
        while let Some(c) = self.text[at..].chars().next() {
            match c {
                '(' | '[' | '{' => at += group_len(&self.text[at..]),
                ')' | ']' | '}' => return at,
                c if stop(c) => return at,
                c => at += c.len_utf8(),
            }
        }
        at
    }

    /// Whether the `|a, b|` of a closure ends before `at`.
    pub(super) fn ends_closure_head(&self, at: usize) -> bool {
        let before = self.text[..at].trim_end();
        before.strip_suffix('|').is_some_and(|head| {
            let open = head.rfind('|').map(|open| head[..open].trim_end());
            open.is_some_and(|before| before.ends_with(['(', ',', '=']) || last_word(before) == "move")
        })
    }

    /// Whether the expression that ends before `at` follows the `in` of a `for` loop.
    pub(super) fn is_loop_source(&self, at: usize) -> bool {
        let mut start = at;
        while let Some(c) = self.text[..start].chars().next_back() {
            match c {
                ')' | ']' => start -= group_len_back(&self.text[..start]),
                c if is_word(c) || ".:&?".contains(c) => start -= c.len_utf8(),
                _ => break,
            }
        }
        self.word_before(start) == "in"
    }

    /// Position of the condition after `if` in the match arm that has its `=>` at `at`.
    pub(super) fn guard_before(&self, at: usize) -> Option<usize> {
        let mut start = at;
        while let Some(c) = self.text[..start].chars().next_back() {
            match c {
                ')' | ']' | '}' => start -= group_len_back(&self.text[..start]),
                '(' | '[' | '{' | ',' | ';' => break,
                '>' if self.text[..start].ends_with("=>") => break,
                c => start -= c.len_utf8(),
            }
        }
        // The guard is the last `if` outside of brackets.
        let mut found = None;
        let mut position = start;
        while position < at {
            let c = self.text[position..].chars().next()?;
            match c {
                '(' | '[' | '{' => position += group_len(&self.text[position..]),
                c if is_word(c) => {
                    let word = self.ident(position);
                    position += word.len();
                    found = if word == "if" { Some(position) } else { found };
                }
                c => position += c.len_utf8(),
            }
        }
        found
    }
}

/// The last word of `text`, spaces skipped.
pub(super) fn last_word(text: &str) -> &str {
    let text = text.trim_end();
    &text[text
        .rfind(|c| !is_word(c))
        .map_or(0, |at| at + text[at..].chars().next().map_or(1, char::len_utf8))..]
}

/// Length of the bracketed text at the start of `text`.
pub(super) fn group_len(text: &str) -> usize {
    let mut depth = 0usize;
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return at + c.len_utf8();
        }
    }
    text.len()
}

/// Length of the bracketed text at the end of `text`.
pub(super) fn group_len_back(text: &str) -> usize {
    let mut depth = 0usize;
    for (at, c) in text.char_indices().rev() {
        match c {
            ')' | ']' | '}' => depth += 1,
            '(' | '[' | '{' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return text.len() - at;
        }
    }
    text.len()
}

/// The parts of the bracketed text `group` between its commas.
pub(super) fn parts(group: &str) -> usize {
    let inner = &group[1..group.len() - 1];
    let mut count = usize::from(!inner.trim().is_empty());
    let mut at = 0;
    while let Some(c) = inner[at..].chars().next() {
        match c {
            '(' | '[' | '{' => at += group_len(&inner[at..]),
            ',' => {
                at += 1;
                count += usize::from(!inner[at..].trim().is_empty());
            }
            // A `<` of generics: commas inside of it separate no values.
            '<' if inner[..at].ends_with("::") => at += generics_len(&inner[at..]),
            // The head of a closure.
            '|' if inner[..at].trim_end().ends_with(['(', ',']) || inner[..at].trim().is_empty() => {
                at += 1 + inner[at + 1..].find('|').map_or(0, |end| end + 1);
            }
            c => at += c.len_utf8(),
        }
    }
    count
}

fn generics_len(text: &str) -> usize {
    let mut depth = 0usize;
    for (at, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            '>' if !text[..at].ends_with('-') => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_tuple() {
        assert_eq!(parts("()"), 0);
        assert_eq!(parts("(a)"), 1);
        assert_eq!(parts("(a, f(b, c), |d, e| d + e, [g, h],)"), 4);
        assert_eq!(parts("(f::<a, b>(), c)"), 2);
    }

    #[test]
    fn guards() {
        let source = Source::new(
            "a.rs",
            "match a {\n Some(b) if b == f(c) => d,\n E { f, .. } => { if g {} }\n H | I if j => k }",
        );
        let code = Code::new(&source);
        let guards: Vec<Option<&str>> = code
            .text
            .match_indices("=>")
            .map(|(at, _)| code.guard_before(at).map(|guard| code.text[guard..at].trim()))
            .collect();
        assert_eq!(guards, [Some("b == f(c)"), None, Some("j")]);
    }

    #[test]
    fn statements_and_blocks() {
        let source = Source::new("a.rs", "{ let a = { b; c }; d; }");
        let code = Code::new(&source);
        assert_eq!(code.statement_end(10), 18);
        assert_eq!(code.block_end(10), 23);
        assert_eq!(code.line(10), 1);
    }
}
