//! Library `cjson`: JSON.

use std::cell::RefCell;
use std::rc::Rc;

use mlua::{Lua, Table, Value};

use super::args::{LuaArgs, LuaTypeName, Results, function, text_of};
use super::convert::each_entry;
use super::json_reader::JsonReader;
use super::text::format_g;

/// Maximum size of JSON text, in bytes.
const MAX_SIZE: usize = 64 << 20;

/// Settings of the library. A script may change them for itself.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    converts_sparse: bool,
    sparse_ratio: i64,
    sparse_safe: i64,
    encode_depth: i64,
    pub(super) decode_depth: i64,
    precision: i64,
    invalid_numbers: InvalidNumbers,
    pub(super) decodes_invalid: bool,
    keeps_buffer: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            converts_sparse: false,
            sparse_ratio: 2,
            sparse_safe: 10,
            encode_depth: 1000,
            decode_depth: 1000,
            precision: 14,
            invalid_numbers: InvalidNumbers::Refused,
            decodes_invalid: true,
            keeps_buffer: true,
        }
    }
}

/// Treatment of numbers that JSON does not have.
#[derive(Debug, Clone, Copy)]
enum InvalidNumbers {
    Refused,
    AsNumbers,
    AsNull,
}

type Shared = Rc<RefCell<Settings>>;

/// Creates the table of the functions.
pub(super) fn functions(lua: &Lua, settings: &Shared) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let add = |name: &'static str, native: fn(&LuaArgs<'_>, &mut Settings) -> Results| {
        let settings = Rc::clone(settings);
        table.raw_set(name, function(lua, name, move |args| native(args, &mut settings.borrow_mut()))?)
    };
    add("encode", encode)?;
    add("decode", decode)?;
    add("encode_sparse_array", set_sparse)?;
    add("encode_max_depth", |args, settings| set_integer(args, &mut settings.encode_depth, 1..=1000))?;
    add("decode_max_depth", |args, settings| set_integer(args, &mut settings.decode_depth, 1..=1000))?;
    add("encode_number_precision", |args, settings| set_integer(args, &mut settings.precision, 1..=14))?;
    add("encode_invalid_numbers", set_invalid)?;
    add("decode_invalid_numbers", |args, settings| set_bool(args, &mut settings.decodes_invalid))?;
    add("encode_keep_buffer", |args, settings| set_bool(args, &mut settings.keeps_buffer))?;
    Ok(table)
}

fn set_integer(args: &LuaArgs<'_>, setting: &mut i64, range: std::ops::RangeInclusive<i64>) -> Results {
    let number = args.integer_or(1, *setting)?;
    if !range.contains(&number) {
        let reason = format!("expected integer between {} and {}", range.start(), range.end());
        return Err(args.error(1, &reason));
    }
    *setting = number;
    Ok(Value::Number(number as f64).into())
}

/// Returns the position of argument 1 in `words`, which begin with the words for false and true.
fn choice(args: &LuaArgs<'_>, words: &[&str]) -> Result<Option<usize>, String> {
    match args.get(1) {
        Value::Nil => Ok(None),
        Value::Boolean(is_on) => Ok(Some(usize::from(is_on))),
        _ => {
            let text = args.bytes(1)?;
            let found = words.iter().position(|word| word.as_bytes() == text);
            let index = found.ok_or_else(|| {
                args.error(1, &format!("invalid option '{}'", String::from_utf8_lossy(&text)))
            })?;
            Ok(Some(index))
        }
    }
}

fn set_bool(args: &LuaArgs<'_>, setting: &mut bool) -> Results {
    if let Some(index) = choice(args, &["off", "on"])? {
        *setting = index == 1;
    }
    Ok(Value::Boolean(*setting).into())
}

fn set_invalid(args: &LuaArgs<'_>, settings: &mut Settings) -> Results {
    const CHOICES: [InvalidNumbers; 3] =
        [InvalidNumbers::Refused, InvalidNumbers::AsNumbers, InvalidNumbers::AsNull];
    if let Some(index) = choice(args, &["off", "on", "null"])? {
        settings.invalid_numbers = CHOICES[index];
    }
    match settings.invalid_numbers {
        InvalidNumbers::Refused => Ok(Value::Boolean(false).into()),
        InvalidNumbers::AsNumbers => Ok(Value::Boolean(true).into()),
        InvalidNumbers::AsNull => args.string(b"null"),
    }
}

fn set_sparse(args: &LuaArgs<'_>, settings: &mut Settings) -> Results {
    if let Some(index) = choice(args, &["off", "on"])? {
        settings.converts_sparse = index == 1;
    }
    settings.sparse_ratio = args.integer_or(2, settings.sparse_ratio)?.max(0);
    settings.sparse_safe = args.integer_or(3, settings.sparse_safe)?.max(0);
    let mut results = args.list()?;
    results.push(settings.converts_sparse)?;
    results.push(settings.sparse_ratio as f64)?;
    results.push(settings.sparse_safe as f64)?;
    results.finish()
}

