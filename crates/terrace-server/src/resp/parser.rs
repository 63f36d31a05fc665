//! Parser of commands: it finds the arguments in the received bytes, in place.
//!
//! ```text
//!   buffer   *2\r\n$3\r\nGET\r\n$4\r\nBern\r\n*2\r\n$3...
//!                       ^ ^           ^  ^     ^ position: the next command
//!                       args[0]      args[1]
//! ```
//!
//! The parser copies nothing and allocates nothing per command: it returns ranges of the buffer,
//! and its list of ranges is reused. It checks a limit before it accepts an announced length, and
//! its memory grows with the received bytes only. It does not recurse. After an unfinished command
//! it resumes where the bytes ended.

use memchr::memchr;

/// Position of an argument in the buffer: its begin and its end.
pub type ArgRange = (u32, u32);

/// Maximum length of an inline command, and of the line that announces a length, in bytes.
const MAX_LINE: usize = 64 << 10;
/// Maximum length of an announced number with its line end, in bytes. 20 digits suffice.
const MAX_NUMBER_LINE: usize = 64;

/// First byte of a TLS handshake. No command begins with it.
const TLS_RECORD: u8 = 0x16;

/// Limits of a single command.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Maximum number of arguments, with the name of the command.
    pub args: usize,
    /// Maximum size of an argument, in bytes.
    pub arg_bytes: usize,
    /// Maximum size of a command with its framing, in bytes. At most 4 GiB.
    pub command_bytes: usize,
    /// Whether the client has logged in. It only changes the text of errors.
    pub is_authenticated: bool,
}

impl Limits {
    /// Limits of a client before its login.
    pub const BEFORE_LOGIN: Limits =
        Limits { args: 10, arg_bytes: 16 << 10, command_bytes: 64 << 10, is_authenticated: false };
    /// Limits of a client after its login.
    pub const AFTER_LOGIN: Limits =
        Limits { args: 1 << 20, arg_bytes: 64 << 20, command_bytes: 256 << 20, is_authenticated: true };
}

/// Violation of the protocol. The connection ends after its reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtocolError(pub String);

impl std::fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ERR Protocol error: {}", self.0)
    }
}

impl std::error::Error for ProtocolError {}

/// Result of a call of [`Parser::advance`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The command is unfinished.
    Incomplete,
    /// A whole command: [`Parser::args`] are its arguments, at least one.
    Command,
    /// An empty line or array, which needs no reply.
    Empty,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Start,
    /// Inside of an array, with the number of missing arguments.
    Array {
        missing: usize,
    },
    /// After the length of an argument, and before its bytes.
    Argument {
        missing: usize,
        len: usize,
    },
    Done,
}

/// Parser of one connection. Its buffer begins with the unfinished command.
#[derive(Debug)]
pub struct Parser {
    state: State,
    position: usize,
    args: Vec<ArgRange>,
}

impl Default for Parser {
    fn default() -> Parser {
        Parser::new()
    }
}

impl Parser {
    /// Creates a parser before the first command.
    pub const fn new() -> Parser {
        Parser { state: State::Start, position: 0, args: Vec::new() }
    }

    /// Positions of the arguments of the parsed command.
    pub fn args(&self) -> &[ArgRange] {
        &self.args
    }

    /// Length of the parsed command, in bytes.
    pub fn consumed(&self) -> usize {
        self.position
    }

    /// Exchanges the memory for positions with `other`, so that idle connections share it. Changes
    /// nothing within a command.
    pub fn swap_memory(&mut self, other: &mut Vec<ArgRange>) {
        if matches!(self.state, State::Start | State::Done) {
            self.begin();
            std::mem::swap(&mut self.args, other);
        }
    }

    /// Prepares for the next command. The buffer begins with it.
    pub fn begin(&mut self) {
        self.state = State::Start;
        self.position = 0;
        self.args.clear();
    }

