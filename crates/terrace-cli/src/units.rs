//! Numbers, sizes and times for people.

use std::time::Duration;

/// Formats `171075` as `171,075`.
pub(crate) fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a count with its noun: `1 file`, `2 files`.
pub(crate) fn plural(n: u64, noun: &str) -> String {
    let s = if n == 1 { "" } else { "s" };
    format!("{} {noun}{s}", count(n))
}

/// Formats microseconds since 1970-01-01 UTC as `2026-01-31 23:59:59Z`.
pub(crate) fn utc(us: u64) -> String {
    let seconds = us / 1_000_000;
    let hour = seconds / 3600 % 24;
    let minute = seconds / 60 % 60;
    let second = seconds % 60;
    // Howard Hinnant's algorithm: years begin in March, so that leap days are last.
    let shifted = seconds / 86_400 + 719_468;
    let day_of_era = shifted % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = shifted / 146_097 * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}Z")
}

/// Formats a number of entries: `1 entry`, `2 entries`.
pub(crate) fn entries(n: u64) -> String {
    if n == 1 { "1 entry".into() } else { format!("{} entries", count(n)) }
}

/// Units of sizes, each 1,024 times the one before.
const SIZES: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];

/// Formats `8493465` bytes as `8.1 MiB`.
pub(crate) fn size(bytes: u64) -> String {
    let mut unit = 0;
    let mut scaled = bytes as f64;
    while scaled >= 1023.95 && unit + 1 < SIZES.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{scaled:.1} {}", SIZES[unit]) }
}

/// Parses `4KiB`, `4k` or `4096` as 4096 bytes; units are powers of 1,024.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim().to_ascii_lowercase();
    let power = SIZES.iter().position(|size| {
        let size = size.to_ascii_lowercase();
        unit == size || unit == size[..1] || (unit.is_empty() && size == "b")
    });
    let (Ok(number), Some(power)) = (number.parse::<u64>(), power) else {
        return Err("expected a size such as 4096, 4k or 4KiB".into());
    };
    number.checked_mul(1 << (10 * power)).ok_or_else(|| "the size does not fit in 64 bits".into())
}

/// Formats a time with three digits and a fitting unit.
pub(crate) fn time(time: Duration) -> String {
    let ns = time.as_nanos() as f64;
    match time.as_nanos() {
        0..1_000 => format!("{ns:.0} ns"),
        1_000..1_000_000 => three_digits(ns / 1e3, "µs"),
        1_000_000..1_000_000_000 => three_digits(ns / 1e6, "ms"),
        _ => three_digits(ns / 1e9, "s"),
    }
}

fn three_digits(value: f64, unit: &str) -> String {
    let decimals = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.decimals$} {unit}")
}

/// Formats `n` per `time` as a number per second.
pub(crate) fn rate(n: u64, time: Duration) -> String {
    let per_second = n as f64 / time.as_secs_f64().max(1e-9);
    format!("{}/s", count(per_second as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utc_times() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00Z"),
            (951_782_399, "2000-02-28 23:59:59Z"),
            (951_782_400, "2000-02-29 00:00:00Z"),
            (1_767_225_599, "2025-12-31 23:59:59Z"),
        ] {
            assert_eq!(utc(seconds * 1_000_000), text);
        }
    }

    #[test]
    fn counts() {
        for (n, text) in
            [(0, "0"), (999, "999"), (1000, "1,000"), (171_075, "171,075"), (1_234_567, "1,234,567")]
        {
            assert_eq!(count(n), text);
        }
    }

    #[test]
    fn sizes() {
        for (bytes, text) in [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1_048_575, "1.0 MiB")] {
            assert_eq!(size(bytes), text);
        }
        assert_eq!(size(u64::MAX), "16777216.0 TiB");
    }

    #[test]
    fn parsed_sizes() {
        for (text, bytes) in
            [("4096", 4096), ("4k", 4096), ("4KiB", 4096), ("2m", 2 << 20), ("1 GiB", 1 << 30)]
        {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "k", "-1", "4 parsecs", "1.5M", "99999999999999999999", "18446744073709551615k"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times() {
        for (ns, text) in [(0, "0 ns"), (999, "999 ns"), (1_234, "1.23 µs"), (56_789_000, "56.8 ms")] {
            assert_eq!(time(Duration::from_nanos(ns)), text);
        }
        assert_eq!(time(Duration::from_secs(125)), "125 s");
    }
}
