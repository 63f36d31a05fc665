//! Arguments and results of the functions that scripts call.
//!
//! They travel in tables: the interpreter permits about 8,000 references at a time, and a script
//! may pass as many arguments.

use mlua::{Lua, Table, Value};

use super::text::format_g;

/// Arguments of a function with the name `name`.
pub(super) struct LuaArgs<'a> {
    pub(super) lua: &'a Lua,
    name: &'static str,
    table: Table,
    len: usize,
}

/// Results of a function, or the text of its error.
pub(super) type Results = Result<LuaResults, String>;

/// Results of a function.
pub(super) enum LuaResults {
    One(Value),
    /// Table of results, and their number.
    Many(Table, usize),
}

impl From<Value> for LuaResults {
    fn from(value: Value) -> LuaResults {
        LuaResults::One(value)
    }
}

impl<'a> LuaArgs<'a> {
    /// Number of the arguments.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Argument `index`, from 1 on. Nil after the last one.
    pub(super) fn get(&self, index: usize) -> Value {
        self.table.raw_get(index).unwrap_or(Value::Nil)
    }

    /// Error of argument `index`.
    pub(super) fn error(&self, index: usize, reason: &str) -> String {
        format!("bad argument #{index} to '{}' ({reason})", self.name)
    }

    fn type_error(&self, index: usize, expected: &str) -> String {
        let found = if index > self.len { "no value" } else { self.get(index).type_name_of_lua() };
        self.error(index, &format!("{expected} expected, got {found}"))
    }

    /// Argument `index` as a number.
    pub(super) fn number(&self, index: usize) -> Result<f64, String> {
        match self.get(index) {
            Value::Number(number) => Ok(number),
            Value::Integer(number) => Ok(number as f64),
            Value::String(text) => {
                parse_number(&text.as_bytes()).ok_or_else(|| self.type_error(index, "number"))
            }
            _ => Err(self.type_error(index, "number")),
        }
    }

    /// Argument `index` as an integer, or `default` without it.
    pub(super) fn integer_or(&self, index: usize, default: i64) -> Result<i64, String> {
        if self.get(index).is_nil() { Ok(default) } else { Ok(self.number(index)? as i64) }
    }

    /// Argument `index` as bytes. A number becomes text.
    pub(super) fn bytes(&self, index: usize) -> Result<Vec<u8>, String> {
        match self.get(index) {
            Value::String(text) => Ok(text.as_bytes().to_vec()),
            Value::Number(number) => Ok(format_g(number, 14).into_bytes()),
            Value::Integer(number) => Ok(number.to_string().into_bytes()),
            _ => Err(self.type_error(index, "string")),
        }
    }

    /// A string as result.
    pub(super) fn string(&self, bytes: &[u8]) -> Results {
        Ok(Value::String(self.lua.create_string(bytes).map_err(text_of)?).into())
    }

    /// Creates a table for results.
    pub(super) fn list(&self) -> Result<ResultList, String> {
        Ok(ResultList { table: self.lua.create_table().map_err(text_of)?, len: 0 })
    }
}

/// Results that a function collects.
pub(super) struct ResultList {
    table: Table,
    len: usize,
}

impl ResultList {
    /// Appends a result.
    pub(super) fn push(&mut self, value: impl mlua::IntoLua) -> Result<(), String> {
        self.len += 1;
        self.table.raw_set(self.len, value).map_err(text_of)
    }

    /// Appends a string.
    pub(super) fn push_bytes(&mut self, lua: &Lua, bytes: &[u8]) -> Result<(), String> {
        self.push(lua.create_string(bytes).map_err(text_of)?)
    }

    /// Replaces the last result by a string.
    pub(super) fn replace_last(&mut self, lua: &Lua, bytes: &[u8]) -> Result<(), String> {
        self.len = self.len.saturating_sub(1);
        self.push_bytes(lua, bytes)
    }

    /// Number of results.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Ends the results.
    pub(super) fn finish(self) -> Results {
        Ok(LuaResults::Many(self.table, self.len))
    }

    /// Inserts a result before all others.
    pub(super) fn finish_after(self, first: impl mlua::IntoLua) -> Results {
        self.table.raw_insert(1, first).map_err(text_of)?;
        Ok(LuaResults::Many(self.table, self.len + 1))
    }
}

/// Returns the number that `text` is for Lua.
pub(super) fn parse_number(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?.trim();
    if let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        return u64::from_str_radix(digits, 16).ok().map(|number| number as f64);
    }
    crate::resp::parse_double(text.as_bytes()).filter(|number| number.is_finite())
}

/// Text of an error of the interpreter, for example too little memory.
pub(super) fn text_of(error: mlua::Error) -> String {
    error.to_string()
}

/// Names of types in error messages of Lua.
pub(super) trait LuaTypeName {
    fn type_name_of_lua(&self) -> &'static str;
}

impl LuaTypeName for Value {
    fn type_name_of_lua(&self) -> &'static str {
        match self {
            Value::Integer(_) | Value::Number(_) => "number",
            Value::LightUserData(_) => "userdata",
            other => other.type_name(),
        }
    }
}

/// Function of a library.
pub(super) type Native = fn(&LuaArgs<'_>) -> Results;

/// Creates a table of functions for the prelude.
pub(super) fn functions(lua: &Lua, rows: &[(&'static str, Native)]) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    for (name, native) in rows {
        let native = *native;
        table.raw_set(*name, function(lua, name, native)?)?;
    }
    Ok(table)
}

/// Creates a function for the prelude.
pub(super) fn function(
    lua: &Lua,
    name: &'static str,
    native: impl Fn(&LuaArgs<'_>) -> Results + 'static,
) -> mlua::Result<mlua::Function> {
    lua.create_function(move |lua, (table, len): (Table, usize)| {
        returned(lua, native(&LuaArgs { lua, name, table, len }))
    })
}

/// Arguments of a command of a script.
pub(super) fn command_args<'a>(lua: &'a Lua, table: Table, len: usize) -> LuaArgs<'a> {
    LuaArgs { lua, name: "call", table, len }
}

/// Values for the prelude: true, the result and the number of results, or false and the error.
pub(super) fn returned(lua: &Lua, results: Results) -> mlua::Result<(bool, Value, Option<usize>)> {
    Ok(match results {
        Ok(LuaResults::One(value)) => (true, value, None),
        Ok(LuaResults::Many(table, len)) => (true, Value::Table(table), Some(len)),
        Err(text) => (false, Value::String(lua.create_string(text)?), None),
    })
}