    /// Continues with `buffer`, which begins with the current command and may be longer than in the
    /// previous call. Quotes of an inline command are removed in place.
    ///
    /// # Errors
    ///
    /// The bytes violate the protocol or a limit.
    pub fn advance(&mut self, buffer: &mut [u8], limits: &Limits) -> Result<Step, ProtocolError> {
        if self.state == State::Done {
            self.begin();
        }
        if self.state == State::Start {
            if let Some(end) = self.short_array(buffer, limits) {
                self.position = end;
                self.state = State::Done;
                return Ok(Step::Command);
            }
            self.args.clear();
        }
        loop {
            let progress = match self.state {
                State::Start if buffer.first() == Some(&TLS_RECORD) => {
                    return Err(error("TLS bytes on a port without TLS"));
                }
                State::Start if buffer.first().is_some_and(|byte| *byte != b'*') => {
                    return self.inline(buffer, limits);
                }
                State::Start => self.array_header(buffer, limits)?,
                State::Array { missing: 0 } | State::Done => {
                    self.state = State::Done;
                    return Ok(if self.args.is_empty() { Step::Empty } else { Step::Command });
                }
                State::Array { missing } => self.argument_header(buffer, missing, limits)?,
                State::Argument { missing, len } => self.argument(buffer, missing, len),
            };
            if !progress {
                return Ok(Step::Incomplete);
            }
        }
    }

    /// Parses a whole array of short arguments, and returns its end. Nearly all commands are such
    /// arrays. Returns None for other input, which needs the states.
    fn short_array(&mut self, buffer: &[u8], limits: &Limits) -> Option<usize> {
        let (count, mut position) = short_number_line(buffer, b'*')?;
        if count == 0 || count > limits.args {
            return None;
        }
        for _ in 0..count {
            let (len, header) = short_number_line(buffer.get(position..)?, b'$')?;
            let begin = position + header;
            position = begin + len + 2;
            if position > buffer.len().min(limits.command_bytes) || len > limits.arg_bytes {
                return None;
            }
            self.args.push(range(begin, begin + len));
        }
        Some(position)
    }

    /// Parses `*N`. Returns false if the line is unfinished.
    fn array_header(&mut self, buffer: &[u8], limits: &Limits) -> Result<bool, ProtocolError> {
        let Some((number, end)) = number_line(buffer, self.position, "too big mbulk count string")? else {
            return Ok(false);
        };
        let count = number.ok_or_else(|| error("invalid multibulk length"))?;
        let missing = usize::try_from(count.max(0)).unwrap_or(usize::MAX);
        if missing > limits.args {
            let text = if limits.is_authenticated { "invalid" } else { "unauthenticated" };
            return Err(error(&format!("{text} multibulk length")));
        }
        self.position = end;
        self.state = State::Array { missing };
        Ok(true)
    }

    /// Parses `$N`. Returns false if the line is unfinished.
    fn argument_header(
        &mut self,
        buffer: &[u8],
        missing: usize,
        limits: &Limits,
    ) -> Result<bool, ProtocolError> {
        match buffer.get(self.position) {
            None => return Ok(false),
            Some(b'$') => {}
            Some(other) => {
                return Err(error(&format!("expected '$', got '{}'", char::from(*other).escape_default())));
            }
        }
        let Some((number, end)) = number_line(buffer, self.position, "too big bulk count string")? else {
            return Ok(false);
        };
        let len = number.and_then(|len| usize::try_from(len).ok());
        let len = len.ok_or_else(|| error("invalid bulk length"))?;
        if len > limits.arg_bytes {
            let text = if limits.is_authenticated { "invalid" } else { "unauthenticated" };
            return Err(error(&format!("{text} bulk length")));
        }
        if end + len + 2 > limits.command_bytes {
            return Err(error("too big command"));
        }
        self.position = end;
        self.state = State::Argument { missing, len };
        Ok(true)
    }

    /// Skips the bytes of an argument and its line end. Returns false if they are not all there.
    fn argument(&mut self, buffer: &[u8], missing: usize, len: usize) -> bool {
        let end = self.position + len;
        if buffer.len() < end + 2 {
            return false;
        }
        self.args.push(range(self.position, end));
        self.position = end + 2;
        self.state = State::Array { missing: missing - 1 };
        true
    }

    fn inline(&mut self, buffer: &mut [u8], limits: &Limits) -> Result<Step, ProtocolError> {
        let max = MAX_LINE.min(limits.command_bytes);
        let Some(end) = memchr(b'\n', &buffer[..buffer.len().min(max)]) else {
            return if buffer.len() < max {
                Ok(Step::Incomplete)
            } else {
                Err(error("too big inline request"))
            };
        };
        let line_end = if end > 0 && buffer[end - 1] == b'\r' { end - 1 } else { end };
        split_line(&mut buffer[..line_end], limits.args, &mut self.args)?;
        self.position = end + 1;
        self.state = State::Done;
        Ok(if self.args.is_empty() { Step::Empty } else { Step::Command })
    }
}

