//! Replies to Lua values, and Lua values to replies, by Redis' rules.
//!
//! ```text
//!   reply                 Lua value
//!   integer, string       number, string
//!   null                  false; nil in version 3
//!   status, error         {ok = text}, {err = text}
//!   array                 table
//!   map, set, double ..   {map = ..}, {set = ..}, {double = ..}, only in version 3
//! ```

use mlua::{Lua, Table, Value};

use super::text::{before_nul, truncated_i64};
use crate::resp::{Reply, parse_double, parse_i64};

/// Maximum depth of tables in a reply.
const MAX_DEPTH: usize = 1000;
/// Maximum number of values in the reply of a script. A table may hold another one many times.
const MAX_VALUES: usize = 1 << 22;
/// Maximum size of the reply of a script, in bytes.
const MAX_REPLY: usize = 256 << 20;

/// Returns the Lua value of the reply `bytes`, which the server has encoded.
pub(super) fn value_of_reply(lua: &Lua, bytes: &[u8], is_resp3: bool) -> mlua::Result<Value> {
    Decoder { lua, bytes, is_resp3 }.value()
}

struct Decoder<'a> {
    lua: &'a Lua,
    bytes: &'a [u8],
    is_resp3: bool,
}

impl<'a> Decoder<'a> {
    /// Returns the bytes until the next line end.
    fn line(&mut self) -> &'a [u8] {
        let end = memchr::memchr(b'\n', self.bytes).unwrap_or(self.bytes.len());
        let line = &self.bytes[..end.saturating_sub(1)];
        self.bytes = self.bytes.get(end + 1..).unwrap_or_default();
        line
    }

    fn take(&mut self, len: usize) -> &'a [u8] {
        let taken = self.bytes.get(..len).unwrap_or_default();
        self.bytes = self.bytes.get(len + 2..).unwrap_or_default();
        taken
    }

    fn null(&self) -> Value {
        if self.is_resp3 { Value::Nil } else { Value::Boolean(false) }
    }

    fn value(&mut self) -> mlua::Result<Value> {
        let line = self.line();
        let Some((kind, text)) = line.split_first() else { return Ok(self.null()) };
        let number = parse_i64(text).unwrap_or(-1);
        let len = usize::try_from(number);
        Ok(match (kind, len) {
            (b':', _) => Value::Number(number as f64),
            (b'$', Ok(len)) => Value::String(self.lua.create_string(self.take(len))?),
            (b'*' | b'>', Ok(len)) => Value::Table(self.array(len)?),
            (b'%', Ok(len)) => self.field("map", |decoder| decoder.map(len))?,
            (b'~', Ok(len)) => self.field("set", |decoder| decoder.set(len))?,
            (b'=', Ok(len)) => {
                let text = self.take(len);
                self.field("verbatim_string", |decoder| decoder.verbatim(text))?
            }
            (b'+', _) => self.field("ok", |decoder| decoder.lua.create_string(text))?,
            (b'-', _) => self.field("err", |decoder| decoder.lua.create_string(text))?,
            (b',', _) => self.field("double", |_| Ok(parse_double(text).unwrap_or(f64::NAN)))?,
            (b'(', _) => self.field("big_number", |decoder| decoder.lua.create_string(text))?,
            (b'#', _) => Value::Boolean(text == b"t"),
            _ => self.null(),
        })
    }

    /// Returns a table with one field.
    fn field<T: mlua::IntoLua>(
        &mut self,
        name: &str,
        value: impl FnOnce(&mut Self) -> mlua::Result<T>,
    ) -> mlua::Result<Value> {
        let value = value(self)?;
        let table = self.lua.create_table_with_capacity(0, 1)?;
        table.raw_set(name, value)?;
        Ok(Value::Table(table))
    }

    fn array(&mut self, len: usize) -> mlua::Result<Table> {
        let table = self.lua.create_table_with_capacity(len, 0)?;
        for index in 1..=len {
            let value = self.value()?;
            table.raw_set(index, value)?;
        }
        Ok(table)
    }

    fn map(&mut self, len: usize) -> mlua::Result<Table> {
        let table = self.lua.create_table_with_capacity(0, len)?;
        for _ in 0..len {
            let key = self.value()?;
            let value = self.value()?;
            table.raw_set(key, value)?;
        }
        Ok(table)
    }

    fn set(&mut self, len: usize) -> mlua::Result<Table> {
        let table = self.lua.create_table_with_capacity(0, len)?;
        for _ in 0..len {
            let key = self.value()?;
            table.raw_set(key, true)?;
        }
        Ok(table)
    }

    fn verbatim(&mut self, text: &[u8]) -> mlua::Result<Table> {
        let table = self.lua.create_table_with_capacity(0, 2)?;
        table.raw_set("format", self.lua.create_string(text.get(..3).unwrap_or_default())?)?;
        table.raw_set("string", self.lua.create_string(text.get(4..).unwrap_or_default())?)?;
        Ok(table)
    }
}

