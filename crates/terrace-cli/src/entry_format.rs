//! An entry of a database as one line of text.
//!
//! ```text
//!   tsv     CH/Uster<tab>47.35,8.72             escaped as in `escape`; the value may contain tabs
//!   jsonl   {"key":"CH/Uster","value":"47.35,8.72"}
//!           {"key_base64":"/w==","value":""}    bytes that are not UTF-8
//!   hex     ff00<tab>34
//! ```
//!
//! All formats can store every key and value, and reading a line returns the same bytes. A carriage
//! return before the line feed is part of the line end, as Windows programs write it: in a value it
//! is `\x0d`.

use std::fmt::{self, Display};
use std::io::{self, Write};
use std::path::Path;

use clap::ValueEnum;
use data_encoding::{BASE64, HEXLOWER};
use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde_json::error::Category;
use serde_json::{Map, Value};

use crate::escape::{Escaped, decode_hexadecimal, is_unprintable, unescape};
use crate::failure::{CommandResult, Failure};
use crate::input::Input;

/// Format of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Key, tab, value; \t \n \\ \xNN for bytes that are not readable text
    Tsv,
    /// JSON Lines: {"key": "...", "value": "..."}, or key_base64, value_base64
    #[value(alias = "json")]
    Jsonl,
    /// Key, tab, value, both hexadecimal
    Hex,
}

impl Format {
    /// Format of the output: `chosen`, or the default.
    pub(crate) fn for_output(chosen: Option<Format>, hex: bool) -> Format {
        chosen.unwrap_or(if hex { Format::Hex } else { Format::Tsv })
    }

    /// Writes a line with `key` and, if present, `value`.
    pub(crate) fn write(self, out: &mut impl Write, key: &[u8], value: Option<&[u8]>) -> io::Result<()> {
        match self {
            Format::Tsv => write_columns(out, Escaped(key), value.map(Escaped)),
            Format::Hex => write_columns(out, Hexadecimal(key), value.map(Hexadecimal)),
            Format::Jsonl => write_jsonl(out, key, value),
        }
    }

    /// Parses the key and the value of `line`, or returns the reason why it is malformed.
    pub(crate) fn read(self, line: &[u8]) -> Result<KeyValue, String> {
        match self {
            Format::Tsv => read_columns(line, |text| unescape(text).map_err(|e| e.to_string())),
            Format::Hex => read_columns(line, decode_hexadecimal),
            Format::Jsonl => read_jsonl(line),
        }
    }

    /// Detects the format from the file's name or, if that is not conclusive, from the first bytes:
    /// JSON Lines begin with a brace and a quotation mark.
    pub(crate) fn detect(input: &mut Input) -> Result<Format, Failure> {
        let by_name = format_of_file_name(input.path());
        let mut start = input.peek()?.iter().filter(|byte| **byte != b' ');
        let is_object = start.next() == Some(&b'{') && start.next().is_none_or(|byte| *byte == b'"');
        Ok(by_name.unwrap_or(if is_object { Format::Jsonl } else { Format::Tsv }))
    }
}

/// A key and its value.
pub(crate) type KeyValue = (Vec<u8>, Vec<u8>);

fn format_of_file_name(path: &Path) -> Option<Format> {
    let is_compressed = path.extension().is_some_and(|e| e == "gz" || e == "zst");
    let name = if is_compressed { Path::new(path.file_stem()?) } else { path };
    match name.extension()?.to_str()? {
        "tsv" => Some(Format::Tsv),
        "hex" => Some(Format::Hex),
        "jsonl" | "ndjson" => Some(Format::Jsonl),
        _ => None,
    }
}

/// Bytes, displayed in hexadecimal digits.
struct Hexadecimal<'a>(&'a [u8]);

impl Display for Hexadecimal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chunks(64).try_for_each(|chunk| f.write_str(&HEXLOWER.encode(chunk)))
    }
}

fn write_columns(out: &mut impl Write, key: impl Display, value: Option<impl Display>) -> io::Result<()> {
    match value {
        Some(value) => writeln!(out, "{key}\t{value}"),
        None => writeln!(out, "{key}"),
    }
}

/// Parses a key, a tab and a value with `decode`. Further tabs belong to the value.
fn read_columns(line: &[u8], decode: impl Fn(&[u8]) -> Result<Vec<u8>, String>) -> Result<KeyValue, String> {
    let tab = line.iter().position(|byte| *byte == b'\t').ok_or("no tab, expected key, tab, value")?;
    let key = decode(&line[..tab]).map_err(|e| format!("key: {e}"))?;
    let value = decode(&line[tab + 1..]).map_err(|e| format!("value: {e}"))?;
    Ok((key, value))
}

