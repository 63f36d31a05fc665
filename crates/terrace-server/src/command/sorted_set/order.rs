//! Ranges of scores and of members.

use super::score::{encode_score, parse_bound};
use super::{BY_SCORE, ScoreScan, SortedSet};
use crate::failure::{CommandResult, Failure};
use crate::store::View;

/// Range of scores.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::command) struct ScoreRange {
    pub(in crate::command) min: f64,
    pub(in crate::command) max: f64,
    pub(in crate::command) is_min_excluded: bool,
    pub(in crate::command) is_max_excluded: bool,
}

impl ScoreRange {
    /// Parses `1.5`, `(1.5`, `-inf` and the like.
    pub(super) fn parse(min: &[u8], max: &[u8]) -> CommandResult<ScoreRange> {
        let bound = |text: &[u8]| -> CommandResult<(f64, bool)> {
            let number = text.strip_prefix(b"(");
            let score = parse_bound(as_in_c(number.unwrap_or(text)));
            let score = score.ok_or(Failure::reply("ERR min or max is not a float"))?;
            Ok((score, number.is_some()))
        };
        let (min, is_min_excluded) = bound(min)?;
        let (max, is_max_excluded) = bound(max)?;
        Ok(ScoreRange { min, max, is_min_excluded, is_max_excluded })
    }

    /// Returns the members of `set` in the range.
    pub(in crate::command) fn scan(
        &self,
        view: &mut View<'_>,
        set: &SortedSet,
        is_reverse: bool,
    ) -> CommandResult<ScoreScan> {
        set.scan_bounds(
            view,
            bound_suffix(self.min, self.is_min_excluded),
            bound_suffix(self.max, !self.is_max_excluded),
            is_reverse,
        )
    }
}

/// Returns the part of a bound that C's `strtod` reads: no spaces before it, and nothing from a
/// NUL on.
fn as_in_c(text: &[u8]) -> &[u8] {
    let text = memchr::memchr(0, text).map_or(text, |end| &text[..end]);
    let spaces = text.iter().take_while(|byte| matches!(byte, b' ' | b'\t'..=b'\r')).count();
    // Only spaces are no number, but nothing is zero.
    if spaces == text.len() { text } else { &text[spaces..] }
}

/// Returns the first key of the records with the score `score`, or of those with a larger one.
fn bound_suffix(score: f64, is_after: bool) -> Vec<u8> {
    // The bytes of no score are the maximum.
    let bytes = u64::from_be_bytes(encode_score(score)).saturating_add(u64::from(is_after));
    [&[BY_SCORE], &bytes.to_be_bytes()[..]].concat()
}

/// Bound of a range of members.
#[derive(Debug, Clone, PartialEq, Eq)]
enum LexBound {
    /// Before all members.
    Min,
    /// After all members.
    Max,
    Included(Vec<u8>),
    Excluded(Vec<u8>),
}

impl LexBound {
    fn parse(text: &[u8]) -> CommandResult<LexBound> {
        match text {
            b"-" => Ok(LexBound::Min),
            b"+" => Ok(LexBound::Max),
            [b'[', member @ ..] => Ok(LexBound::Included(member.to_vec())),
            [b'(', member @ ..] => Ok(LexBound::Excluded(member.to_vec())),
            _ => Err(Failure::reply("ERR min or max not valid string range item")),
        }
    }
}

/// Range of members of one score.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::command) struct LexRange {
    min: LexBound,
    max: LexBound,
}

impl LexRange {
    /// Parses `-`, `+`, `[member` and `(member`.
    pub(super) fn parse(min: &[u8], max: &[u8]) -> CommandResult<LexRange> {
        Ok(LexRange { min: LexBound::parse(min)?, max: LexBound::parse(max)? })
    }

    /// Returns the members of `set` in the range. The scores are equal, or the result is not
    /// specified: the bounds then are those of the lowest score, but `-` to `+` is all members.
    pub(in crate::command) fn scan(
        &self,
        view: &mut View<'_>,
        set: &SortedSet,
        is_reverse: bool,
    ) -> CommandResult<Option<ScoreScan>> {
        let Some((score, _)) = set.scan(view, false)?.next()? else { return Ok(None) };
        let begin = match &self.min {
            LexBound::Min => vec![BY_SCORE],
            LexBound::Max => return Ok(None),
            LexBound::Included(member) => suffix(score, member, false),
            LexBound::Excluded(member) => suffix(score, member, true),
        };
        let end = match &self.max {
            LexBound::Min => return Ok(None),
            LexBound::Max if self.min == LexBound::Min => vec![BY_SCORE + 1],
            LexBound::Max => bound_suffix(score, true),
            LexBound::Included(member) => suffix(score, member, true),
            LexBound::Excluded(member) => suffix(score, member, false),
        };
        set.scan_bounds(view, begin, end, is_reverse).map(Some)
    }
}

/// Returns the key of the record of `member`, or the first possible key after it.
fn suffix(score: f64, member: &[u8], is_after: bool) -> Vec<u8> {
    let mut suffix = super::score_suffix(score, member);
    if is_after {
        suffix.push(0);
    }
    suffix
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_scores() {
        let range = ScoreRange::parse(b"(1.5", b"+inf").unwrap();
        assert_eq!((range.min, range.max), (1.5, f64::INFINITY));
        assert!(range.is_min_excluded && !range.is_max_excluded);
        assert!(ScoreRange::parse(b"a", b"1").is_err() && ScoreRange::parse(b"1", b"nan").is_err());
    }

    #[test]
    fn bounds_of_scores() {
        assert!(bound_suffix(1.0, false) < bound_suffix(1.0, true));
        assert!(bound_suffix(1.0, true) <= super::super::score_suffix(1.0000000000000002, b""));
        assert!(super::super::score_suffix(1.0, &[0xff; 9]) < bound_suffix(1.0, true));
        assert_eq!(bound_suffix(-0.0, false), bound_suffix(0.0, false));
    }

    #[test]
    fn ranges_of_members() {
        let range = LexRange::parse(b"[a", b"(b").unwrap();
        assert_eq!(range.min, LexBound::Included(b"a".to_vec()));
        assert_eq!(range.max, LexBound::Excluded(b"b".to_vec()));
        for refused in [&b"a"[..], b"", b"+a", b"-a"] {
            assert!(LexRange::parse(refused, b"+").is_err());
        }
    }
}
