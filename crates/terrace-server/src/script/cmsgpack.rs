//! Library `cmsgpack`: MessagePack.

use mlua::{Table, Value};

use super::args::{LuaArgs, Native, ResultList, Results, text_of};
use super::convert::each_entry;
use super::text::exact_i64;

/// Name of the function that decodes.
const DECODER: &str = stringify!(unpack);

/// Functions of the library.
pub(super) static FUNCTIONS: &[(&str, Native)] =
    &[("pack", pack), (DECODER, unpack), ("unpack_one", unpack_one), ("unpack_limit", unpack_limit)];

/// Depth from which on tables are encoded as nil.
const MAX_PACK_DEPTH: usize = 16;
/// Maximum depth of decoded tables.
const MAX_UNPACK_DEPTH: usize = 1000;
/// Maximum size of an encoded string, in bytes.
const MAX_SIZE: usize = 64 << 20;

/// Encodes values: `pack(value ..)`.
fn pack(args: &LuaArgs<'_>) -> Results {
    if args.len() == 0 {
        return Err(args.error(0, "MessagePack pack needs input."));
    }
    let mut out = Vec::new();
    for index in 1..=args.len() {
        pack_value(&args.get(index), 0, &mut out)?;
    }
    args.string(&out)
}

fn pack_value(value: &Value, depth: usize, out: &mut Vec<u8>) -> Result<(), String> {
    match value {
        Value::Boolean(is_true) => out.push(0xc2 + u8::from(*is_true)),
        Value::Integer(number) => pack_integer(*number, out),
        Value::Number(number) => match exact_i64(*number) {
            Some(number) => pack_integer(number, out),
            None => pack_float(*number, out),
        },
        Value::String(text) => pack_string(&text.as_bytes(), out),
        Value::Table(table) if depth < MAX_PACK_DEPTH => pack_table(table, depth, out)?,
        _ => out.push(0xc0),
    }
    if out.len() > MAX_SIZE { Err("the encoded string exceeds 64 MiB".into()) } else { Ok(()) }
}

fn pack_integer(number: i64, out: &mut Vec<u8>) {
    match number {
        -32..=0x7f => out.push(number as u8),
        0x80..=0xff => out.extend([0xcc, number as u8]),
        0x100..=0xffff => extend(out, 0xcd, &(number as u16).to_be_bytes()),
        0x1_0000..=0xffff_ffff => extend(out, 0xce, &(number as u32).to_be_bytes()),
        0x1_0000_0000.. => extend(out, 0xcf, &number.to_be_bytes()),
        -0x80..-32 => extend(out, 0xd0, &(number as i8).to_be_bytes()),
        -0x8000..-0x80 => extend(out, 0xd1, &(number as i16).to_be_bytes()),
        -0x8000_0000..-0x8000 => extend(out, 0xd2, &(number as i32).to_be_bytes()),
        _ => extend(out, 0xd3, &number.to_be_bytes()),
    }
}

fn pack_float(number: f64, out: &mut Vec<u8>) {
    let short = number as f32;
    if f64::from(short) == number {
        extend(out, 0xca, &short.to_be_bytes());
    } else {
        extend(out, 0xcb, &number.to_be_bytes());
    }
}

fn extend(out: &mut Vec<u8>, kind: u8, bytes: &[u8]) {
    out.push(kind);
    out.extend_from_slice(bytes);
}

fn pack_string(text: &[u8], out: &mut Vec<u8>) {
    match text.len() {
        len @ 0..=31 => out.push(0xa0 | len as u8),
        len @ 32..=0xff => out.extend([0xd9, len as u8]),
        len @ 0x100..=0xffff => extend(out, 0xda, &(len as u16).to_be_bytes()),
        len => extend(out, 0xdb, &(len as u32).to_be_bytes()),
    }
    out.extend_from_slice(text);
}

/// Encodes a table with the keys 1 to n as an array, and every other one as a map.
fn pack_table(table: &Table, depth: usize, out: &mut Vec<u8>) -> Result<(), String> {
    let mut count = 0usize;
    let mut max = Some(0);
    each_entry(table, |key, _| {
        count += 1;
        let index = key.as_i64().and_then(|index| usize::try_from(index).ok()).filter(|index| *index > 0);
        max = max.zip(index).map(|(max, index)| index.max(max));
        Ok(())
    })?;
    if max == Some(count) {
        pack_len(count, 0x90, 0xdc, out);
        for index in 1..=count {
            let element: Value = table.raw_get(index).map_err(text_of)?;
            pack_value(&element, depth + 1, out)?;
        }
        return Ok(());
    }
    pack_len(count, 0x80, 0xde, out);
    each_entry(table, |key, value| {
        pack_value(&key, depth + 1, out)?;
        pack_value(&value, depth + 1, out)
    })
}

fn pack_len(len: usize, short: u8, long: u8, out: &mut Vec<u8>) {
    match len {
        0..=15 => out.push(short | len as u8),
        16..=0xffff => extend(out, long, &(len as u16).to_be_bytes()),
        _ => extend(out, long + 1, &(len as u32).to_be_bytes()),
    }
}

/// Decodes all values: `unpack(bytes)`.
fn unpack(args: &LuaArgs<'_>) -> Results {
    let data = args.bytes(1)?;
    let mut input = Unpacker { args, data: &data, at: 0 };
    let mut results = args.list()?;
    while input.at < data.len() {
        results.push(input.value(0)?)?;
    }
    results.finish()
}

