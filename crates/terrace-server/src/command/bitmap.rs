//! Bitmaps: strings as arrays of bits. Bit 0 is the highest bit of the first byte.

use super::{Args, Call};
use crate::failure::{CommandResult, Failure};
use crate::resp::{Limits, parse_i64};
use crate::store::{Entry, EventClass, Replaced};

/// Maximum size of a string, in bytes.
const MAX_STRING: usize = Limits::AFTER_LOGIN.arg_bytes;

/// Returns the offset of a bit. With a prefix `#` it counts fields of `bits` bits.
pub(super) fn parse_offset(text: &[u8], bits: Option<u32>) -> CommandResult<usize> {
    let (digits, factor) = match (text.strip_prefix(b"#"), bits) {
        (Some(digits), Some(bits)) => (digits, u64::from(bits)),
        _ => (text, 1),
    };
    let offset = parse_i64(digits).and_then(|offset| u64::try_from(offset).ok()?.checked_mul(factor));
    let offset = offset.and_then(|offset| usize::try_from(offset).ok());
    let offset = offset.filter(|offset| offset / 8 < MAX_STRING);
    offset.ok_or(Failure::reply("ERR bit offset is not an integer or out of range"))
}

/// Returns bit `offset`. Bits after the end are 0.
pub(super) fn bit_at(bytes: &[u8], offset: usize) -> bool {
    bytes.get(offset / 8).is_some_and(|byte| byte >> (7 - offset % 8) & 1 == 1)
}

/// Sets bit `offset`, which exists.
pub(super) fn set_bit_at(bytes: &mut [u8], offset: usize, is_set: bool) {
    let mask = 0x80 >> (offset % 8);
    if is_set {
        bytes[offset / 8] |= mask;
    } else {
        bytes[offset / 8] &= !mask;
    }
}

/// Returns a copy of the string of `entry` with at least `len` bytes.
pub(super) fn grown(entry: Option<&Entry>, len: usize) -> Vec<u8> {
    let old = entry.map_or(&[][..], Entry::value);
    let mut value = Vec::with_capacity(old.len().max(len));
    value.extend_from_slice(old);
    value.resize(old.len().max(len), 0);
    value
}

/// SETBIT key offset value
pub(super) fn setbit(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let offset = parse_offset(args.at(2), None)?;
    let is_set = match args.at(3) {
        b"0" => false,
        b"1" => true,
        _ => return Err(Failure::reply("ERR bit is not an integer or out of range")),
    };
    let entry = call.get_string(&args[1])?;
    let mut value = grown(entry.as_ref(), offset / 8 + 1);
    let old = bit_at(&value, offset);
    let is_grown = value.len() > entry.as_ref().map_or(0, |entry| entry.value().len());
    if is_grown || old != is_set {
        set_bit_at(&mut value, offset, is_set);
        let expires_at = entry.as_ref().and_then(Entry::expires_at);
        call.put_string(&args[1], &value, expires_at, Replaced::Read(entry.as_ref()))?;
        call.notify(EventClass::STRING, "setbit", &args[1]);
    }
    call.reply.integer(i64::from(old));
    Ok(())
}

/// GETBIT key offset
pub(super) fn getbit(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let offset = parse_offset(args.at(2), None)?;
    let entry = call.get_string(&args[1])?;
    let value = entry.as_ref().map_or(&[][..], Entry::value);
    call.reply.integer(i64::from(bit_at(value, offset)));
    Ok(())
}

/// Returns true if argument `index` is BIT, false if it is BYTE or missing.
fn is_in_bits(args: Args<'_>, index: usize) -> CommandResult<bool> {
    match args.get(index) {
        None => Ok(false),
        Some(_) if args.is(index, "BIT") => Ok(true),
        Some(_) if args.is(index, "BYTE") => Ok(false),
        Some(_) => Err(Failure::SYNTAX),
    }
}

/// Returns the bits from `start` to `end`, which count bytes or bits. Negative positions count from
/// the end. The range is empty if it begins after its end.
fn bit_range(len: usize, start: i64, end: i64, is_in_bits: bool) -> std::ops::Range<usize> {
    let unit = if is_in_bits { 1 } else { 8 };
    let total = (len * 8 / unit) as i64;
    let position = |at: i64| if at < 0 { at.saturating_add(total).max(0) } else { at };
    let start = position(start);
    let end = position(end).min(total - 1);
    if start > end {
        return 0..0;
    }
    start as usize * unit..(end as usize + 1) * unit
}

/// BITCOUNT key [start end [BYTE | BIT]]
pub(super) fn bitcount(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let Some(entry) = call.get_string(&args[1])? else {
        call.reply.integer(0);
        return Ok(());
    };
    let value = entry.value();
    let range = match args.len() {
        2 => 0..value.len() * 8,
        4 | 5 => {
            let start = args.integer(2)?;
            let end = args.integer(3)?;
            if start < 0 && end < 0 && start > end {
                // Redis does not look at the unit then.
                0..0
            } else {
                bit_range(value.len(), start, end, is_in_bits(args, 4)?)
            }
        }
        _ => return Err(Failure::SYNTAX),
    };
    call.reply.count(count_ones(value, range));
    Ok(())
}

