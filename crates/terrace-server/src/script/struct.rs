//! Library `struct`: binary structures by a format.
//!
//! ```text
//!   > < =     big, little, native byte order      ![n]   alignment
//!   b B h H l L T i[n] I[n]   integers            f d    floats
//!   s   string and a zero byte                    c[n]   bytes; c0: as many as the last number
//!   x   a zero byte
//! ```

use mlua::Value;

use super::args::{LuaArgs, Native, Results};
use super::text::truncated_i64;

/// Functions of the library.
pub(super) static FUNCTIONS: &[(&str, Native)] =
    &[("pack", pack), (stringify!(unpack), unpack), ("size", size)];

/// Maximum size of an integer, in bytes.
const MAX_INTEGER: usize = 32;
/// Maximum size of a result, in bytes.
const MAX_SIZE: usize = 64 << 20;

/// Position in a format.
struct Format<'a> {
    rest: &'a [u8],
    is_big: bool,
    /// Maximum alignment, in bytes.
    alignment: usize,
}

/// Option of a format with its size, in bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Item {
    Signed(usize),
    Unsigned(usize),
    Float(usize),
    Bytes(usize),
    String,
    Padding,
}

impl<'a> Format<'a> {
    fn new(text: &'a [u8]) -> Format<'a> {
        Format { rest: text, is_big: false, alignment: 1 }
    }

    fn number(&mut self) -> Option<usize> {
        let len = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = self.rest.split_at(len);
        self.rest = rest;
        let digits = std::str::from_utf8(digits).ok().filter(|digits| !digits.is_empty())?;
        Some(digits.parse().unwrap_or(usize::MAX))
    }

    fn integer_size(&mut self) -> Result<usize, String> {
        match self.number() {
            None => Ok(4),
            Some(size) if size <= MAX_INTEGER => Ok(size),
            Some(size) => Err(format!("integral size {size} is larger than limit of {MAX_INTEGER}")),
        }
    }

    /// Returns the next option that stands for bytes.
    fn next(&mut self, args: &LuaArgs<'_>) -> Result<Option<Item>, String> {
        while let Some((option, rest)) = self.rest.split_first() {
            self.rest = rest;
            return Ok(Some(match option {
                b'b' => Item::Signed(1),
                b'B' => Item::Unsigned(1),
                b'h' => Item::Signed(2),
                b'H' => Item::Unsigned(2),
                b'l' => Item::Signed(8),
                b'L' | b'T' => Item::Unsigned(8),
                b'i' => Item::Signed(self.integer_size()?),
                b'I' => Item::Unsigned(self.integer_size()?),
                b'f' => Item::Float(4),
                b'd' => Item::Float(8),
                b'x' => Item::Padding,
                b's' => Item::String,
                b'c' => Item::Bytes(self.number().unwrap_or(1)),
                b' ' => continue,
                b'>' => {
                    self.is_big = true;
                    continue;
                }
                b'<' | b'=' => {
                    self.is_big = false;
                    continue;
                }
                b'!' => {
                    self.alignment = self.number().unwrap_or(8);
                    if !self.alignment.is_power_of_two() {
                        return Err("alignment is not a power of 2".into());
                    }
                    continue;
                }
                other => {
                    let reason = format!("invalid format option '{}'", char::from(*other));
                    return Err(args.error(1, &reason));
                }
            }));
        }
        Ok(None)
    }

    /// Number of bytes before `item` at the position `at`.
    fn padding(&self, item: Item, at: usize) -> usize {
        let size = match item {
            Item::Signed(size) | Item::Unsigned(size) | Item::Float(size) => size,
            Item::Bytes(_) | Item::String | Item::Padding => 1,
        };
        let alignment = size.min(self.alignment);
        if alignment <= 1 { 0 } else { at.next_multiple_of(alignment) - at }
    }

    fn ordered(&self, mut bytes: Vec<u8>) -> Vec<u8> {
        if self.is_big {
            bytes.reverse();
        }
        bytes
    }
}

/// Encodes values: `pack(format, value ..)`.
fn pack(args: &LuaArgs<'_>) -> Results {
    let text = args.bytes(1)?;
    let mut format = Format::new(&text);
    let mut out = Vec::new();
    let mut index = 2;
    while let Some(item) = format.next(args)? {
        out.resize(out.len() + format.padding(item, out.len()), 0);
        match item {
            Item::Padding => out.push(0),
            Item::Signed(size) | Item::Unsigned(size) => {
                let number = packed_integer(args.number(index)?);
                let fill = if number < 0 { 0xff } else { 0 };
                let mut bytes = number.to_le_bytes().to_vec();
                bytes.resize(size, fill);
                out.extend(format.ordered(bytes));
            }
            Item::Float(size) => {
                let number = args.number(index)?;
                let bytes = if size == 4 {
                    (number as f32).to_le_bytes().to_vec()
                } else {
                    number.to_le_bytes().to_vec()
                };
                out.extend(format.ordered(bytes));
            }
            Item::String => {
                out.extend(args.bytes(index)?);
                out.push(0);
            }
            Item::Bytes(size) => {
                let bytes = args.bytes(index)?;
                let size = if size == 0 { bytes.len() } else { size };
                out.extend(bytes.get(..size).ok_or_else(|| args.error(index + 1, "string too short"))?);
            }
        }
        index += usize::from(item != Item::Padding);
        if out.len() > MAX_SIZE {
            return Err("the result exceeds 64 MiB".into());
        }
    }
    args.string(&out)
}

fn packed_integer(number: f64) -> i64 {
    if number >= 0.0 && number < 2f64.powi(64) { number as u64 as i64 } else { truncated_i64(number) }
}

/// Decodes values: `unpack(format, bytes [, position])`.
fn unpack(args: &LuaArgs<'_>) -> Results {
    let text = args.bytes(1)?;
    let data = args.bytes(2)?;
    let position = args.integer_or(3, 1)?;
    let mut at = usize::try_from(position.saturating_sub(1))
        .map_err(|_| args.error(3, "offset must be 1 or greater"))?;
    let mut format = Format::new(&text);
    let mut results = args.list()?;
    let mut last_number = None;
    while let Some(item) = format.next(args)? {
        at = at.saturating_add(format.padding(item, at));
        let size = match item {
            Item::Signed(size) | Item::Unsigned(size) | Item::Float(size) => size,
            Item::Padding => 1,
            Item::Bytes(0) => count_before(last_number)?,
            Item::Bytes(size) => size,
            Item::String => {
                let rest = data.get(at..).unwrap_or_default();
                memchr::memchr(0, rest).ok_or("unfinished string in data")? + 1
            }
        };
        let end = at.saturating_add(size);
        let bytes = data.get(at..end).ok_or_else(|| args.error(2, "data string too short"))?;
        at = end;
        last_number = None;
        match item {
            Item::Padding => {}
            Item::Signed(_) | Item::Unsigned(_) => {
                let number = unpacked_integer(&format.ordered(bytes.to_vec()), item);
                last_number = Some(number);
                results.push(number)?;
            }
            Item::Float(_) => results.push(unpacked_float(&format.ordered(bytes.to_vec())))?,
            Item::Bytes(requested) => {
                if requested == 0 {
                    // The number of bytes is no result.
                    results.replace_last(args.lua, bytes)?;
                } else {
                    results.push_bytes(args.lua, bytes)?;
                }
            }
            Item::String => results.push_bytes(args.lua, &bytes[..size - 1])?,
        }
    }
    results.push((at + 1) as f64)?;
    results.finish()
}

fn count_before(last_number: Option<f64>) -> Result<usize, String> {
    match last_number {
        Some(number) if number >= 0.0 => Ok(number as usize),
        _ => Err("format 'c0' needs a previous size".into()),
    }
}

/// Number of the little-endian bytes `bytes`. Bytes after the eighth are ignored.
fn unpacked_integer(bytes: &[u8], item: Item) -> f64 {
    let mut word = [0; 8];
    let len = bytes.len().min(8);
    word[..len].copy_from_slice(&bytes[..len]);
    let number = u64::from_le_bytes(word);
    if item == Item::Unsigned(bytes.len()) || len == 0 {
        return number as f64;
    }
    let shift = 64 - 8 * len as u32;
    (((number << shift) as i64) >> shift) as f64
}

fn unpacked_float(bytes: &[u8]) -> f64 {
    match bytes {
        [a, b, c, d] => f64::from(f32::from_le_bytes([*a, *b, *c, *d])),
        bytes => bytes.try_into().map_or(0.0, f64::from_le_bytes),
    }
}

/// Size of a structure: `size(format)`.
fn size(args: &LuaArgs<'_>) -> Results {
    let text = args.bytes(1)?;
    let mut format = Format::new(&text);
    let mut total = 0usize;
    while let Some(item) = format.next(args)? {
        let size = match item {
            Item::Signed(size) | Item::Unsigned(size) | Item::Float(size) => size,
            Item::Padding => 1,
            Item::String => return Err(args.error(1, "option 's' has no fixed size")),
            Item::Bytes(0) => return Err(args.error(1, "option 'c0' has no fixed size")),
            Item::Bytes(size) => size,
        };
        total = total.saturating_add(format.padding(item, total)).saturating_add(size);
        if total > MAX_SIZE {
            return Err("the size exceeds 64 MiB".into());
        }
    }
    Ok(Value::Number(total as f64).into())
}