/// Returns the next offset, or -1, and a value: `unpack_one(bytes [, offset])`.
fn unpack_one(args: &LuaArgs<'_>) -> Results {
    let offset = args.integer_or(2, 0)?;
    unpack_part(args, 1, offset)
}

/// Returns the next offset, or -1, and the values: `unpack_limit(bytes, limit [, offset])`.
fn unpack_limit(args: &LuaArgs<'_>) -> Results {
    let limit = args.number(2)? as i64;
    let offset = args.integer_or(3, 0)?;
    // Both zeros mean all values, without an offset before them.
    if limit == 0 && offset == 0 { unpack(args) } else { unpack_part(args, limit, offset) }
}

fn unpack_part(args: &LuaArgs<'_>, limit: i64, offset: i64) -> Results {
    let data = args.bytes(1)?;
    let len = data.len();
    if limit < 0 || offset < 0 {
        let request = format!("offset of {offset} and limit of {len}");
        return Err(format!("Invalid request to {DECODER} with {request}."));
    }
    if offset as usize > len {
        return Err(format!("Start offset {offset} greater than input length {len}."));
    }
    let mut input = Unpacker { args, data: &data, at: offset as usize };
    let mut results: ResultList = args.list()?;
    while input.at < len && results.len() < limit as usize {
        results.push(input.value(0)?)?;
    }
    let next = if input.at == len { -1.0 } else { input.at as f64 };
    results.finish_after(next)
}

struct Unpacker<'a> {
    args: &'a LuaArgs<'a>,
    data: &'a [u8],
    at: usize,
}

impl<'a> Unpacker<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], String> {
        let end = self.at.saturating_add(len);
        let taken = self.data.get(self.at..end).ok_or("Missing bytes in input.")?;
        self.at = end;
        Ok(taken)
    }

    /// Takes a big-endian number of `len` bytes.
    fn number(&mut self, len: usize) -> Result<u64, String> {
        Ok(self.take(len)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// Takes a signed number of `len` bytes.
    fn signed(&mut self, len: usize) -> Result<f64, String> {
        let shift = 64 - 8 * len as u32;
        Ok((((self.number(len)? << shift) as i64) >> shift) as f64)
    }

    fn value(&mut self, depth: usize) -> Result<Value, String> {
        if depth > MAX_UNPACK_DEPTH {
            return Err("Bad data format in input.".into());
        }
        let kind = self.take(1)?[0];
        let len_bytes = |first: u8| 1usize << (kind - first);
        Ok(match kind {
            0x00..=0x7f => Value::Number(f64::from(kind)),
            0xe0..=0xff => Value::Number(f64::from(kind as i8)),
            0xc0 => Value::Nil,
            0xc2 | 0xc3 => Value::Boolean(kind == 0xc3),
            0xca => Value::Number(f64::from(f32::from_bits(self.number(4)? as u32))),
            0xcb => Value::Number(f64::from_bits(self.number(8)?)),
            // Redis takes the numbers from 2^63 on for negative ones.
            0xcc..=0xcf => Value::Number(self.number(len_bytes(0xcc))? as i64 as f64),
            0xd0..=0xd3 => Value::Number(self.signed(len_bytes(0xd0))?),
            0xa0..=0xbf => self.string(usize::from(kind & 31))?,
            0xc4..=0xc6 => {
                let len = self.number(len_bytes(0xc4))?;
                self.string(len as usize)?
            }
            0xd9..=0xdb => {
                let len = self.number(len_bytes(0xd9))?;
                self.string(len as usize)?
            }
            0x90..=0x9f => self.array(usize::from(kind & 15), depth)?,
            0xdc | 0xdd => {
                let len = self.number(2 * len_bytes(0xdc))?;
                self.array(len as usize, depth)?
            }
            0x80..=0x8f => self.map(usize::from(kind & 15), depth)?,
            0xde | 0xdf => {
                let len = self.number(2 * len_bytes(0xde))?;
                self.map(len as usize, depth)?
            }
            _ => return Err("Bad data format in input.".into()),
        })
    }

    fn string(&mut self, len: usize) -> Result<Value, String> {
        let bytes = self.take(len)?;
        Ok(Value::String(self.args.lua.create_string(bytes).map_err(text_of)?))
    }

    /// The table grows with the elements, not with the announced length.
    fn array(&mut self, len: usize, depth: usize) -> Result<Value, String> {
        let table = self.args.lua.create_table().map_err(text_of)?;
        for index in 1..=len {
            let value = self.value(depth + 1)?;
            table.raw_set(index, value).map_err(text_of)?;
        }
        Ok(Value::Table(table))
    }

    fn map(&mut self, len: usize, depth: usize) -> Result<Value, String> {
        let table = self.args.lua.create_table().map_err(text_of)?;
        for _ in 0..len {
            let key = self.value(depth + 1)?;
            let value = self.value(depth + 1)?;
            if !is_key(&key) {
                return Err("Bad data format in input.".into());
            }
            table.raw_set(key, value).map_err(text_of)?;
        }
        Ok(Value::Table(table))
    }
}

/// True if the value may be the key of a table.
fn is_key(value: &Value) -> bool {
    match value {
        Value::Nil => false,
        Value::Number(number) => !number.is_nan(),
        _ => true,
    }
}