fn write_jsonl(out: &mut impl Write, key: &[u8], value: Option<&[u8]>) -> io::Result<()> {
    let value = value.map(|value| json_field("value", value));
    let fields: Map<String, Value> = [json_field("key", key)].into_iter().chain(value).collect();
    writeln!(out, "{}", printable_json(&Value::Object(fields)))
}

/// Formats `value` as JSON on one line without terminal control characters. JSON itself requires
/// escapes only for ASCII controls.
pub(crate) fn printable_json(value: &Value) -> String {
    let text = value.to_string();
    if !text.contains(is_unprintable) {
        return text;
    }
    let mut safe = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        // Unprintable characters occur only inside strings and are at most U+FFFF, so four
        // hexadecimal digits suffice.
        if is_unprintable(c) { safe.push_str(&format!("\\u{:04x}", c as u32)) } else { safe.push(c) }
    }
    safe
}

/// `bytes` as a field of a JSON object. The field's name tells whether the value is text or base64.
pub(crate) fn json_field(name: &str, bytes: &[u8]) -> (String, Value) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (name.to_owned(), text.into()),
        Err(_) => (format!("{name}_base64"), BASE64.encode(bytes).into()),
    }
}

fn read_jsonl(line: &[u8]) -> Result<KeyValue, String> {
    let fields = serde_json::from_slice(line).map_err(|error| match error.classify() {
        Category::Data if error.to_string().starts_with("field ") => without_place(&error),
        Category::Data => "not a JSON object, expected {\"key\": ..., \"value\": ...}".into(),
        _ => format!("not JSON: {} at byte {}", without_place(&error), error.column()),
    });
    let Fields(mut fields) = fields?;
    let entry = (take_field(&mut fields, "key")?, take_field(&mut fields, "value")?);
    match fields.keys().next() {
        Some(name) => {
            Err(format!("field {}, expected key and value only", printable_json(&name.as_str().into())))
        }
        None => Ok(entry),
    }
}

/// Returns the message without its place. The parser sees a single line and reports line 1, which
/// would contradict the line number in the file.
fn without_place(error: &serde_json::Error) -> String {
    let mut text = error.to_string();
    text.truncate(text.rfind(" at line").unwrap_or(text.len()));
    text
}

