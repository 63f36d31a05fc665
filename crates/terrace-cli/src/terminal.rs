//! What we print on: its width, its characters, its colours.
//!
//! A file or a pipe gets plain ASCII drawings, 80 wide, without colour, so that what scripts read never changes.

use std::env;
use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::fd::AsFd;

use crate::escape::is_unprintable;

/// Standard output, buffered. Flush it: dropping it hides errors.
pub(crate) fn output() -> impl Write {
    BufWriter::with_capacity(64 << 10, io::stdout().lock())
}

/// `text` with its line feeds, and without anything else that a terminal obeys: names and messages may hold anything.
pub(crate) fn printable(text: impl Display) -> String {
    let mut safe = String::new();
    for c in text.to_string().chars() {
        if is_unprintable(c) && c != '\n' { safe.extend(c.escape_unicode()) } else { safe.push(c) }
    }
    safe
}

/// How to draw on standard output.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Style {
    /// Columns.
    pub(crate) width: usize,
    /// More than ASCII can be shown.
    pub(crate) unicode: bool,
    /// Colours can be shown and are wanted.
    pub(crate) colour: bool,
}

/// A colour, by its number in ANSI escapes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Colour {
    /// Titles.
    Bold = 1,
    /// What is less important.
    Dim = 2,
    /// What is good.
    Green = 32,
    /// Drawings.
    Cyan = 36,
}

impl Style {
    /// For files and pipes.
    pub(crate) const PLAIN: Style = Style { width: 80, unicode: false, colour: false };

    /// Of standard output.
    pub(crate) fn of_stdout() -> Style {
        if !io::stdout().is_terminal() {
            return Style::PLAIN;
        }
        Style {
            width: columns(io::stdout()).map_or(80, |columns| columns.clamp(40, 120)),
            unicode: is_utf8(),
            colour: wants_colour(),
        }
    }

    /// `what` in `colour`, if there are colours.
    pub(crate) fn paint(&self, colour: Colour, what: impl Display) -> String {
        if self.colour { format!("\x1b[{}m{what}\x1b[0m", colour as u8) } else { what.to_string() }
    }
}

/// The columns of a terminal that says how many it has.
pub(crate) fn columns(of: impl AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(of).ok()?;
    (size.ws_col > 0).then(|| usize::from(size.ws_col))
}

/// The first of these variables that is set names the characters of the terminal.
fn is_utf8() -> bool {
    let named =
        ["LC_ALL", "LC_CTYPE", "LANG"].iter().filter_map(|name| env::var(name).ok()).find(|v| !v.is_empty());
    named.is_some_and(|name| {
        let name = name.to_ascii_lowercase();
        name.contains("utf-8") || name.contains("utf8")
    })
}

fn wants_colour() -> bool {
    let set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
    !set("NO_COLOR") && env::var_os("TERM").is_none_or(|term| term != "dumb")
}
