//! Numbers for people: three digits and a unit.

/// Text for a missing value.
pub(super) const NO_VALUE: &str = "–";

/// Formats `figure` if it is present and finite.
pub(super) fn or_none(figure: Option<f64>, show: impl Fn(f64) -> String) -> String {
    figure.filter(|figure| figure.is_finite()).map_or_else(|| NO_VALUE.to_owned(), show)
}

/// Three digits: `0.0123`, `1.23`, `12.3`, `123`.
pub(super) fn three_digits(x: f64) -> String {
    let size = x.abs();
    match size {
        _ if size == 0.0 => "0".to_owned(),
        _ if size < 0.001 => "< 0.001".to_owned(),
        _ if size < 0.0995 => format!("{x:.3}"),
        _ if size < 9.995 => format!("{x:.2}"),
        _ if size < 99.95 => format!("{x:.1}"),
        _ => format!("{x:.0}"),
    }
}

/// `412 k`, `2.57 M`.
pub(super) fn short(x: f64) -> String {
    with_unit(x, 1000.0, &["", "\u{a0}k", "\u{a0}M", "\u{a0}G", "\u{a0}T"])
}

/// `412 k/s`.
pub(super) fn rate(per_second: f64) -> String {
    let short = short(per_second);
    let gap = if short.ends_with(|last: char| last.is_ascii_digit()) { "\u{a0}" } else { "" };
    format!("{short}{gap}/s")
}

/// `116 MiB`.
pub(super) fn bytes(count: f64) -> String {
    with_unit(count, 1024.0, &["\u{a0}B", "\u{a0}KiB", "\u{a0}MiB", "\u{a0}GiB", "\u{a0}TiB"])
}

/// `850 ns`, `1.20 µs`, `3.40 ms`, `2.10 s`.
pub(super) fn nanoseconds(ns: f64) -> String {
    with_unit(ns, 1000.0, &["\u{a0}ns", "\u{a0}µs", "\u{a0}ms", "\u{a0}s"])
}

/// Formats seconds as [`nanoseconds`] does.
pub(super) fn seconds(seconds: f64) -> String {
    if seconds == 0.0 { "0\u{a0}s".to_owned() } else { nanoseconds(seconds * 1e9) }
}

/// `8.13x`, for plain text. Small ratios have a digit more, so that they divide the rates beside
/// them within rounding.
pub(super) fn plain_ratio(ratio: f64) -> String {
    let decimals = if ratio < 0.1 { 3 } else { 2 };
    format!("{ratio:.decimals$}x")
}

/// `8.13×`.
pub(super) fn times(factor: f64) -> String {
    format!("{}×", three_digits(factor))
}

/// `62 %`.
pub(super) fn percent(share: f64) -> String {
    format!("{:.0}\u{a0}%", share * 100.0)
}

/// Formats `1 000 000`, with spaces that do not break.
pub(super) fn count(n: u64) -> String {
    let plain = n.to_string();
    let mut text = String::new();
    for (at, digit) in plain.chars().enumerate() {
        if at > 0 && (plain.len() - at).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// Uses the largest unit that leaves 1 or more; 999.6 already counts as 1.00 of the next.
fn with_unit(x: f64, base: f64, units: &[&str]) -> String {
    let mut size = x;
    let mut units = units.iter();
    let mut unit = units.next().copied().unwrap_or_default();
    for larger in units {
        if size.abs() < base - 0.5 {
            break;
        }
        size /= base;
        unit = larger;
    }
    let whole = size.fract() == 0.0 && size.abs() < 1000.0;
    if whole { format!("{size}{unit}") } else { format!("{}{unit}", three_digits(size)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(shown: String, expect: &str) {
        assert_eq!(shown.replace(['\u{a0}', '\u{202f}'], " "), expect);
    }

    #[test]
    fn rates() {
        check(rate(7.0), "7 /s");
        check(rate(4074.6), "4.07 k/s");
        check(rate(999_600.0), "1.00 M/s");
        check(rate(12_345_678.0), "12.3 M/s");
    }

    #[test]
    fn times_and_sizes() {
        check(nanoseconds(850.0), "850 ns");
        check(nanoseconds(1_234.0), "1.23 µs");
        check(seconds(75.04), "75.0 s");
        check(seconds(0.0), "0 s");
        check(bytes(4_194_304.0), "4 MiB");
        check(bytes(1023.7), "1.00 KiB");
        check(times(0.01234), "0.012×");
        check(percent(0.625), "62 %");
    }

    #[test]
    fn long_counts() {
        check(count(0), "0");
        check(count(1_000), "1 000");
        check(count(1_234_567), "1 234 567");
    }

    #[test]
    fn nothing_to_show() {
        check(or_none(None, three_digits), "–");
        check(or_none(Some(f64::NAN), three_digits), "–");
        check(or_none(Some(f64::INFINITY), three_digits), "–");
        check(or_none(Some(2.0), three_digits), "2.00");
    }
}
