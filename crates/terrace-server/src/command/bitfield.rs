//! BITFIELD: integers of any width at any bit of a string.

use super::bitmap::{bit_at, grown, parse_offset, set_bit_at};
use super::{Args, Call};
use crate::failure::{CommandResult, Failure};
use crate::store::{Entry, EventClass, Replaced};

/// Type of a field: `i1` to `i64`, `u1` to `u63`.
#[derive(Debug, Clone, Copy)]
struct FieldType {
    is_signed: bool,
    bits: u32,
}

/// Result of a number that does not fit.
#[derive(Debug, Clone, Copy)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

#[derive(Debug, Clone, Copy)]
enum Action {
    Get,
    Set(i64),
    Increment(i64),
}

/// Part of the command.
#[derive(Debug, Clone, Copy)]
struct Step {
    action: Action,
    field: FieldType,
    /// Offset of the first bit.
    offset: usize,
    overflow: Overflow,
}

impl FieldType {
    fn parse(text: &[u8]) -> CommandResult<FieldType> {
        let invalid = Failure::reply(
            "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
        );
        let (is_signed, digits) = match text {
            [b'i', digits @ ..] => (true, digits),
            [b'u', digits @ ..] => (false, digits),
            _ => return Err(invalid),
        };
        let max = if is_signed { 64 } else { 63 };
        match crate::resp::parse_u64(digits) {
            Some(bits) if (1..=max).contains(&bits) => Ok(FieldType { is_signed, bits: bits as u32 }),
            _ => Err(invalid),
        }
    }

    fn min(self) -> i128 {
        if self.is_signed { -(1 << (self.bits - 1)) } else { 0 }
    }

    fn max(self) -> i128 {
        let bits = if self.is_signed { self.bits - 1 } else { self.bits };
        (1 << bits) - 1
    }

    /// Returns the number that the lowest bits of `number` are.
    fn wrapped(self, number: i128) -> i128 {
        let masked = number & ((1 << self.bits) - 1);
        if self.is_signed && masked > self.max() { masked - (1 << self.bits) } else { masked }
    }

    /// Returns the stored form of `number`, or nothing if it does not fit and must not change.
    fn fit(self, number: i128, overflow: Overflow) -> Option<i128> {
        if (self.min()..=self.max()).contains(&number) {
            return Some(number);
        }
        match overflow {
            Overflow::Wrap => Some(self.wrapped(number)),
            Overflow::Saturate => Some(number.clamp(self.min(), self.max())),
            Overflow::Fail => None,
        }
    }

    fn read(self, bytes: &[u8], offset: usize) -> i128 {
        let bits = (offset..offset + self.bits as usize).map(|at| i128::from(bit_at(bytes, at)));
        self.wrapped(bits.fold(0, |number, bit| number << 1 | bit))
    }

    fn write(self, bytes: &mut [u8], offset: usize, number: i128) {
        for index in 0..self.bits {
            let is_set = number >> (self.bits - 1 - index) & 1 == 1;
            set_bit_at(bytes, offset + index as usize, is_set);
        }
    }
}

impl Step {
    /// Runs the step. Returns the number of the reply, and whether the step has stored another
    /// number than the old one. Returns None if the number does not fit and must not change.
    fn run(self, bytes: &mut [u8]) -> Option<(i128, bool)> {
        let old = self.field.read(bytes, self.offset);
        let (wanted, is_old_returned) = match self.action {
            Action::Get => return Some((old, false)),
            Action::Set(number) if self.field.is_signed => (i128::from(number), true),
            Action::Set(number) => (i128::from(number as u64), true),
            Action::Increment(number) => (old + i128::from(number), false),
        };
        let new = self.field.fit(self.as_redis_saturates(wanted), self.overflow)?;
        self.field.write(bytes, self.offset, new);
        Some((if is_old_returned { old } else { new }, new != old))
    }

    /// Redis computes the distance from a number to the maximum in 64 bits. SET of a number that is
    /// so far below the minimum that the distance wraps saturates at the maximum.
    fn as_redis_saturates(self, wanted: i128) -> i128 {
        let is_set = matches!(self.action, Action::Set(_)) && self.field.is_signed && self.field.bits < 64;
        let wraps = self.field.max() - wanted > i128::from(i64::MAX);
        let is_saturated = matches!(self.overflow, Overflow::Saturate);
        if is_set && wraps && is_saturated { self.field.max() } else { wanted }
    }