/// Fields of a JSON object, each with another name. A map would keep the last of two equal ones.
struct Fields(Map<String, Value>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Fields, D::Error> {
        deserializer.deserialize_any(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Fields, A::Error> {
        let mut fields = Map::new();
        while let Some((name, value)) = access.next_entry::<String, Value>()? {
            let text = printable_json(&name.as_str().into());
            if fields.insert(name, value).is_some() {
                return Err(A::Error::custom(format!("field {text} twice")));
            }
        }
        Ok(Fields(fields))
    }
}

fn take_field(fields: &mut Map<String, Value>, name: &str) -> Result<Vec<u8>, String> {
    let base64 = format!("{name}_base64");
    match (fields.remove(name), fields.remove(&base64)) {
        (Some(Value::String(text)), None) => Ok(text.into_bytes()),
        (None, Some(Value::String(text))) => {
            BASE64.decode(text.as_bytes()).map_err(|e| format!("{base64}: {e}"))
        }
        (None, None) => Err(format!("no field \"{name}\" or \"{base64}\"")),
        (Some(_), Some(_)) => Err(format!("both \"{name}\" and \"{base64}\", expected one")),
        _ => Err(format!("\"{name}\" is not a string")),
    }
}

/// Reader of the entries of a file.
pub(crate) struct EntryReader {
    input: Input,
    format: Format,
    line: Vec<u8>,
    /// First entry, if it was read before the first call of `next`.
    first: Option<KeyValue>,
}

impl EntryReader {
    /// Opens the file `path`, whose format is detected if `format` is `None`.
    pub(crate) fn open(path: &Path, format: Option<Format>) -> Result<EntryReader, Failure> {
        let mut input = Input::open(path)?;
        let format = match format {
            Some(format) => format,
            None => Format::detect(&mut input)?,
        };
        Ok(EntryReader { input, format, line: Vec::new(), first: None })
    }

    /// Returns an error if the first line is malformed. The entry is not consumed.
    pub(crate) fn check_first(&mut self) -> CommandResult {
        self.first = self.next()?;
        Ok(())
    }

    /// Reads the next entry; `None` at the end of the file.
    pub(crate) fn next(&mut self) -> Result<Option<KeyValue>, Failure> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        if !self.input.next_line(&mut self.line)? {
            return Ok(None);
        }
        let line = self.line.strip_suffix(b"\r").unwrap_or(&self.line);
        self.format.read(line).map(Some).map_err(|reason| self.input.error_at_line(reason))
    }

    /// The input file, for progress reports.
    pub(crate) fn input(&self) -> &Input {
        &self.input
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(format: Format, key: &[u8], value: &[u8], line: &str) {
        let mut out = Vec::new();
        format.write(&mut out, key, Some(value)).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), format!("{line}\n"));
        assert_eq!(format.read(line.as_bytes()), Ok((key.to_vec(), value.to_vec())));
    }

    #[rustfmt::skip]
    mod round_trip {
        use super::{Format::*, check};
        #[test] fn tsv_plain()       { check(Tsv, b"a", b"1", "a\t1"); }
        #[test] fn tsv_empty()       { check(Tsv, b"", b"", "\t"); }
        #[test] fn tsv_escapes()     { check(Tsv, b"a\tb", b"1\n\xff", "a\\tb\t1\\n\\xff"); }
        #[test] fn tsv_byte_order()  { check(Tsv, "\u{feff}a".as_bytes(), b"", "\\xef\\xbb\\xbfa\t"); }
        #[test] fn hex_bytes()       { check(Hex, b"\xff\0", b"4", "ff00\t34"); }
        #[test] fn hex_empty()       { check(Hex, b"", b"", "\t"); }
        #[test] fn jsonl_plain()     { check(Jsonl, b"a", b"1", r#"{"key":"a","value":"1"}"#); }
        #[test] fn jsonl_quotes()    { check(Jsonl, b"\"\\", b"\n", r#"{"key":"\"\\","value":"\n"}"#); }
        #[test] fn jsonl_controls()  { check(Jsonl, b"\x1b[2J", "\u{9b}".as_bytes(), r#"{"key":"\u001b[2J","value":"\u009b"}"#); }
        #[test] fn jsonl_not_utf8()  { check(Jsonl, b"\xff", b"", r#"{"key_base64":"/w==","value":""}"#); }
    }

    #[track_caller]
    fn rejects(format: Format, line: &str, reason: &str) {
        assert_eq!(format.read(line.as_bytes()), Err(reason.to_owned()));
    }

    #[rustfmt::skip]
    mod rejected {
        use super::{Format::*, rejects};
        #[test] fn no_tab()        { rejects(Tsv, "a", "no tab, expected key, tab, value"); }
        #[test] fn bad_escape()    { rejects(Tsv, "a\t1\\q", r"value: a backslash at byte 1 that is not one of \t \n \\ \xNN"); }
        #[test] fn odd_digits()    { rejects(Hex, "f\t", "key: not hexadecimal: an odd number of digits, expected two for each byte"); }
        #[test] fn not_json()      { rejects(Jsonl, "{\"key\":", "not JSON: EOF while parsing a value at byte 7"); }
        #[test] fn no_object()     { rejects(Jsonl, "[]", r#"not a JSON object, expected {"key": ..., "value": ...}"#); }
        #[test] fn no_value()      { rejects(Jsonl, r#"{"key":""}"#, r#"no field "value" or "value_base64""#); }
        #[test] fn both()          { rejects(Jsonl, r#"{"key":"","key_base64":"","value":""}"#, r#"both "key" and "key_base64", expected one"#); }
        #[test] fn number()        { rejects(Jsonl, r#"{"key":"","value":1}"#, r#""value" is not a string"#); }
        #[test] fn another_field() { rejects(Jsonl, r#"{"key":"","value":"","ttl":"1"}"#, r#"field "ttl", expected key and value only"#); }
        #[test] fn twice()         { rejects(Jsonl, r#"{"key":"a","value":"1","value":"2"}"#, r#"field "value" twice"#); }
        #[test] fn escaped_twice() { rejects(Jsonl, r#"{"key":"a","\u006bey":"b","value":"2"}"#, r#"field "key" twice"#); }
        #[test] fn bad_base64()    { rejects(Jsonl, r#"{"key_base64":"/w=","value":""}"#, "key_base64: invalid length at 0"); }
    }

    #[test]
    fn further_tabs_belong_to_the_value() {
        assert_eq!(Format::Tsv.read(b"k\ta\tb"), Ok((b"k".to_vec(), b"a\tb".to_vec())));
    }

    #[test]
    fn formats_of_file_names() {
        for (name, format) in [
            ("a.tsv", Some(Format::Tsv)),
            ("a.jsonl.gz", Some(Format::Jsonl)),
            ("a.ndjson.zst", Some(Format::Jsonl)),
            ("a.gz", None),
            ("-", None),
        ] {
            assert_eq!(format_of_file_name(Path::new(name)), format, "{name}");
        }
    }
}
