//! Parser of JSON text for `cjson.decode`.

use mlua::{Lua, Value};

use super::args::{parse_number, text_of};
use super::cjson::Settings;

/// JSON text and a position.
pub(super) struct JsonReader<'a> {
    lua: &'a Lua,
    text: &'a [u8],
    at: usize,
    settings: &'a Settings,
    depth: i64,
}

enum Token {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    String(Vec<u8>),
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    Invalid(&'static str),
}

impl Token {
    /// Name in error messages.
    fn name(&self) -> &'static str {
        match self {
            Token::ObjectBegin => "T_OBJ_BEGIN",
            Token::ObjectEnd => "T_OBJ_END",
            Token::ArrayBegin => "T_ARR_BEGIN",
            Token::ArrayEnd => "T_ARR_END",
            Token::String(_) => "T_STRING",
            Token::Number(_) => "T_NUMBER",
            Token::Boolean(_) => "T_BOOLEAN",
            Token::Null => "T_NULL",
            Token::Colon => "T_COLON",
            Token::Comma => "T_COMMA",
            Token::End => "T_END",
            Token::Invalid(reason) => reason,
        }
    }
}

impl<'a> JsonReader<'a> {
    /// Begins at the start of `text`.
    pub(super) fn new(lua: &'a Lua, text: &'a [u8], settings: &'a Settings) -> JsonReader<'a> {
        JsonReader { lua, text, at: 0, settings, depth: 0 }
    }

    /// Returns the value of the whole text.
    ///
    /// # Errors
    ///
    /// The message that Redis returns, with the position of the wrong token.
    pub(super) fn document(&mut self) -> Result<Value, String> {
        if matches!(self.text, [0, _, ..] | [_, 0, ..]) {
            return Err("JSON parser does not support UTF-16 or UTF-32".into());
        }
        let (token, at) = self.token();
        let value = self.value(token, at)?;
        match self.token() {
            (Token::End, _) => Ok(value),
            (token, at) => Err(expected("the end", &token, at)),
        }
    }

    fn value(&mut self, token: Token, at: usize) -> Result<Value, String> {
        Ok(match token {
            Token::String(bytes) => Value::String(self.lua.create_string(&bytes).map_err(text_of)?),
            Token::Number(number) => Value::Number(number),
            Token::Boolean(is_true) => Value::Boolean(is_true),
            Token::Null => Value::NULL,
            Token::ObjectBegin => self.object()?,
            Token::ArrayBegin => self.array()?,
            other => return Err(expected("value", &other, at)),
        })
    }

    fn descend(&mut self) -> Result<(), String> {
        self.depth += 1;
        if self.depth > self.settings.decode_depth {
            let depth = self.depth;
            return Err(format!("Found too many nested data structures ({depth}) at character {}", self.at));
        }
        Ok(())
    }

    fn object(&mut self) -> Result<Value, String> {
        self.descend()?;
        let table = self.lua.create_table().map_err(text_of)?;
        let (mut token, mut at) = self.token();
        let mut is_first = true;
        loop {
            let key = match token {
                Token::ObjectEnd if is_first => break,
                Token::String(key) => key,
                other => return Err(expected("object key string", &other, at)),
            };
            is_first = false;
            match self.token() {
                (Token::Colon, _) => {}
                (other, at) => return Err(expected("colon", &other, at)),
            }
            let (value_token, value_at) = self.token();
            let value = self.value(value_token, value_at)?;
            let key = self.lua.create_string(&key).map_err(text_of)?;
            table.raw_set(key, value).map_err(text_of)?;
            match self.token() {
                (Token::ObjectEnd, _) => break,
                (Token::Comma, _) => (token, at) = self.token(),
                (other, at) => return Err(expected("comma or object end", &other, at)),
            }
        }
        self.depth -= 1;
        Ok(Value::Table(table))
    }

    fn array(&mut self) -> Result<Value, String> {
        self.descend()?;
        let table = self.lua.create_table().map_err(text_of)?;
        let (mut token, mut at) = self.token();
        if !matches!(token, Token::ArrayEnd) {
            for index in 1.. {
                let value = self.value(token, at)?;
                table.raw_set(index, value).map_err(text_of)?;
                match self.token() {
                    (Token::ArrayEnd, _) => break,
                    (Token::Comma, _) => (token, at) = self.token(),
                    (other, at) => return Err(expected("comma or array end", &other, at)),
                }
            }
        }
        self.depth -= 1;
        Ok(Value::Table(table))
    }

    /// Returns the next token and its position, from 1 on.
    fn token(&mut self) -> (Token, usize) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.text.get(self.at) {
            self.at += 1;
        }
        let position = self.at + 1;
        let rest = &self.text[self.at..];
        let (token, len) = match rest {
            // Redis' parser works on a text that ends at a NUL.
            [] | [0, ..] => (Token::End, 0),
            [b'{', ..] => (Token::ObjectBegin, 1),
            [b'}', ..] => (Token::ObjectEnd, 1),
            [b'[', ..] => (Token::ArrayBegin, 1),
            [b']', ..] => (Token::ArrayEnd, 1),
            [b',', ..] => (Token::Comma, 1),
            [b':', ..] => (Token::Colon, 1),
            [b'"', ..] => return self.string(),
            [b't', b'r', b'u', b'e', ..] => (Token::Boolean(true), 4),
            [b'f', b'a', b'l', b's', b'e', ..] => (Token::Boolean(false), 5),
            [b'n', b'u', b'l', b'l', ..] => (Token::Null, 4),
            _ => self.number(rest),
        };
        self.at += len;
        (token, position)
    }

