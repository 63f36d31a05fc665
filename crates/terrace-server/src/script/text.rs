//! Numbers as text, in the forms of C.

/// Returns the text of `printf("%.{digits}g", number)`.
pub(super) fn format_g(number: f64, digits: usize) -> String {
    if number.is_nan() {
        return if number.is_sign_negative() { "-nan".into() } else { "nan".into() };
    }
    if number.is_infinite() {
        return if number > 0.0 { "inf".into() } else { "-inf".into() };
    }
    let digits = digits.max(1);
    let scientific = format!("{number:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if exponent < -4 || exponent >= digits as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trimmed(mantissa), exponent.abs());
    }
    let decimals = (digits as i32 - 1 - exponent).max(0) as usize;
    trimmed(&format!("{number:.decimals$}")).to_owned()
}

/// Removes zeros after the decimal point.
fn trimmed(text: &str) -> &str {
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.')
}

/// Returns a number as argument of a command: `%.17g`, as in Redis.
pub(super) fn format_argument(number: f64) -> String {
    /// Integers below this one have at most 17 digits.
    const LIMIT: u64 = 10u64.pow(17);
    match exact_i64(number).filter(|integer| integer.unsigned_abs() < LIMIT) {
        Some(integer) if integer != 0 => integer.to_string(),
        _ => format_g(number, 17),
    }
}

/// Returns the bytes before the first NUL: the text as C sees it.
pub(super) fn before_nul(text: &[u8]) -> &[u8] {
    memchr::memchr(0, text).map_or(text, |end| &text[..end])
}

/// Returns the integer that equals `number`.
pub(super) fn exact_i64(number: f64) -> Option<i64> {
    let integer = number as i64;
    // 2^63 as a double is no i64, but the conversion saturates.
    (integer as f64 == number && integer != i64::MAX).then_some(integer)
}

/// Returns the integer that C's conversion makes of `number` on x86-64.
pub(super) fn truncated_i64(number: f64) -> i64 {
    if number >= -(2f64.powi(63)) && number < 2f64.powi(63) { number as i64 } else { i64::MIN }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(number: f64, digits: usize, expected: &str) {
        assert_eq!(format_g(number, digits), expected);
    }

    #[test]
    fn forms_of_g() {
        check(3.5, 17, "3.5");
        check(1e19, 17, "1e+19");
        check(1.0 / 3.0, 17, "0.33333333333333331");
        check(1.0 / 3.0, 14, "0.33333333333333");
        check(1e14, 14, "1e+14");
        check(123_456_789_012_345_678.0, 14, "1.2345678901235e+17");
        check(0.000_01, 14, "1e-05");
        check(-0.5, 14, "-0.5");
        check(0.0, 14, "0");
        check(99_999_999_999_999.96, 14, "1e+14");
    }

    #[test]
    fn arguments_of_commands() {
        for (number, expected) in [
            (3.0, "3"),
            (-7.5, "-7.5"),
            (0.0, "0"),
            (-0.0, "-0"),
            (1e16, "10000000000000000"),
            (99_999_999_999_999_984.0, "99999999999999984"),
            (1e17, "1e+17"),
            (-1e17, "-1e+17"),
            (123_456_789_012_345_678.0, "1.2345678901234568e+17"),
            (4_611_686_018_427_387_904.0, "4.6116860184273879e+18"),
        ] {
            assert_eq!(format_argument(number), expected);
        }
    }

    #[test]
    fn integers_of_doubles() {
        assert_eq!(exact_i64(3.0), Some(3));
        assert_eq!([exact_i64(3.5), exact_i64(1e19), exact_i64(f64::NAN)], [None; 3]);
        assert_eq!(exact_i64(2f64.powi(63)), None);
        assert_eq!([truncated_i64(1e300), truncated_i64(f64::NAN)], [i64::MIN; 2]);
        assert_eq!(truncated_i64(-1.5), -1);
    }
}