    fn is_write(self) -> bool {
        !matches!(self.action, Action::Get)
    }

    /// Number of bytes that the string needs.
    fn end(self) -> usize {
        (self.offset + self.field.bits as usize).div_ceil(8)
    }
}

/// Parses the steps.
fn parse(args: Args<'_>, is_read_only: bool) -> CommandResult<Vec<Step>> {
    let mut steps = Vec::new();
    let mut overflow = Overflow::Wrap;
    let mut index = 2;
    while index < args.len() {
        let has = |count: usize| index + count < args.len();
        if args.is(index, "OVERFLOW") && has(1) {
            overflow = match args.at(index + 1).to_ascii_lowercase().as_slice() {
                b"wrap" => Overflow::Wrap,
                b"sat" => Overflow::Saturate,
                b"fail" => Overflow::Fail,
                _ => return Err(Failure::reply("ERR Invalid OVERFLOW type specified")),
            };
            index += 2;
            continue;
        }
        let is_get = args.is(index, "GET") && has(2);
        if !is_get && !((args.is(index, "SET") || args.is(index, "INCRBY")) && has(3)) {
            return Err(Failure::SYNTAX);
        }
        let field = FieldType::parse(args.at(index + 1))?;
        let offset = parse_offset(args.at(index + 2), Some(field.bits))?;
        let action = if is_get {
            Action::Get
        } else {
            let number = args.integer(index + 3)?;
            if args.is(index, "SET") { Action::Set(number) } else { Action::Increment(number) }
        };
        steps.push(Step { action, field, offset, overflow });
        index += if is_get { 3 } else { 4 };
    }
    if is_read_only && steps.iter().any(|step| step.is_write()) {
        return Err(Failure::reply("ERR BITFIELD_RO only supports the GET subcommand"));
    }
    Ok(steps)
}

/// BITFIELD key [GET type offset | SET type offset value | INCRBY type offset increment |
/// OVERFLOW WRAP | SAT | FAIL] ..
pub(super) fn bitfield(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    run(call, args, false)
}

/// BITFIELD_RO key [GET type offset] ..
pub(super) fn bitfield_ro(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    run(call, args, true)
}

fn run(call: &mut Call<'_>, args: Args<'_>, is_read_only: bool) -> CommandResult {
    let steps = parse(args, is_read_only)?;
    let len = steps.iter().filter(|step| step.is_write()).map(|step| step.end()).max();
    let entry = call.get_string(&args[1])?;
    let mut value = grown(entry.as_ref(), len.unwrap_or(0));
    let mut is_changed = value.len() > entry.as_ref().map_or(0, |entry| entry.value().len());
    call.reply.array(steps.len());
    for step in &steps {
        match step.run(&mut value) {
            Some((number, is_new)) => {
                call.reply.integer(number as i64);
                is_changed |= is_new;
            }
            None => call.reply.null(),
        }
    }
    if is_changed {
        let expires_at = entry.as_ref().and_then(Entry::expires_at);
        call.put_string(&args[1], &value, expires_at, Replaced::Read(entry.as_ref()))?;
        call.notify(EventClass::STRING, "setbit", &args[1]);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(field: &str, number: i128, overflow: Overflow, expected: Option<i128>) {
        assert_eq!(FieldType::parse(field.as_bytes()).unwrap().fit(number, overflow), expected);
    }

    #[test]
    fn numbers_that_do_not_fit() {
        check("u8", 256, Overflow::Wrap, Some(0));
        check("u8", -1, Overflow::Wrap, Some(255));
        check("u8", 300, Overflow::Saturate, Some(255));
        check("i8", 128, Overflow::Wrap, Some(-128));
        check("i8", -129, Overflow::Saturate, Some(-128));
        check("i64", i128::from(i64::MAX) + 1, Overflow::Wrap, Some(i64::MIN.into()));
        check("u63", 1 << 63, Overflow::Fail, None);
    }

    #[test]
    fn types_of_fields() {
        for text in ["u64", "i65", "i0", "x8", "", "i", "u08", "i-1"] {
            assert!(FieldType::parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
