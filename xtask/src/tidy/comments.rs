//! Splits Rust text into code and comments, line by line.
//!
//! ```text
//!   let url = "http://x"; // why        code:    let url = "        ";
//!                                       comment: // why
//! ```
//!
//! The contents of strings and characters become spaces, so that a search of the code finds no
//! text.

/// One line, in its two parts.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Split {
    /// The line without comments, literals blanked.
    pub(super) code: String,
    /// Comments of the line.
    pub(super) comment: String,
    /// Strings of the line, a space between them. Byte strings are data and left out.
    pub(super) strings: String,
}

/// Splits `text`.
pub(super) fn split(text: &str) -> Vec<Split> {
    let mut lines = vec![Split::default()];
    let mut rest = text;
    while !rest.is_empty() {
        let (class, len) = token(rest);
        let (token, after) = rest.split_at(len);
        if class == Class::Literal {
            push_string(&mut lines, token);
        }
        push(&mut lines, class, token);
        rest = after;
    }
    if text.ends_with('\n') {
        lines.pop();
    }
    lines
}

#[derive(Clone, Copy, PartialEq)]
enum Class {
    Code,
    Comment,
    Literal,
}

/// Adds the contents of `token`, if it is a string, to the line where it begins.
fn push_string(lines: &mut [Split], token: &str) {
    // `split` starts with one line and only adds more.
    let line = lines.last_mut().expect("a line");
    let contents = token.trim_start_matches(['r', '#']);
    if let Some(contents) = contents.strip_prefix('"')
        && !line.code.ends_with('b')
    {
        line.strings.push_str(contents.trim_end_matches(['"', '#']));
        line.strings.push(' ');
    }
}

fn push(lines: &mut Vec<Split>, class: Class, token: &str) {
    let last = token.chars().count() - 1;
    for (i, c) in token.chars().enumerate() {
        if c == '\n' {
            lines.push(Split::default());
            continue;
        }
        // `split` starts with one line and only adds more.
        let line = lines.last_mut().expect("a line");
        match class {
            Class::Comment => line.comment.push(c),
            Class::Literal if i != 0 && i != last => line.code.push(' '),
            Class::Code | Class::Literal => line.code.push(c),
        }
    }
}

/// Class and length of the token at the start of `rest`, which is not empty.
fn token(rest: &str) -> (Class, usize) {
    if rest.starts_with("//") {
        return (Class::Comment, rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return (Class::Comment, block_comment(rest));
    }
    if let Some(len) = raw_string(rest) {
        return (Class::Literal, len);
    }
    match rest.chars().next() {
        Some('"') => (Class::Literal, string(rest)),
        Some('\'') => character(rest).map_or((Class::Code, 1), |len| (Class::Literal, len)),
        Some(c) if is_word(c) => (Class::Code, rest.find(|c| !is_word(c)).unwrap_or(rest.len())),
        c => (Class::Code, c.map_or(0, char::len_utf8)),
    }
}

/// Whether `c` may be part of a name or a number.
pub(super) fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

/// Block comments nest.
fn block_comment(rest: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

fn raw_string(rest: &str) -> Option<usize> {
    let opening = ["r", "br", "cr"].iter().find_map(|prefix| {
        let after = rest.strip_prefix(prefix)?;
        let hashes = after.len() - after.trim_start_matches('#').len();
        after[hashes..].starts_with('"').then_some((prefix.len() + hashes + 1, hashes))
    });
    let (start, hashes) = opening?;
    let end = format!("\"{}", "#".repeat(hashes));
    Some(rest[start..].find(&end).map_or(rest.len(), |at| start + at + end.len()))
}

fn string(rest: &str) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            '"' if !escaped => return at + 1,
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    rest.len()
}

/// Length of a character literal, or `None` for the quote of a lifetime.
fn character(rest: &str) -> Option<usize> {
    let mut chars = rest.char_indices().skip(1);
    let (_, first) = chars.next()?;
    if first == '\\' {
        chars.next();
        return chars.find(|(_, c)| *c == '\'').map(|(at, _)| at + 1);
    }
    chars.next().filter(|(_, c)| *c == '\'').map(|(at, _)| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: &[(&str, &str)]) {
        let found = split(text);
        let found: Vec<(&str, &str)> = found.iter().map(|l| (l.code.as_str(), l.comment.as_str())).collect();
        assert_eq!(found, expect);
    }

    #[test]
    fn line_comment() {
        check("a; // b\nc", &[("a; ", "// b"), ("c", "")]);
    }

    #[test]
    fn nested_block_comment() {
        check("a /* b /* c\n */ d */ e", &[("a ", "/* b /* c"), (" e", " */ d */")]);
    }

    #[test]
    fn comment_marks_in_a_string() {
        check(r#"f("// \" x") // y"#, &[("f(\"       \") ", "// y")]);
    }

    #[test]
    fn raw_string_with_quotes() {
        check("f(r#\"a \"b\" \\\"#) // y", &[("f(r          #) ", "// y")]);
    }

    #[test]
    fn string_over_two_lines() {
        check("f(\"a\nunsafe\");", &[("f(\" ", ""), ("      \");", "")]);
    }

    #[test]
    fn contents_of_strings() {
        let lines = split("f(\"a b\", b\"c\", 'd', r#\"e\"f\"#) // \"g\"\n\"h\ni\"");
        assert_eq!(lines[0].strings, "a b e\"f ");
        assert_eq!(lines[1].strings, "h\ni ");
    }

    #[test]
    fn characters_and_lifetimes() {
        check(r"'\'' '/' b'\\' &'a x", &[(r"'  ' ' ' b'  ' &'a x", "")]);
    }
}