fn count_ones(value: &[u8], range: std::ops::Range<usize>) -> usize {
    if range.is_empty() {
        return 0;
    }
    let first = range.start / 8;
    let last = (range.end - 1) / 8;
    let total: usize = value[first..=last].iter().map(|byte| byte.count_ones() as usize).sum();
    let before = (first * 8..range.start).filter(|at| bit_at(value, *at)).count();
    let after = (range.end..(last + 1) * 8).filter(|at| bit_at(value, *at)).count();
    total - before - after
}

/// BITPOS key bit [start [end [BYTE | BIT]]]
pub(super) fn bitpos(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let bit = args.integer(2)?;
    if !(0..=1).contains(&bit) {
        return Err(Failure::reply("ERR The bit argument must be 1 or 0."));
    }
    let is_set = bit == 1;
    let Some(entry) = call.get_string(&args[1])? else {
        // A missing key has endless zeros.
        call.reply.integer(if is_set { -1 } else { 0 });
        return Ok(());
    };
    if args.len() > 6 {
        return Err(Failure::SYNTAX);
    }
    let start = if args.len() > 3 { args.integer(3)? } else { 0 };
    let is_in_bits = is_in_bits(args, 5)?;
    let has_end = args.len() > 4;
    let end = if has_end { args.integer(4)? } else { -1 };
    let value = entry.value();
    let range = bit_range(value.len(), start, end, is_in_bits);
    let found = match find_bit(value, range.clone(), is_set) {
        Some(at) => at as i64,
        // Zeros follow the string, unless the range has an end.
        None if !is_set && !has_end && !range.is_empty() => range.end as i64,
        None => -1,
    };
    call.reply.integer(found);
    Ok(())
}

fn find_bit(value: &[u8], range: std::ops::Range<usize>, is_set: bool) -> Option<usize> {
    let other = if is_set { 0 } else { 0xff };
    let mut at = range.start;
    while at < range.end {
        if at.is_multiple_of(8) {
            let skipped =
                value[at / 8..range.end.div_ceil(8)].iter().take_while(|byte| **byte == other).count();
            at += skipped * 8;
        }
        if at >= range.end {
            return None;
        }
        if bit_at(value, at) == is_set {
            return Some(at);
        }
        at += 1;
    }
    None
}

/// BITOP AND | OR | XOR | NOT destination key ..
pub(super) fn bitop(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let operation: fn(u8, u8) -> u8 = match args.at(1).to_ascii_lowercase().as_slice() {
        b"and" => |a, b| a & b,
        b"or" => |a, b| a | b,
        b"xor" => |a, b| a ^ b,
        b"not" => |a, _| !a,
        _ => return Err(Failure::SYNTAX),
    };
    let is_not = args.is(1, "NOT");
    if is_not && args.len() != 4 {
        return Err(Failure::reply("ERR BITOP NOT must be called with a single source key."));
    }
    let mut result: Option<Vec<u8>> = None;
    for key in args.from(3) {
        let entry = call.get_string(key)?;
        let value = entry.as_ref().map_or(&[][..], Entry::value);
        result = Some(match result {
            None if is_not => value.iter().map(|byte| !byte).collect(),
            None => value.to_vec(),
            Some(result) => combined(result, value, operation),
        });
    }
    let result = result.unwrap_or_default();
    if !result.is_empty() {
        call.put_string(&args[2], &result, None, Replaced::Unread)?;
        call.notify(EventClass::STRING, "set", &args[2]);
    } else if let Some(old) = call.get(&args[2])? {
        call.notify(EventClass::GENERIC, "del", &args[2]);
        call.delete(&args[2], &old)?;
    }
    call.reply.count(result.len());
    Ok(())
}

/// Combines two strings. The shorter one has zeros at its end.
fn combined(mut result: Vec<u8>, value: &[u8], operation: fn(u8, u8) -> u8) -> Vec<u8> {
    result.resize(result.len().max(value.len()), 0);
    for (index, byte) in result.iter_mut().enumerate() {
        *byte = operation(*byte, value.get(index).copied().unwrap_or(0));
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bit_of_a_range() {
        let value = [0x00, 0xff, 0xf0];
        for start in 0..=24 {
            for end in start..=24 {
                for is_set in [false, true] {
                    let expected = (start..end).find(|at| bit_at(&value, *at) == is_set);
                    assert_eq!(find_bit(&value, start..end, is_set), expected);
                }
                let count = (start..end).filter(|at| bit_at(&value, *at)).count();
                assert_eq!(count_ones(&value, start..end), count);
            }
        }
    }

    #[test]
    fn ranges_of_bits() {
        assert_eq!(bit_range(3, 0, -1, false), 0..24);
        assert_eq!(bit_range(3, -1, -1, false), 16..24);
        assert_eq!(bit_range(3, 5, 30, true), 5..24);
        assert_eq!(bit_range(3, i64::MIN, i64::MAX, true), 0..24);
        assert_eq!(bit_range(3, 4, 2, true), 0..0);
        assert_eq!(bit_range(0, 0, -1, false), 0..0);
    }
}