fn error(text: &str) -> ProtocolError {
    ProtocolError(text.to_owned())
}

/// A limit of a command keeps both below 4 GiB.
fn range(begin: usize, end: usize) -> ArgRange {
    (begin as u32, end as u32)
}

/// Number of a finished line, or None for other text, and the position after the line.
type NumberLine = (Option<i64>, usize);

/// Returns the number after the first byte of the line at `begin`, or None if the line is
/// unfinished.
fn number_line(buffer: &[u8], begin: usize, too_long: &str) -> Result<Option<NumberLine>, ProtocolError> {
    let rest = buffer.get(begin + 1..).unwrap_or_default();
    let Some(len) = memchr(b'\r', &rest[..rest.len().min(MAX_NUMBER_LINE)]) else {
        return if rest.len() < MAX_NUMBER_LINE { Ok(None) } else { Err(error(too_long)) };
    };
    if rest.len() < len + 2 {
        return Ok(None);
    }
    Ok(Some((super::parse_i64(&rest[..len]), begin + 1 + len + 2)))
}

/// Returns the number of up to three digits after the byte `kind` at the start of `line`, and the
/// length of the line. Returns None for another or unfinished line.
#[inline]
fn short_number_line(line: &[u8], kind: u8) -> Option<(usize, usize)> {
    let (first, rest) = line.split_first()?;
    if *first != kind {
        return None;
    }
    let mut number = 0;
    for (len, byte) in rest.get(..5)?.iter().enumerate() {
        match byte {
            b'0'..=b'9' if len < 3 => number = number * 10 + usize::from(byte - b'0'),
            // A number of several digits does not begin with 0.
            b'\r' if len == 1 || (len > 0 && rest[0] != b'0') => return Some((number, 1 + len + 2)),
            _ => return None,
        }
    }
    None
}

/// Splits the inline command `line` into arguments. `"a\x00b"` and `'a b'` are arguments in quotes.
fn split_line(line: &mut [u8], max_args: usize, args: &mut Vec<ArgRange>) -> Result<(), ProtocolError> {
    let mut at = 0;
    loop {
        while line.get(at).is_some_and(u8::is_ascii_whitespace) {
            at += 1;
        }
        // Redis takes the line for a C string, so a zero byte ends it.
        if matches!(line.get(at), None | Some(0)) {
            return Ok(());
        }
        if args.len() == max_args {
            return Err(error("too many arguments"));
        }
        let begin = at;
        let mut end = begin;
        at = unquote(line, begin, &mut end).ok_or_else(|| error("unbalanced quotes in request"))?;
        args.push(range(begin, end));
    }
}

/// Moves the characters of the argument at `at` to `end..`, without quotes and escapes. Returns the
/// position after the argument, or None if a quote has no end.
fn unquote(line: &mut [u8], mut at: usize, end: &mut usize) -> Option<usize> {
    let mut quote = None;
    loop {
        let byte = match line.get(at) {
            None => return quote.is_none().then_some(at),
            Some(byte) => *byte,
        };
        let (value, len) = match (quote, byte) {
            (None, b'"' | b'\'') => {
                quote = Some(byte);
                at += 1;
                continue;
            }
            (None, byte) if byte.is_ascii_whitespace() || byte == 0 => return Some(at),
            (Some(open), byte) if open == byte => {
                // Only a space may follow the end of a quoted argument.
                let is_end = line.get(at + 1).is_none_or(u8::is_ascii_whitespace);
                return is_end.then_some(at + 1);
            }
            (Some(b'"'), b'\\') => escape(&line[at..])?,
            (Some(b'\''), b'\\') if line.get(at + 1) == Some(&b'\'') => (b'\'', 2),
            (_, byte) => (byte, 1),
        };
        line[*end] = value;
        *end += 1;
        at += len;
    }
}

