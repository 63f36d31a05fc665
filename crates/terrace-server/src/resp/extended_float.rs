//! Sums with the precision of Redis: floating-point numbers with 64 bits of mantissa (the x87's
//! extended precision), written with 17 digits after the point.
//!
//! ```text
//!   "0.1" + "0.2"         0.3
//!   "5010.5" + "0.1"      5010.60000000000000009, as Redis writes it
//! ```

use std::cmp::Ordering;

/// 10 to the power of the number of digits after the point.
const SCALE: u128 = 100_000_000_000_000_000;
/// Maximum number of digits of a number, so that its fraction has two parts of 127 bits.
const MAX_DIGITS: i32 = 37;
/// Number of bits of a mantissa.
const MANTISSA_BITS: u32 = 64;

/// Number of bits by which a mantissa of 64 bits can be shifted in 127 bits.
const MAX_SHIFT: i32 = 62;

/// The number `mantissa` / 2^`shift`, with at most 64 bits of mantissa.
#[derive(Debug, Clone, Copy)]
struct Extended {
    is_negative: bool,
    mantissa: u128,
    shift: i32,
}

/// Returns the sum of two decimal numbers as text, or None if one of them has more than 37 digits
/// or is no number.
pub fn extended_sum(first: &[u8], second: &[u8]) -> Option<String> {
    Extended::parse(first)?.add(Extended::parse(second)?).format()
}

impl Extended {
    /// Parses `-12.5e3`.
    fn parse(text: &[u8]) -> Option<Extended> {
        let text = std::str::from_utf8(text).ok()?;
        let (number, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let exponent: i32 = exponent.parse().ok()?;
        let unsigned = number.strip_prefix('-');
        let digits = unsigned.or(number.strip_prefix('+')).unwrap_or(number);
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        if (whole.is_empty() && fraction.is_empty())
            || digits.len() as i32 > MAX_DIGITS
            || exponent.abs() > MAX_DIGITS
        {
            return None;
        }
        let mut numerator: u128 = 0;
        for digit in whole.chars().chain(fraction.chars()) {
            numerator = 10 * numerator + u128::from(digit.to_digit(10)?);
        }
        let places = fraction.len() as i32 - exponent;
        let power = 10u128.checked_pow(places.unsigned_abs()).filter(|power| *power < 1 << 126)?;
        let is_negative = unsigned.is_some();
        if places > 0 {
            return Some(Extended::from_ratio(is_negative, numerator, power));
        }
        let numerator = numerator.checked_mul(power).filter(|number| *number < 1 << 126)?;
        Some(Extended::from_ratio(is_negative, numerator, 1))
    }

    /// Rounds a fraction. Its denominator is below 2^126.
    fn from_ratio(is_negative: bool, numerator: u128, denominator: u128) -> Extended {
        let quotient = numerator / denominator;
        let mut rest = numerator % denominator;
        let excess = (u128::BITS - quotient.leading_zeros()).saturating_sub(MANTISSA_BITS);
        if excess > 0 {
            // The additional last bit keeps whether there is a rest, which decides a tie.
            let mantissa = divide((2 * quotient) | u128::from(rest > 0), 2 << excess);
            return Extended { is_negative, mantissa, shift: -(excess as i32) };
        }
        let mut mantissa = quotient;
        let mut shift = 0;
        while rest > 0 && mantissa >> (MANTISSA_BITS - 1) == 0 {
            rest *= 2;
            let bit = u128::from(rest >= denominator);
            rest -= bit * denominator;
            mantissa = 2 * mantissa + bit;
            shift += 1;
        }
        let is_up = match (2 * rest).cmp(&denominator) {
            Ordering::Less => false,
            Ordering::Equal => mantissa % 2 == 1,
            Ordering::Greater => true,
        };
        Extended { is_negative, mantissa: mantissa + u128::from(is_up), shift }
    }

    fn add(self, other: Extended) -> Extended {
        /// Difference of the exponents at which the smaller number is below a quarter of a unit.
        const NEGLIGIBLE: i32 = 66;
        let first = self.normalized();
        let second = other.normalized();
        let (large, small) = if first.shift > second.shift { (second, first) } else { (first, second) };
        let difference = small.shift - large.shift;
        if small.mantissa == 0 || (difference > NEGLIGIBLE && large.mantissa > 0) {
            return large;
        }
        if large.mantissa == 0 {
            return small;
        }
        let small = small.without_low_bits(difference - MAX_SHIFT);
        let difference = difference.min(MAX_SHIFT);
        let signed = |number: Extended, shift: i32| {
            let value = (number.mantissa << shift) as i128;
            if number.is_negative { -value } else { value }
        };
        let sum = signed(large, difference) + signed(small, 0);
        let magnitude = sum.unsigned_abs();
        let excess = (u128::BITS - magnitude.leading_zeros()).saturating_sub(MANTISSA_BITS);
        Extended {
            is_negative: sum < 0,
            mantissa: divide(magnitude, 1 << excess),
            shift: small.shift - excess as i32,
        }
    }

    /// Returns the same number with a mantissa of exactly 64 bits, so that the shift orders numbers
    /// by size.
    fn normalized(self) -> Extended {
        if self.mantissa == 0 {
            return self;
        }
        let missing = self.mantissa.leading_zeros() as i32 - (u128::BITS - MANTISSA_BITS) as i32;
        // A mantissa of 2^64, after a carry, ends with a zero.
        let mantissa = if missing < 0 { self.mantissa >> 1 } else { self.mantissa << missing };
        Extended { mantissa, shift: self.shift + missing, ..self }
    }

    /// Removes the lowest `count` bits, and keeps in the last bit whether one of them was set.
    fn without_low_bits(self, count: i32) -> Extended {
        let Some(count) = u32::try_from(count).ok().filter(|count| *count > 0) else { return self };
        let is_inexact = self.mantissa & ((1 << count) - 1) != 0;
        let mantissa = (self.mantissa >> count) | u128::from(is_inexact);
        Extended { mantissa, shift: self.shift - count as i32, ..self }
    }

    /// Returns the text, or None for a number of 2^126 or more.
    fn format(self) -> Option<String> {
        let (whole, fraction) = match u32::try_from(self.shift) {
            Ok(shift) if shift > 125 => (0, 0),
            Ok(shift) => {
                let scaled = divide(self.mantissa * SCALE, 1 << shift);
                (scaled / SCALE, scaled % SCALE)
            }
            Err(_) if self.shift < -MAX_SHIFT => return None,
            Err(_) => (self.mantissa << self.shift.unsigned_abs(), 0),
        };
        let sign = if self.is_negative && (whole, fraction) != (0, 0) { "-" } else { "" };
        let fraction = format!("{fraction:017}");
        let fraction = fraction.trim_end_matches('0');
        let point = if fraction.is_empty() { "" } else { "." };
        Some(format!("{sign}{whole}{point}{fraction}"))
    }
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
        check("18446744073709551616", "1", Some("18446744073709551616"));
        check("18446744073709551616", "2", Some("18446744073709551618"));
        check("10.9223372036854775807", "1e3", Some("1010.92233720368547756"));
        check("1", "0.00000000000000001", Some("1.00000000000000001"));
        check(".7", "1e3", Some("1000.70000000000000001"));
        check("-.5", "+1.", Some("0.5"));
    }

    #[test]
    fn other_texts() {
        let long = "9".repeat(38);
        for text in ["", ".", "-.", "+-1", "-+1", "inf", "1e99", "1 ", &long] {
            check(text, "1", None);
        }
    }
}
