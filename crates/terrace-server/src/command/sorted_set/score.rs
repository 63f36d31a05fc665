//! Scores as text and as bytes.

use crate::resp::parse_double;

/// Returns the bytes of a score. Their order is the order of the scores; both zeros are equal.
pub(in crate::command) fn encode_score(score: f64) -> [u8; 8] {
    // The addition makes the negative zero positive.
    let bits = (score + 0.0).to_bits();
    let sign = 1 << 63;
    (if bits & sign == 0 { bits | sign } else { !bits }).to_be_bytes()
}

/// Returns the score with the bytes `bytes`.
pub(in crate::command) fn decode_score(bytes: &[u8]) -> Option<f64> {
    let bits = u64::from_be_bytes(bytes.try_into().ok()?);
    let sign = 1 << 63;
    let score = f64::from_bits(if bits & sign == 0 { !bits } else { bits & !sign });
    (!score.is_nan()).then_some(score)
}

/// Returns the score that `text` states. A number that is too large or too small is an error.
pub(in crate::command) fn parse_score(text: &[u8]) -> Option<f64> {
    let score = parse_bound(text).filter(|_| !text.is_empty())?;
    let is_word = text.iter().any(|byte| matches!(byte, b'n' | b'N'));
    let has_digits =
        text.iter().take_while(|byte| !matches!(byte, b'e' | b'E')).any(|byte| (b'1'..=b'9').contains(byte));
    let is_too_large = score.is_infinite() && !is_word;
    let is_too_small = score == 0.0 && has_digits;
    (!is_too_large && !is_too_small).then_some(score)
}

/// Returns the number that `text` states as a bound. Nothing is zero, as in Redis.
pub(super) fn parse_bound(text: &[u8]) -> Option<f64> {
    if text.is_empty() {
        return Some(0.0);
    }
    parse_double(text).or_else(|| parse_hexadecimal(text))
}

/// Returns the number of an integer in hexadecimal form.
fn parse_hexadecimal(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1.0, digits),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    let digits = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X"))?;
    let is_valid = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = u64::from_str_radix(digits, 16).ok().filter(|_| is_valid)?;
    Some(sign * number as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_of_the_bytes() {
        let scores = [
            f64::NEG_INFINITY,
            f64::MIN,
            -1.5,
            -1.0,
            -f64::MIN_POSITIVE,
            -5e-324,
            0.0,
            5e-324,
            0.1,
            1.0,
            1.5,
            9_007_199_254_740_993.0,
            f64::MAX,
            f64::INFINITY,
        ];
        for pair in scores.windows(2) {
            assert!(encode_score(pair[0]) < encode_score(pair[1]), "{pair:?}");
        }
        for score in scores {
            assert_eq!(decode_score(&encode_score(score)), Some(score));
        }
        assert_eq!(encode_score(-0.0), encode_score(0.0));
        assert_eq!([decode_score(&[0xff; 8]), decode_score(&[0; 8]), decode_score(b"1234567")], [None; 3]);
    }

    #[test]
    fn scores_as_text() {
        for (text, score) in [
            ("1", 1.0),
            ("-1.5e3", -1500.0),
            (".5", 0.5),
            ("+inf", f64::INFINITY),
            ("-Infinity", f64::NEG_INFINITY),
            ("0x10", 16.0),
            ("0e9", 0.0),
        ] {
            assert_eq!(parse_score(text.as_bytes()), Some(score), "{text}");
        }
        for text in ["", "nan", " 1", "1 ", "1e400", "-1e400", "1e-400", "0x", "1x", "e5"] {
            assert_eq!(parse_score(text.as_bytes()), None, "{text}");
        }
    }
}