/// Returns the byte that the escape at the start of `text` stands for, and the length of the
/// escape.
fn escape(text: &[u8]) -> Option<(u8, usize)> {
    let hex = |digit: Option<&u8>| char::from(*digit?).to_digit(16);
    if let (Some(b'x'), Some(high), Some(low)) = (text.get(1), hex(text.get(2)), hex(text.get(3))) {
        return Some(((high * 16 + low) as u8, 4));
    }
    let byte = match text.get(1)? {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'a' => 7,
        other => *other,
    };
    Some((byte, 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses `input`, all at once and byte by byte, and compares the commands with `expected`.
    #[track_caller]
    fn check(input: &[u8], expected: &str) {
        check_with(input, &Limits::AFTER_LOGIN, expected);
    }

    #[track_caller]
    fn check_with(input: &[u8], limits: &Limits, expected: &str) {
        assert_eq!(parse(input, input.len().max(1), limits), expected, "at once");
        assert_eq!(parse(input, 1, limits), expected, "byte by byte");
        assert_eq!(parse(input, 7, limits), expected, "seven bytes at a time");
    }

    fn parse(input: &[u8], step: usize, limits: &Limits) -> String {
        let mut parser = Parser::new();
        let mut buffer = Vec::new();
        let mut text = String::new();
        for part in input.chunks(step) {
            buffer.extend_from_slice(part);
            loop {
                match parser.advance(&mut buffer, limits) {
                    Err(error) => return text + &error.0,
                    Ok(Step::Incomplete) => break,
                    Ok(Step::Empty) => text += "empty; ",
                    Ok(Step::Command) => {
                        for (begin, end) in parser.args() {
                            text += &buffer[*begin as usize..*end as usize].escape_ascii().to_string();
                            text += ",";
                        }
                        text += " ";
                    }
                }
                buffer.drain(..parser.consumed());
                parser.begin();
            }
        }
        text + if buffer.is_empty() { "end" } else { "unfinished" }
    }

    #[test]
    fn arrays() {
        check(b"*2\r\n$3\r\nGET\r\n$4\r\nBern\r\n", "GET,Bern, end");
        check(b"*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nPING\r\n", "PING, PING, end");
        check(b"*2\r\n$0\r\n\r\n$2\r\n\r\n\r\n", ",\\r\\n, end");
        check(b"*0\r\n*-1\r\n", "empty; empty; end");
    }

    #[test]
    fn inline_commands() {
        check(b"PING\r\n", "PING, end");
        check(b"  get  Bern \n\r\n", "get,Bern, empty; end");
        check(b"get\0Bern\r\n", "get, end");
        check(br#"set "a b\x41\n" 'c\'d'"#, "unfinished");
        check(b"set \"a b\\x41\\n\" 'c\\'d'\r\n", "set,a bA\\n,c\\'d, end");
    }

    #[test]
    fn unbalanced_quotes() {
        for line in ["\"a\r\n", "'a\r\n", "\"a\"b\r\n", "\"a\\\r\n"] {
            check(line.as_bytes(), "unbalanced quotes in request");
        }
    }

    #[test]
    fn unfinished_commands() {
        for input in ["*", "*2", "*2\r", "*2\r\n", "*2\r\n$3\r\nGET", "*1\r\n$4\r\nPING\r", "PING"] {
            check(input.as_bytes(), "unfinished");
        }
    }

    #[test]
    fn invalid_lengths() {
        check(b"*x\r\n", "invalid multibulk length");
        check(b"*1048577\r\n", "invalid multibulk length");
        check(b"*1\r\n$-1\r\n", "invalid bulk length");
        check(b"*1\r\n$67108865\r\n", "invalid bulk length");
        check(b"*1\r\n:1\r\n", "expected '$', got ':'");
        check(&[b'*'; 100], "too big mbulk count string");
    }

    #[test]
    fn announced_lengths_need_no_memory() {
        let mut parser = Parser::new();
        let mut buffer = b"*1048576\r\n$67108864\r\n".to_vec();
        assert_eq!(parser.advance(&mut buffer, &Limits::AFTER_LOGIN), Ok(Step::Incomplete));
        assert_eq!(parser.args.capacity(), 0);
    }

    #[test]
    fn nested_arrays() {
        check(&b"*1\r\n".repeat(10_000), "expected '$', got '*'");
    }

    #[test]
    fn long_inline_command() {
        check(&[b'a'; MAX_LINE], "too big inline request");
    }

    #[test]
    fn whole_command_has_a_limit() {
        let limits = Limits { command_bytes: 30, ..Limits::AFTER_LOGIN };
        check_with(b"*2\r\n$5\r\nabcde\r\n$12\r\n", &limits, "too big command");
    }

    #[test]
    fn before_login() {
        let limits = Limits::BEFORE_LOGIN;
        check_with(b"*11\r\n", &limits, "unauthenticated multibulk length");
        check_with(b"*1\r\n$16385\r\n", &limits, "unauthenticated bulk length");
        check_with(b"*2\r\n$4\r\nAUTH\r\n$1\r\nx\r\n", &limits, "AUTH,x, end");
    }
}
