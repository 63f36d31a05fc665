//! Counters: INCR and its forms.

use super::{Args, Call};
use crate::failure::{CommandResult, Failure};
use crate::resp::{format_double, parse_double, parse_i64};
use crate::store::Entry;

/// INCR key
pub(super) fn incr(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    add(call, &args[1], 1)
}

/// DECR key
pub(super) fn decr(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    add(call, &args[1], -1)
}

/// INCRBY key increment
pub(super) fn incrby(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    add(call, &args[1], args.integer(2)?)
}

/// DECRBY key decrement
pub(super) fn decrby(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let decrement = args.integer(2)?;
    let increment = decrement.checked_neg().ok_or(Failure::reply("ERR decrement would overflow"))?;
    add(call, &args[1], increment)
}

fn add(call: &mut Call<'_>, key: &[u8], increment: i64) -> CommandResult {
    let old = call.get_string(key)?;
    let number = match &old {
        Some(old) => parse_i64(old.value()).ok_or(Failure::NOT_AN_INTEGER)?,
        None => 0,
    };
    let sum = number.checked_add(increment);
    let sum = sum.ok_or(Failure::reply("ERR increment or decrement would overflow"))?;
    let mut buffer = itoa::Buffer::new();
    let expires_at = old.as_ref().and_then(Entry::expires_at);
    call.put_string(key, buffer.format(sum).as_bytes(), expires_at, old.as_ref())?;
    call.reply.integer(sum);
    Ok(())
}

/// INCRBYFLOAT key increment
pub(super) fn incrbyfloat(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let not_a_float = || Failure::reply("ERR value is not a valid float");
    let old = call.get_string(&args[1])?;
    let number = old.as_ref().map_or(&b"0"[..], Entry::value);
    let sum = match decimal_sum(number, &args[2]) {
        Some(sum) => sum,
        None => {
            let number = parse_double(number).ok_or_else(not_a_float)?;
            let increment = parse_double(&args[2]).ok_or_else(not_a_float)?;
            let sum = number + increment;
            if !sum.is_finite() {
                return Err(Failure::reply("ERR increment would produce NaN or Infinity"));
            }
            format_double(sum)
        }
    };
    let expires_at = old.as_ref().and_then(Entry::expires_at);
    call.put_string(&args[1], sum.as_bytes(), expires_at, old.as_ref())?;
    call.reply.bulk(sum);
    Ok(())
}

/// Number of digits after the point in Redis' replies.
const FRACTION_DIGITS: usize = 17;
/// 10 to the power of [`FRACTION_DIGITS`].
const SCALE: i128 = 10i128.pow(FRACTION_DIGITS as u32);
/// Bound of the numbers that [`decimal_sum`] adds. Beyond it, the replies of Redis show the rounding
/// of its floating-point numbers.
const MAX_DECIMAL: i128 = SCALE * 1_000_000;

/// Returns the exact sum of two plain decimal numbers of moderate size.
fn decimal_sum(first: &[u8], second: &[u8]) -> Option<String> {
    let sum = parse_decimal(first)?.checked_add(parse_decimal(second)?)?;
    let magnitude = sum.unsigned_abs();
    let sign = if sum < 0 { "-" } else { "" };
    let whole = magnitude / SCALE as u128;
    let fraction = format!("{:017}", magnitude % SCALE as u128);
    let fraction = fraction.trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    Some(format!("{sign}{whole}{point}{fraction}"))
}

/// Returns the decimal number `text` in units of 10^-17.
fn parse_decimal(text: &[u8]) -> Option<i128> {
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let point = digits.iter().position(|byte| *byte == b'.').unwrap_or(digits.len());
    let whole = &digits[..point];
    let fraction = digits.get(point + 1..).unwrap_or_default();
    if whole.is_empty() || whole.len() > 18 || fraction.len() > FRACTION_DIGITS {
        return None;
    }
    let mut number: i128 = 0;
    for index in 0..whole.len() + FRACTION_DIGITS {
        let byte = match index.checked_sub(whole.len()) {
            None => whole[index],
            Some(index) => *fraction.get(index).unwrap_or(&b'0'),
        };
        number = 10 * number + i128::from(char::from(byte).to_digit(10)?);
    }
    (number <= MAX_DECIMAL).then_some(if is_negative { -number } else { number })
}

#[cfg(test)]
mod tests {
    use super::decimal_sum;

    #[track_caller]
    fn check(first: &str, second: &str, expected: Option<&str>) {
        assert_eq!(decimal_sum(first.as_bytes(), second.as_bytes()).as_deref(), expected);
    }

    #[test]
    fn exact_sums() {
        check("0.1", "0.2", Some("0.3"));
        check("10.50", "0.1", Some("10.6"));
        check("3", "-5", Some("-2"));
        check("-0.5", "0.5", Some("0"));
        check("1", "0.00000000000000001", Some("1.00000000000000001"));
    }

    #[test]
    fn numbers_for_floating_point() {
        for text in ["5.0e3", "", ".5", "+1", "inf", "10000000", "0.123456789012345678"] {
            check(text, "1", None);
        }
    }
}
