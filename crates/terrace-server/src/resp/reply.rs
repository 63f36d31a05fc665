//! Replies of the server, in version 2 or 3 of the protocol.

use super::{format_decimal, format_score};

/// Replies of a turn, as bytes for the client.
#[derive(Debug, Default)]
pub struct Reply {
    bytes: Vec<u8>,
    is_resp3: bool,
}

impl Reply {
    /// Creates replies without bytes, in version 2.
    pub const fn new() -> Reply {
        Reply { bytes: Vec::new(), is_resp3: false }
    }

    /// Chooses version 3 of the protocol, or version 2.
    pub fn set_resp3(&mut self, is_resp3: bool) {
        self.is_resp3 = is_resp3;
    }

    /// True in version 3 of the protocol.
    pub fn is_resp3(&self) -> bool {
        self.is_resp3
    }

    /// Bytes of all replies.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the bytes of all replies.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Memory with the bytes. It may be changed.
    pub fn bytes_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// True without bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Removes the bytes after the first `len`.
    pub fn truncate(&mut self, len: usize) {
        self.bytes.truncate(len);
    }

    fn header(&mut self, kind: u8, number: i64) {
        if let digit @ 0..=9 = number {
            return self.bytes.extend_from_slice(&[kind, b'0' + digit as u8, b'\r', b'\n']);
        }
        self.bytes.push(kind);
        self.bytes.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
        self.bytes.extend_from_slice(b"\r\n");
    }

    fn line(&mut self, kind: u8, text: &[u8]) {
        self.bytes.push(kind);
        // A line end in the text would end the reply.
        self.bytes.extend(text.iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }));
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// Appends bytes in the protocol's encoding.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Appends the status `OK`.
    pub fn ok(&mut self) {
        self.bytes.extend_from_slice(b"+OK\r\n");
    }

    /// Appends a status.
    pub fn status(&mut self, text: &str) {
        self.status_bytes(text.as_bytes());
    }

    /// Appends a status that may be no UTF-8.
    pub fn status_bytes(&mut self, text: &[u8]) {
        self.line(b'+', text);
    }

    /// Appends an error. The text begins with its code.
    pub fn error(&mut self, text: &[u8]) {
        self.line(b'-', text);
    }

    /// Appends an integer.
    pub fn integer(&mut self, number: i64) {
        self.header(b':', number);
    }

    /// Appends a number of things.
    pub fn count(&mut self, count: usize) {
        self.integer(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Appends a truth value, an integer in version 2.
    pub fn boolean(&mut self, is_true: bool) {
        let bytes: &[u8] = match (self.is_resp3, is_true) {
            (true, true) => b"#t\r\n",
            (true, false) => b"#f\r\n",
            (false, true) => b":1\r\n",
            (false, false) => b":0\r\n",
        };
        self.bytes.extend_from_slice(bytes);
    }

    /// Appends a string.
    pub fn bulk(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        self.header(b'$', bytes.len() as i64);
        self.bytes.extend_from_slice(bytes);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// Appends a string, or null.
    pub fn optional_bulk(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => self.bulk(bytes),
            None => self.null(),
        }
    }

    /// Appends null.
    pub fn null(&mut self) {
        self.bytes.extend_from_slice(if self.is_resp3 { b"_\r\n" } else { b"$-1\r\n" });
    }

    /// Appends null in place of an array.
    pub fn null_array(&mut self) {
        self.bytes.extend_from_slice(if self.is_resp3 { b"_\r\n" } else { b"*-1\r\n" });
    }

    /// Begins an array of `len` replies.
    pub fn array(&mut self, len: usize) {
        self.header(b'*', len as i64);
    }

    /// Begins a set of `len` replies, an array in version 2.
    pub fn set(&mut self, len: usize) {
        self.header(if self.is_resp3 { b'~' } else { b'*' }, len as i64);
    }

    /// Begins a map of `len` keys with values, an array in version 2.
    pub fn map(&mut self, len: usize) {
        if self.is_resp3 {
            self.header(b'%', len as i64);
        } else {
            self.header(b'*', 2 * len as i64);
        }
    }

    /// Begins a message that is not a reply, an array in version 2.
    pub fn push(&mut self, len: usize) {
        self.header(if self.is_resp3 { b'>' } else { b'*' }, len as i64);
    }

    /// Appends a floating-point number with up to 17 significant digits, a string in version 2.
    pub fn double(&mut self, number: f64) {
        self.number(&format_score(number));
    }

    /// Appends a floating-point number with up to 17 decimals, a string in version 2.
    pub fn decimal(&mut self, number: f64) {
        self.number(&format_decimal(number));
    }

    fn number(&mut self, text: &str) {
        if self.is_resp3 { self.line(b',', text.as_bytes()) } else { self.bulk(text) }
    }

    /// Appends text for people, a string in version 2.
    pub fn verbatim(&mut self, text: &str) {
        self.verbatim_bytes(text.as_bytes());
    }

    /// Appends a text that may be no UTF-8.
    pub fn verbatim_bytes(&mut self, text: &[u8]) {
        if !self.is_resp3 {
            return self.bulk(text);
        }
        self.header(b'=', text.len() as i64 + 4);
        self.bytes.extend_from_slice(b"txt:");
        self.bytes.extend_from_slice(text);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// Appends an array of strings.
    pub fn bulks<T: AsRef<[u8]>>(&mut self, items: &[T]) {
        self.array(items.len());
        for item in items {
            self.bulk(item);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(write: impl Fn(&mut Reply), resp2: &str, resp3: &str) {
        for (is_resp3, expected) in [(false, resp2), (true, resp3)] {
            let mut reply = Reply::new();
            reply.set_resp3(is_resp3);
            write(&mut reply);
            assert_eq!(reply.as_bytes().escape_ascii().to_string(), expected);
        }
    }

    #[test]
    fn simple_replies() {
        check(|r| r.ok(), "+OK\\r\\n", "+OK\\r\\n");
        check(|r| r.integer(-3), ":-3\\r\\n", ":-3\\r\\n");
        check(|r| r.bulk("a\r\n"), "$3\\r\\na\\r\\n\\r\\n", "$3\\r\\na\\r\\n\\r\\n");
        check(|r| r.null(), "$-1\\r\\n", "_\\r\\n");
        check(|r| r.boolean(true), ":1\\r\\n", "#t\\r\\n");
        check(|r| r.double(1.5), "$3\\r\\n1.5\\r\\n", ",1.5\\r\\n");
    }

    #[test]
    fn containers() {
        check(|r| r.map(2), "*4\\r\\n", "%2\\r\\n");
        check(|r| r.push(3), "*3\\r\\n", ">3\\r\\n");
        check(|r| r.null_array(), "*-1\\r\\n", "_\\r\\n");
        check(|r| r.verbatim("a"), "$1\\r\\na\\r\\n", "=5\\r\\ntxt:a\\r\\n");
    }

    #[test]
    fn error_with_a_line_end() {
        check(|r| r.error(b"ERR a\r\nb"), "-ERR a  b\\r\\n", "-ERR a  b\\r\\n");
    }
}
