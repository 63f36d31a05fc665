//! Numbers as text, by Redis' rules.

/// Returns the integer that `text` is, in its only form: digits after an optional minus sign, and
/// no leading zero.
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match text.split_first() {
        Some((b'-', digits)) => (true, digits),
        _ => (false, text),
    };
    let magnitude = parse_u64(digits)?;
    match (is_negative, magnitude) {
        (false, magnitude) => i64::try_from(magnitude).ok(),
        (true, 0) => None,
        (true, magnitude) => 0i64.checked_sub_unsigned(magnitude),
    }
}

/// Returns the number that `text` is: digits without a leading zero.
pub fn parse_u64(text: &[u8]) -> Option<u64> {
    match text {
        [b'0'] => Some(0),
        [b'1'..=b'9', ..] if text.len() <= 20 => text.iter().try_fold(0u64, |number, byte| {
            let digit = byte.wrapping_sub(b'0');
            (digit <= 9).then_some(())?;
            number.checked_mul(10)?.checked_add(u64::from(digit))
        }),
        _ => None,
    }
}

/// Returns the cursor of a scan that `text` states. Redis reads it with `strtoul`: an empty text is
/// 0, a negative number counts from the end, and a byte 0 ends the text.
pub fn parse_cursor(text: &[u8]) -> Option<u64> {
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    let (sign, digits) = match text.split_first() {
        Some((sign @ (b'+' | b'-'), digits)) => (Some(*sign), digits),
        _ => (None, text),
    };
    if digits.is_empty() && sign.is_some() {
        return None;
    }
    let number = digits.iter().try_fold(0u64, |number, byte| {
        let digit = byte.wrapping_sub(b'0');
        (digit <= 9).then_some(())?;
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })?;
    Some(if sign == Some(b'-') { number.wrapping_neg() } else { number })
}

/// Returns the number that `text` is, in decimal or exponent form. `inf` is a number, `nan` is not.
pub fn parse_double(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    let is_infinite = {
        let unsigned = text.trim_start_matches(['+', '-']);
        unsigned.eq_ignore_ascii_case("inf") || unsigned.eq_ignore_ascii_case("infinity")
    };
    if text.is_empty()
        || !(is_infinite || text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte)))
    {
        return None;
    }
    text.parse().ok().filter(|number: &f64| !number.is_nan())
}

/// Returns `number` with up to 17 significant digits, like Redis 7.0 formats scores.
pub fn format_score(number: f64) -> String {
    /// Number of significant digits.
    const DIGITS: i32 = 17;
    if number.is_infinite() {
        return if number > 0.0 { "inf".into() } else { "-inf".into() };
    }
    if number == number.trunc() && number.abs() < 1e15 {
        // The negative zero has no integer.
        return if number == 0.0 && number.is_sign_negative() {
            "-0".into()
        } else {
            itoa::Buffer::new().format(number as i64).into()
        };
    }
    let text = format!("{number:.16e}");
    let Some((mantissa, exponent)) = text.split_once('e') else { return text };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trim = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if (-4..DIGITS).contains(&exponent) {
        let decimals = (DIGITS - 1 - exponent) as usize;
        return trim(&format!("{number:.decimals$}"));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trim(mantissa), exponent.abs())
}

/// Returns `number` with up to 17 decimals, like Redis formats coordinates.
pub fn format_decimal(number: f64) -> String {
    let text = format!("{number:.17}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".into() } else { text.into() }
}

/// Returns the shortest text that stands for `number`, without an exponent.
pub fn format_double(number: f64) -> String {
    if number.is_infinite() {
        return if number > 0.0 { "inf".into() } else { "-inf".into() };
    }
    if number == 0.0 {
        return if number.is_sign_negative() { "-0".into() } else { "0".into() };
    }
    format!("{number}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<i64>) {
        assert_eq!(parse_i64(text.as_bytes()), expected, "{text}");
    }

    #[test]
    fn integers() {
        check("0", Some(0));
        check("-17", Some(-17));
        check("9223372036854775807", Some(i64::MAX));
        check("-9223372036854775808", Some(i64::MIN));
    }

    #[test]
    fn other_forms_of_integers() {
        for text in ["", "-", "+1", "-0", "00", "01", " 1", "1 ", "1a", "9223372036854775808"] {
            check(text, None);
        }
        check("-9223372036854775809", None);
        check("99999999999999999999", None);
    }

    #[test]
    fn cursors() {
        for (text, cursor) in [
            ("", 0),
            ("0", 0),
            ("00", 0),
            ("+7", 7),
            ("-0", 0),
            ("-1", u64::MAX),
            ("\0", 0),
            ("7\0x", 7),
            ("-1\0", u64::MAX),
        ] {
            assert_eq!(parse_cursor(text.as_bytes()), Some(cursor), "{text}");
        }
        assert_eq!(parse_cursor(b"18446744073709551615"), Some(u64::MAX));
        for text in [
            "+",
            "-",
            " 1",
            "1 ",
            "x",
            "0x1",
            "18446744073709551616",
            "-18446744073709551616",
            "+\0",
            " 1\0",
            "x\0",
        ] {
            assert_eq!(parse_cursor(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn scores() {
        for (number, text) in [
            (3.0, "3"),
            (-0.0, "-0"),
            (0.1, "0.10000000000000001"),
            (0.0001, "0.0001"),
            (1e-7, "9.9999999999999995e-08"),
            (123_456.789, "123456.789"),
            (1e17, "1e+17"),
            (1e16, "10000000000000000"),
            (1.5e300, "1.5000000000000001e+300"),
            (-2.5, "-2.5"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(format_score(number), text);
        }
        assert_eq!(format_decimal(13.361_389_338_970_184), "13.36138933897018433");
        assert_eq!([format_decimal(2.0), format_decimal(-0.5)], ["2", "-0.5"]);
    }

    #[test]
    fn doubles() {
        assert_eq!(parse_double(b"3.0e3"), Some(3000.0));
        assert_eq!(parse_double(b"-inf"), Some(f64::NEG_INFINITY));
        // The integer digits of the greatest number, with decimals.
        assert_eq!(parse_double(format!("{:.400}", f64::MAX).as_bytes()), Some(f64::MAX));
        assert_eq!([parse_double(b"nan"), parse_double(b"1 "), parse_double(b"")], [None; 3]);
        assert_eq!(format_double(1e20), "100000000000000000000");
        assert_eq!(format_double(0.1), "0.1");
    }
}
