//! Paths that code names, with each group of imports expanded.
//!
//! ```text
//!   use std::{fs, time::{Duration as D, Instant}};     std::fs
//!   crate::db::open(todo!())                           std::time::Duration
//!                                                      std::time::Instant
//!                                                      crate::db::open   todo!
//! ```
//!
//! A single name is a path too, keywords included; a macro's name keeps its `!`.

use super::comments::is_word;

/// A path and its line, counted from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Path {
    /// Line of the last name.
    pub(super) line: usize,
    /// `a::b::c`.
    pub(super) text: String,
}

/// Paths in `code`, which contains no comments and no text.
pub(super) fn paths(code: &str) -> Vec<Path> {
    let mut reader = Reader { rest: code, line: 1, found: Vec::new() };
    while let Some(c) = reader.peek() {
        if is_word(c) { reader.path("") } else { reader.skip(1) }
    }
    reader.found
}

struct Reader<'a> {
    rest: &'a str,
    line: usize,
    found: Vec<Path>,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn skip(&mut self, chars: usize) {
        for _ in 0..chars {
            let mut rest = self.rest.chars();
            self.line += usize::from(rest.next() == Some('\n'));
            self.rest = rest.as_str();
        }
    }

    fn spaces(&mut self) {
        while self.peek().is_some_and(char::is_whitespace) {
            self.skip(1);
        }
    }

    fn eat(&mut self, mark: &str) -> bool {
        let there = self.rest.starts_with(mark);
        if there {
            self.skip(mark.chars().count());
        }
        there
    }

    fn word(&mut self) -> &'a str {
        let (word, rest) = self.rest.split_at(self.rest.find(|c| !is_word(c)).unwrap_or(self.rest.len()));
        self.rest = rest;
        word
    }

    /// Reads a path that continues `prefix`. The reader is at a name.
    fn path(&mut self, prefix: &str) {
        let mut text = format!("{prefix}{}", self.word());
        if self.eat("::") {
            text.push_str("::");
            return match self.peek() {
                Some('{') => self.group(&text),
                Some(c) if is_word(c) => self.path(&text),
                _ => self.push(text.trim_end_matches("::")),
            };
        }
        if self.rest.starts_with('!') && !self.rest.starts_with("!=") {
            text.push('!');
        }
        self.push(&text);
    }

    fn group(&mut self, prefix: &str) {
        self.skip(1);
        while let Some(c) = self.peek() {
            match c {
                '}' => return self.skip(1),
                '*' => self.push(prefix.trim_end_matches("::")),
                c if is_word(c) => {
                    self.path(prefix);
                    self.renaming();
                    continue;
                }
                _ => {}
            }
            self.skip(1);
        }
    }

    /// Skips the `as name` of an import.
    fn renaming(&mut self) {
        self.spaces();
        if self.eat("as ") {
            self.word();
        }
    }

    fn push(&mut self, text: &str) {
        self.found.push(Path { line: self.line, text: text.to_owned() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(code: &str, expect: &[(usize, &str)]) {
        let found = paths(code);
        let found: Vec<(usize, &str)> = found.iter().map(|p| (p.line, p.text.as_str())).collect();
        assert_eq!(found, expect);
    }

    #[test]
    fn plain() {
        check("a::b(c)", &[(1, "a::b"), (1, "c")]);
    }

    #[test]
    fn nested_groups_over_lines() {
        check(
            "use a::{\n  b::{c, self},\n  d,\n};",
            &[(1, "use"), (2, "a::b::c"), (2, "a::b::self"), (3, "a::d")],
        );
    }

    #[test]
    fn renamed_in_a_group() {
        check("a::{b as c, d}", &[(1, "a::b"), (1, "a::d")]);
    }

    #[test]
    fn globs() {
        check("a::*; b::{*}", &[(1, "a"), (1, "b")]);
    }

    #[test]
    fn macros_and_inequality() {
        check("todo!() x!= y", &[(1, "todo!"), (1, "x"), (1, "y")]);
    }

    #[test]
    fn turbofish() {
        check("Vec::<u8>::new()", &[(1, "Vec"), (1, "u8"), (1, "new")]);
    }
}
