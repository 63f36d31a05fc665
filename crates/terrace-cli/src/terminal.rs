//! Standard output: its width, its characters and its colours.
//!
//! A file or a pipe gets plain ASCII drawings, 80 columns wide, without colours, so that scripts
//! always read the same text.

#[cfg_attr(windows, path = "terminal/missing_output.rs")]
mod closed_output;

use std::env;
use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};

use terminal_size::{Height, Width, terminal_size_of};

use crate::escape::is_unprintable;

/// Standard output, buffered. The caller must flush it, because dropping it ignores errors.
pub(crate) fn output() -> impl Write {
    BufWriter::with_capacity(64 << 10, StandardOutput(io::stdout().lock()))
}

/// Returns an error if standard output was closed when the program started.
pub(crate) fn check_output() -> io::Result<()> {
    closed_output::check()
}

/// Standard output. A write fails if it was closed when the program started.
struct StandardOutput(StdoutLock<'static>);

impl Write for StandardOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        closed_output::check()?;
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Writes a line to standard error. An error is ignored, because there is no place to report it.
pub(crate) fn note(text: impl Display) {
    let _ = io::stderr().write_all(format!("{text}\n").as_bytes());
}

/// Escapes control characters of `text` except line feeds, because names and messages may contain
/// any bytes.
pub(crate) fn printable(text: impl Display) -> String {
    let mut safe = String::new();
    for c in text.to_string().chars() {
        if is_unprintable(c) && c != '\n' { safe.extend(c.escape_unicode()) } else { safe.push(c) }
    }
    safe
}

/// Style of drawings on standard output.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Style {
    /// Width in columns.
    pub(crate) width: usize,
    /// Whether characters other than ASCII can be displayed.
    pub(crate) unicode: bool,
    /// Whether colours can be displayed and are wanted.
    pub(crate) colour: bool,
}

/// A text style, with its number in ANSI escape sequences.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Colour {
    /// Titles.
    Bold = 1,
    /// Less important text.
    Dim = 2,
    /// Warnings.
    Red = 31,
    /// Successful steps.
    Green = 32,
    /// Drawings.
    Cyan = 36,
}

impl Style {
    /// Style for files and pipes.
    pub(crate) const PLAIN: Style = Style { width: 80, unicode: false, colour: false };

    /// Style for standard output.
    pub(crate) fn of_stdout() -> Style {
        if !io::stdout().is_terminal() {
            return Style::PLAIN;
        }
        Style {
            width: columns(terminal_size_of(io::stdout())).map_or(80, |columns| columns.clamp(40, 120)),
            unicode: is_utf8(),
            colour: wants_colour(),
        }
    }

    /// Formats `text` in `colour`, if colours are enabled.
    pub(crate) fn paint(&self, colour: Colour, text: impl Display) -> String {
        if self.colour { format!("\x1b[{}m{text}\x1b[0m", colour as u8) } else { text.to_string() }
    }
}

/// Width of the terminal of standard error in columns; `None` if it is unknown.
pub(crate) fn error_columns() -> Option<usize> {
    columns(terminal_size_of(io::stderr()))
}

fn columns(size: Option<(Width, Height)>) -> Option<usize> {
    let (Width(columns), _) = size?;
    (columns > 0).then(|| usize::from(columns))
}

/// Whether the first locale variable that is set names UTF-8.
fn is_utf8() -> bool {
    let locale =
        ["LC_ALL", "LC_CTYPE", "LANG"].iter().filter_map(|name| env::var(name).ok()).find(|v| !v.is_empty());
    locale.is_some_and(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}

fn wants_colour() -> bool {
    let no_color = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    !no_color && env::var_os("TERM").is_none_or(|term| term != "dumb")
}