fn decode(args: &LuaArgs<'_>, settings: &mut Settings) -> Results {
    if args.len() != 1 {
        return Err(args.error(1, "expected 1 argument"));
    }
    let text = args.bytes(1)?;
    Ok(JsonReader::new(args.lua, &text, settings).document()?.into())
}

fn encode(args: &LuaArgs<'_>, settings: &mut Settings) -> Results {
    if args.len() != 1 {
        return Err(args.error(1, "expected 1 argument"));
    }
    let mut writer = JsonWriter { settings, out: Vec::new() };
    writer.value(&args.get(1), 0)?;
    args.string(&writer.out)
}

struct JsonWriter<'a> {
    settings: &'a Settings,
    out: Vec<u8>,
}

/// Form of a table.
enum Form {
    Array(usize),
    Object,
}

impl JsonWriter<'_> {
    fn value(&mut self, value: &Value, depth: i64) -> Result<(), String> {
        match value {
            Value::Nil => self.out.extend(b"null"),
            Value::LightUserData(pointer) if pointer.0.is_null() => self.out.extend(b"null"),
            Value::Boolean(is_true) => self.out.extend(if *is_true { &b"true"[..] } else { b"false" }),
            Value::Integer(number) => self.number(*number as f64)?,
            Value::Number(number) => self.number(*number)?,
            Value::String(text) => self.string(&text.as_bytes()),
            Value::Table(table) => self.table(table, depth + 1)?,
            other => return Err(cannot_serialise(other, "type not supported")),
        }
        if self.out.len() > MAX_SIZE { Err("the JSON text exceeds 64 MiB".into()) } else { Ok(()) }
    }

    fn number(&mut self, number: f64) -> Result<(), String> {
        match self.settings.invalid_numbers {
            InvalidNumbers::Refused if !number.is_finite() => {
                return Err("Cannot serialise number: must not be NaN or Inf".into());
            }
            InvalidNumbers::AsNull if !number.is_finite() => self.out.extend(b"null"),
            // The sign of a NaN is not written.
            _ if number.is_nan() => self.out.extend(b"nan"),
            _ => self.out.extend(format_g(number, self.settings.precision as usize).bytes()),
        }
        Ok(())
    }

    fn string(&mut self, text: &[u8]) {
        self.out.push(b'"');
        for byte in text {
            match byte {
                b'"' | b'\\' | b'/' => self.out.extend([b'\\', *byte]),
                8 => self.out.extend(b"\\b"),
                b'\t' => self.out.extend(b"\\t"),
                b'\n' => self.out.extend(b"\\n"),
                12 => self.out.extend(b"\\f"),
                b'\r' => self.out.extend(b"\\r"),
                0..=31 | 127 => self.out.extend(format!("\\u{byte:04x}").bytes()),
                _ => self.out.push(*byte),
            }
        }
        self.out.push(b'"');
    }

    fn form(&self, table: &Table) -> Result<Form, String> {
        let mut max = 0;
        let mut count = 0;
        let mut is_array = true;
        each_entry(table, |key, _| {
            match key.as_i64().filter(|index| *index > 0) {
                Some(index) => max = max.max(index),
                None => is_array = false,
            }
            count += 1;
            Ok(())
        })?;
        if !is_array || max == 0 {
            return Ok(Form::Object);
        }
        let ratio = self.settings.sparse_ratio;
        if ratio > 0 && max > count * ratio && max > self.settings.sparse_safe {
            if self.settings.converts_sparse {
                return Ok(Form::Object);
            }
            return Err("Cannot serialise table: excessively sparse array".into());
        }
        Ok(Form::Array(max as usize))
    }

    fn table(&mut self, table: &Table, depth: i64) -> Result<(), String> {
        if depth > self.settings.encode_depth {
            return Err(format!("Cannot serialise, excessive nesting ({depth})"));
        }
        match self.form(table)? {
            Form::Array(len) => {
                self.out.push(b'[');
                for index in 1..=len {
                    self.comma(index > 1);
                    let element: Value = table.raw_get(index).map_err(text_of)?;
                    self.value(&element, depth)?;
                }
                self.out.push(b']');
            }
            Form::Object => {
                self.out.push(b'{');
                let mut is_first = true;
                each_entry(table, |key, value| {
                    self.comma(!std::mem::take(&mut is_first));
                    self.key(&key)?;
                    self.value(&value, depth)
                })?;
                self.out.push(b'}');
            }
        }
        Ok(())
    }

    fn comma(&mut self, is_needed: bool) {
        if is_needed {
            self.out.push(b',');
        }
    }

    fn number_key(&mut self, number: f64) -> Result<(), String> {
        self.out.push(b'"');
        self.number(number)?;
        self.out.push(b'"');
        Ok(())
    }

    fn key(&mut self, key: &Value) -> Result<(), String> {
        match key {
            Value::String(text) => self.string(&text.as_bytes()),
            Value::Integer(number) => self.number_key(*number as f64)?,
            Value::Number(number) => self.number_key(*number)?,
            other => return Err(cannot_serialise(other, "table key must be a number or string")),
        }
        self.out.push(b':');
        Ok(())
    }
}

fn cannot_serialise(value: &Value, reason: &str) -> String {
    format!("Cannot serialise {}: {reason}", value.type_name_of_lua())
}
