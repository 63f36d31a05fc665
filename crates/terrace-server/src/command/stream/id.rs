//! IDs of stream entries: milliseconds since 1970 and a sequence number.

use std::fmt;

use crate::failure::{CommandResult, Failure};

/// Maximum length of an ID as text, in bytes.
const MAX_LEN: usize = 127;

/// ID of an entry. IDs have the order of the time, then of the sequence number.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::command) struct StreamId {
    pub(in crate::command) ms: u64,
    pub(in crate::command) seq: u64,
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.seq)
    }
}

impl StreamId {
    /// Size of an ID in records, in bytes.
    pub(in crate::command) const LEN: usize = 16;
    pub(in crate::command) const MIN: StreamId = StreamId { ms: 0, seq: 0 };
    pub(in crate::command) const MAX: StreamId = StreamId { ms: u64::MAX, seq: u64::MAX };

    /// Returns the next ID, or None after the largest one.
    pub(in crate::command) fn next(self) -> Option<StreamId> {
        match self.seq.checked_add(1) {
            Some(seq) => Some(StreamId { seq, ..self }),
            None => Some(StreamId { ms: self.ms.checked_add(1)?, seq: 0 }),
        }
    }

    /// Returns the ID before, or None before the smallest one.
    pub(in crate::command) fn previous(self) -> Option<StreamId> {
        match self.seq.checked_sub(1) {
            Some(seq) => Some(StreamId { seq, ..self }),
            None => Some(StreamId { ms: self.ms.checked_sub(1)?, seq: u64::MAX }),
        }
    }

    /// Returns the ID as bytes, in the order of the IDs.
    pub(in crate::command) fn bytes(self) -> [u8; StreamId::LEN] {
        ((u128::from(self.ms) << 64) | u128::from(self.seq)).to_be_bytes()
    }

    /// Returns the ID at the begin of `bytes`.
    pub(in crate::command) fn from_bytes(bytes: &[u8]) -> Option<StreamId> {
        let number = u128::from_be_bytes(*bytes.first_chunk()?);
        Some(StreamId { ms: (number >> 64) as u64, seq: number as u64 })
    }

    /// Returns the ID that `text` states. An ID without a sequence number has `missing_seq`. The
    /// texts `-` and `+` are the smallest and the largest ID.
    pub(super) fn parse(text: &[u8], missing_seq: u64) -> CommandResult<StreamId> {
        match text {
            b"-" => Ok(StreamId::MIN),
            b"+" => Ok(StreamId::MAX),
            _ => StreamId::parse_strict(text, missing_seq),
        }
    }

    /// Like [`StreamId::parse`], without `-` and `+`.
    pub(super) fn parse_strict(text: &[u8], missing_seq: u64) -> CommandResult<StreamId> {
        match NewId::parse(text, missing_seq)? {
            NewId::Full(id) => Ok(id),
            NewId::Auto | NewId::AutoSequence(_) => Err(invalid()),
        }
    }

    /// Returns the begin of an interval. A text that begins with `(` excludes the ID.
    pub(super) fn parse_begin(text: &[u8]) -> CommandResult<StreamId> {
        match exclusive(text) {
            Some(text) => StreamId::parse_strict(text, 0)?
                .next()
                .ok_or(Failure::reply("ERR invalid start ID for the interval")),
            None => StreamId::parse(text, 0),
        }
    }

    /// Returns the end of an interval, which includes it. A text that begins with `(` excludes the
    /// ID.
    pub(super) fn parse_end(text: &[u8]) -> CommandResult<StreamId> {
        match exclusive(text) {
            Some(text) => StreamId::parse_strict(text, u64::MAX)?
                .previous()
                .ok_or(Failure::reply("ERR invalid end ID for the interval")),
            None => StreamId::parse(text, u64::MAX),
        }
    }
}

/// ID of a new entry, as XADD states it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NewId {
    /// The present time, or the ID after the last one.
    Auto,
    /// The time is given.
    AutoSequence(u64),
    Full(StreamId),
}

impl NewId {
    /// Returns the ID that `text` states: `ms`, `ms-seq` or `ms-*`.
    pub(super) fn parse(text: &[u8], missing_seq: u64) -> CommandResult<NewId> {
        if text.len() > MAX_LEN {
            return Err(invalid());
        }
        let Some(dash) = text.iter().position(|byte| *byte == b'-') else {
            return Ok(NewId::Full(StreamId { ms: number(text)?, seq: missing_seq }));
        };
        let ms = number(&text[..dash])?;
        match &text[dash + 1..] {
            b"*" => Ok(NewId::AutoSequence(ms)),
            seq => Ok(NewId::Full(StreamId { ms, seq: number(seq)? })),
        }
    }
}

fn exclusive(text: &[u8]) -> Option<&[u8]> {
    text.strip_prefix(b"(").filter(|text| !text.is_empty())
}

/// Returns the number that `text` states. Redis accepts spaces, a plus sign and zeros before it.
fn number(text: &[u8]) -> CommandResult<u64> {
    let trimmed = text.trim_ascii_start();
    let digits = trimmed.strip_prefix(b"+").unwrap_or(trimmed);
    let value = digits.iter().try_fold(0u64, |value, byte| {
        let digit = byte.wrapping_sub(b'0');
        (digit <= 9).then_some(())?;
        value.checked_mul(10)?.checked_add(u64::from(digit))
    });
    value.filter(|_| !digits.is_empty()).ok_or_else(invalid)
}

fn invalid() -> Failure {
    Failure::reply("ERR Invalid stream ID specified as stream command argument")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<(u64, u64)>) {
        let found = StreamId::parse(text.as_bytes(), 7).ok();
        assert_eq!(found, expected.map(|(ms, seq)| StreamId { ms, seq }), "{text}");
    }

    #[test]
    fn ids_as_text() {
        check("-", Some((0, 0)));
        check("+", Some((u64::MAX, u64::MAX)));
        check("5", Some((5, 7)));
        check("5-1", Some((5, 1)));
        check("007-+1", Some((7, 1)));
        check("18446744073709551615-18446744073709551615", Some((u64::MAX, u64::MAX)));
        for text in
            ["", "5-", "-5", "5-*", "*", "x", "5-x", "18446744073709551616", "1-2-3", &"1".repeat(128)]
        {
            check(text, None);
        }
    }

    #[test]
    fn neighbours() {
        let id = StreamId { ms: 3, seq: u64::MAX };
        assert_eq!(id.next(), Some(StreamId { ms: 4, seq: 0 }));
        assert_eq!(id.next().and_then(StreamId::previous), Some(id));
        assert_eq!((StreamId::MAX.next(), StreamId::MIN.previous()), (None, None));
    }

    #[test]
    fn bytes_have_the_order_of_ids() {
        let ids = [(0, 0), (0, 1), (0, u64::MAX), (1, 0), (256, 1), (u64::MAX, u64::MAX)];
        let bytes = ids.map(|(ms, seq)| StreamId { ms, seq }.bytes());
        assert!(bytes.is_sorted());
        assert_eq!(StreamId::from_bytes(&bytes[4]), Some(StreamId { ms: 256, seq: 1 }));
        assert_eq!(StreamId::from_bytes(&bytes[4][..15]), None);
    }
}
