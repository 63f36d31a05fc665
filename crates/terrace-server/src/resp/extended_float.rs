//! Sums with the precision of Redis: floating-point numbers with 64 bits of mantissa (the x87's
//! extended precision), written with 17 digits after the point.
//!
//! ```text
//!   "0.1" + "0.2"         0.3
//!   "5010.5" + "0.1"      5010.60000000000000009, as Redis writes it
//! ```

use std::cmp::Ordering;

/// Number of digits after the point.
const FRACTION_DIGITS: i32 = 17;
/// 10 to the power of [`FRACTION_DIGITS`].
const SCALE: u128 = 100_000_000_000_000_000;
/// Maximum number of digits before the point.
const WHOLE_DIGITS: i32 = 19;

/// Number of bits by which a mantissa of 64 bits can be shifted in 127 bits.
const MAX_SHIFT: i32 = 62;

/// The number `mantissa` / 2^`shift`, with at most 64 bits of mantissa.
#[derive(Debug, Clone, Copy)]
struct Extended {
    is_negative: bool,
    mantissa: u128,
    shift: i32,
}

/// Returns the sum of two decimal numbers as text, or None if one of them has too many digits or is
/// no number.
pub fn extended_sum(first: &[u8], second: &[u8]) -> Option<String> {
    let sum = Extended::parse(first)?.add(Extended::parse(second)?);
    Some(sum.format())
}

impl Extended {
    /// Parses `-12.5e3`.
    fn parse(text: &[u8]) -> Option<Extended> {
        let text = std::str::from_utf8(text).ok()?;
        let (number, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let exponent: i32 = exponent.parse().ok().filter(|exponent: &i32| exponent.abs() <= WHOLE_DIGITS)?;
        let unsigned = number.strip_prefix('-');
        let digits = unsigned.unwrap_or(number);
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        if whole.is_empty() || whole.len() as i32 + exponent > WHOLE_DIGITS {
            return None;
        }
        let power = FRACTION_DIGITS + exponent - fraction.len() as i32;
        let mut scaled: u128 = 0;
        for digit in whole.chars().chain(fraction.chars()) {
            scaled = scaled.checked_mul(10)?.checked_add(u128::from(digit.to_digit(10)?))?;
        }
        let factor = 10u128.checked_pow(u32::try_from(power).ok()?)?;
        let scaled = scaled.checked_mul(factor).filter(|scaled| *scaled < SCALE << 64)?;
        Some(Extended::from_scaled(unsigned.is_some(), scaled))
    }

    /// Rounds `scaled` / 10^17.
    fn from_scaled(is_negative: bool, scaled: u128) -> Extended {
        if scaled == 0 {
            return Extended { is_negative, mantissa: 0, shift: 0 };
        }
        // The largest shift with a quotient below 2^64.
        let mut shift =
            scaled.leading_zeros() as i32 - (64 - (u128::BITS - SCALE.leading_zeros()) as i32) - 1;
        while shifted(scaled, shift) >= SCALE << 64 {
            shift -= 1;
        }
        while shift < 120 && shifted(scaled, shift + 1) < SCALE << 64 {
            shift += 1;
        }
        let mantissa = divide(shifted(scaled, shift), SCALE);
        Extended { is_negative, mantissa, shift }
    }

    fn add(self, other: Extended) -> Extended {
        let (large, small) = match self.shift.cmp(&other.shift) {
            Ordering::Greater => (other, self),
            _ => (self, other),
        };
        if large.mantissa == 0 {
            return small;
        }
        /// Difference of the exponents at which the smaller number is below a quarter of a unit.
        const NEGLIGIBLE: i32 = 66;
        let difference = small.shift - large.shift;
        if difference > NEGLIGIBLE || small.mantissa == 0 {
            return large;
        }
        let small = small.without_low_bits(difference - MAX_SHIFT);
        let difference = difference.min(MAX_SHIFT);
        let signed = |number: Extended, shift: i32| {
            let value = (number.mantissa << shift) as i128;
            if number.is_negative { -value } else { value }
        };
        let sum = signed(large, difference) + signed(small, 0);
        let magnitude = sum.unsigned_abs();
        let excess = (u128::BITS - magnitude.leading_zeros()).saturating_sub(64);
        Extended {
            is_negative: sum < 0,
            mantissa: divide(magnitude, 1 << excess),
            shift: small.shift - excess as i32,
        }
    }

    /// Removes the lowest `count` bits, and keeps in the last bit whether one of them was set.
    fn without_low_bits(self, count: i32) -> Extended {
        let Some(count) = u32::try_from(count).ok().filter(|count| *count > 0) else { return self };
        let is_inexact = self.mantissa & ((1 << count) - 1) != 0;
        let mantissa = self.mantissa >> count | u128::from(is_inexact);
        Extended { mantissa, shift: self.shift - count as i32, ..self }
    }

    fn format(self) -> String {
        let scaled = match u32::try_from(self.shift) {
            Ok(shift) if shift > 120 => 0,
            Ok(shift) => divide(self.mantissa * SCALE, 1 << shift),
            Err(_) => (self.mantissa * SCALE) << self.shift.unsigned_abs().min(4),
        };
        let sign = if self.is_negative && scaled > 0 { "-" } else { "" };
        let fraction = format!("{:017}", scaled % SCALE);
        let fraction = fraction.trim_end_matches('0');
        let point = if fraction.is_empty() { "" } else { "." };
        format!("{sign}{}{point}{fraction}", scaled / SCALE)
    }
}

/// Returns `number` times 2^`shift`.
fn shifted(number: u128, shift: i32) -> u128 {
    if shift < 0 { number >> shift.unsigned_abs() } else { number << shift }
}

/// Returns the quotient, rounded to the nearest integer, and to the even one of two.
fn divide(number: u128, divisor: u128) -> u128 {
    let quotient = number / divisor;
    let rest = number % divisor;
    match rest.cmp(&(divisor - rest)) {
        Ordering::Less => quotient,
        Ordering::Greater => quotient + 1,
        Ordering::Equal => quotient + quotient % 2,
    }
}

#[cfg(test)]
mod tests {
    use super::extended_sum;

    #[track_caller]
    fn check(first: &str, second: &str, expected: Option<&str>) {
        assert_eq!(extended_sum(first.as_bytes(), second.as_bytes()).as_deref(), expected);
    }

    #[test]
    fn sums_of_redis() {
        check("0.1", "0.2", Some("0.3"));
        check("10.50", "0.1", Some("10.6"));
        check("5.0e3", "2.0e2", Some("5200"));
        check("3", "-5", Some("-2"));
        check("-0.5", "0.5", Some("0"));
        check("0", "0", Some("0"));
        check("9223372036854775807", "-3.25", Some("9223372036854775804"));
        check("9223372036854775807", "0.5", Some("9223372036854775807.5"));
        check("5010.5", "0.1", Some("5010.60000000000000009"));
        check("1", "0.00000000000000001", Some("1.00000000000000001"));
    }

    #[test]
    fn other_texts() {
        for text in ["", ".5", "+1", "inf", "1e99", "99999999999999999999", "1 ", "0.123456789012345678"] {
            check(text, "1", None);
        }
    }
}