/// Appends the reply for the Lua value `value`. `is_script_resp3` is the script's version of the
/// protocol; the reply has the client's version.
///
/// # Errors
///
/// The text of an error reply: the value is too deep or too large. A part of it is appended.
pub(super) fn reply_value(value: &Value, is_script_resp3: bool, reply: &mut Reply) -> Result<(), String> {
    Encoder { is_script_resp3, reply, count: 0 }.value(value, 0)
}

struct Encoder<'a> {
    is_script_resp3: bool,
    reply: &'a mut Reply,
    /// Number of values so far.
    count: usize,
}

impl Encoder<'_> {
    fn value(&mut self, value: &Value, depth: usize) -> Result<(), String> {
        if depth > MAX_DEPTH {
            return Err("ERR reached lua stack limit".into());
        }
        self.count += 1;
        if self.count > MAX_VALUES {
            return Err(format!("ERR the reply has more than {MAX_VALUES} values"));
        }
        if self.reply.len() > MAX_REPLY {
            return Err("ERR the reply exceeds 256 MiB".into());
        }
        match value {
            Value::String(text) => self.reply.bulk(&*text.as_bytes()),
            Value::Integer(number) => self.reply.integer(*number),
            Value::Number(number) => self.reply.integer(truncated_i64(*number)),
            Value::Boolean(is_true) => self.boolean(*is_true),
            Value::Table(table) => self.table(table, depth)?,
            _ => self.reply.null(),
        }
        Ok(())
    }

    fn boolean(&mut self, is_true: bool) {
        if self.is_script_resp3 && self.reply.is_resp3() {
            self.reply.raw(if is_true { b"#t\r\n" } else { b"#f\r\n" });
        } else if is_true || self.is_script_resp3 {
            self.reply.integer(i64::from(is_true));
        } else {
            self.reply.null();
        }
    }

    fn table(&mut self, table: &Table, depth: usize) -> Result<(), String> {
        let field = |name: &str| table.raw_get::<Value>(name).unwrap_or(Value::Nil);
        if let Value::String(text) = field("err") {
            self.reply.error(before_nul(&text.as_bytes()));
        } else if let Value::String(text) = field("ok") {
            self.reply.status_bytes(before_nul(&text.as_bytes()));
        } else if let Some(number) = as_f64(&field("double")) {
            self.reply.double(number);
        } else if let Value::Table(map) = field("map") {
            self.map(&map, depth)?;
        } else if let Value::Table(set) = field("set") {
            self.set(&set, depth)?;
        } else if let Value::String(text) = field("big_number") {
            self.big_number(&text.as_bytes());
        } else if let Some(text) = verbatim(&field("verbatim_string")) {
            self.reply.verbatim_bytes(&text.as_bytes());
        } else {
            self.array(table, depth)?;
        }
        Ok(())
    }

    fn big_number(&mut self, text: &[u8]) {
        // A line end would end the reply.
        let line: Vec<u8> =
            text.iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }).collect();
        if !self.reply.is_resp3() {
            return self.reply.bulk(line);
        }
        self.reply.raw(&[b"(", &*line, b"\r\n"].concat());
    }

    fn map(&mut self, map: &Table, depth: usize) -> Result<(), String> {
        self.reply.map(entry_count(map)?);
        each_entry(map, |key, value| {
            self.value(&key, depth + 1)?;
            self.value(&value, depth + 1)
        })
    }

    fn set(&mut self, set: &Table, depth: usize) -> Result<(), String> {
        self.reply.set(entry_count(set)?);
        each_entry(set, |key, _| self.value(&key, depth + 1))
    }

    /// Appends the elements before the first nil. It keeps none of them, because the interpreter
    /// permits few references at a time.
    fn array(&mut self, table: &Table, depth: usize) -> Result<(), String> {
        let element = |index: usize| table.raw_get::<Value>(index).unwrap_or(Value::Nil);
        let len = (1..).find(|index| element(*index).is_nil()).unwrap_or(1) - 1;
        self.reply.array(len);
        (1..=len).try_for_each(|index| self.value(&element(index), depth + 1))
    }
}

fn entry_count(table: &Table) -> Result<usize, String> {
    let mut count = 0;
    each_entry(table, |_, _| {
        count += 1;
        Ok(())
    })?;
    Ok(count)
}

/// Passes each entry of `table` to `visit`. The error is that of `visit`.
pub(super) fn each_entry(
    table: &Table,
    mut visit: impl FnMut(Value, Value) -> Result<(), String>,
) -> Result<(), String> {
    for entry in table.pairs::<Value, Value>() {
        let (key, value) = entry.map_err(|error| format!("ERR {error}"))?;
        visit(key, value)?;
    }
    Ok(())
}

fn as_f64(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => Some(*number),
        Value::Integer(number) => Some(*number as f64),
        _ => None,
    }
}

/// Text of `{format = .., string = ..}`.
fn verbatim(value: &Value) -> Option<mlua::String> {
    let table = value.as_table()?;
    let text = table.raw_get::<mlua::String>("string").ok()?;
    table.raw_get::<mlua::String>("format").ok()?;
    Some(text)
}