    fn number(&self, rest: &[u8]) -> (Token, usize) {
        let len = rest.iter().take_while(|byte| is_number_part(**byte)).count();
        let text = &rest[..len];
        let unsigned = text.strip_prefix(b"-").or(text.strip_prefix(b"+")).unwrap_or(text);
        let lower = unsigned.to_ascii_lowercase();
        let is_negative = text.starts_with(b"-");
        let invalid = match &*lower {
            b"nan" => Some(f64::NAN),
            b"inf" | b"infinity" => Some(f64::INFINITY),
            _ if lower.starts_with(b"0x") => parse_number(&lower),
            _ => None,
        };
        let is_plain = unsigned.first().is_some_and(u8::is_ascii_digit);
        let number = match invalid {
            Some(number) if self.settings.decodes_invalid => Some(if is_negative { -number } else { number }),
            Some(_) => None,
            None => crate::resp::parse_double(text).filter(|_| is_plain),
        };
        let fault = if text == b"-" { "invalid number" } else { "invalid token" };
        number.map_or((Token::Invalid(fault), 0), |number| (Token::Number(number), len))
    }

    /// Parses the string at the position.
    fn string(&mut self) -> (Token, usize) {
        let begin = self.at + 1;
        let mut at = begin;
        let mut bytes = Vec::new();
        loop {
            match self.text.get(at..).unwrap_or_default() {
                [] | [0, ..] => return (Token::Invalid("unexpected end of string"), at + 1),
                [b'"', ..] => break,
                [b'\\', b'u', rest @ ..] => match unicode(rest) {
                    Some((character, len)) => {
                        bytes.extend(character.encode_utf8(&mut [0; 4]).bytes());
                        at += 2 + len;
                    }
                    None => return (Token::Invalid("invalid unicode escape code"), at + 1),
                },
                [b'\\', escape, ..] => match unescaped(*escape) {
                    Some(byte) => {
                        bytes.push(byte);
                        at += 2;
                    }
                    None => return (Token::Invalid("invalid escape code"), at + 1),
                },
                [byte, ..] => {
                    bytes.push(*byte);
                    at += 1;
                }
            }
        }
        self.at = at + 1;
        (Token::String(bytes), begin)
    }
}

/// True for the bytes of numbers, `inf` and `nan`.
fn is_number_part(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.')
}

fn expected(wanted: &str, found: &Token, at: usize) -> String {
    format!("Expected {wanted} but found {} at character {at}", found.name())
}

fn unescaped(escape: u8) -> Option<u8> {
    Some(match escape {
        b'"' | b'\\' | b'/' => escape,
        b'b' => 8,
        b't' => b'\t',
        b'n' => b'\n',
        b'f' => 12,
        b'r' => b'\r',
        _ => return None,
    })
}

/// Returns the character of the four digits after `\u`, or of a surrogate pair, and the number of
/// bytes after the first `\u`.
fn unicode(rest: &[u8]) -> Option<(char, usize)> {
    let digits = |bytes: &[u8]| {
        let text = std::str::from_utf8(bytes.get(..4)?).ok()?;
        u32::from_str_radix(text, 16).ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    let first = digits(rest)?;
    if !(0xd800..0xdc00).contains(&first) {
        return char::from_u32(first).map(|character| (character, 4));
    }
    let second = digits(rest.get(4..)?.strip_prefix(b"\\u")?)?;
    let low = second.checked_sub(0xdc00).filter(|low| *low < 0x400)?;
    char::from_u32(0x10000 + ((first - 0xd800) << 10) + low).map(|character| (character, 10))
}
