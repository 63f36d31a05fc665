//! Patterns of KEYS, SCAN and PSUBSCRIBE, by Redis' rules: `*`, `?`, `[a-c]`, `[^a]` and `\`.
//!
//! After a mismatch, only the last `*` takes one byte more. Therefore the time is at most the
//! product of both lengths, never exponential.

/// Returns true if `pattern` matches the whole `text`.
pub(crate) fn is_match(pattern: &[u8], text: &[u8]) -> bool {
    let mut p = 0;
    let mut t = 0;
    // Positions after the last `*`, and of the text that it does not cover.
    let mut retry = None;
    loop {
        if pattern.get(p) == Some(&b'*') {
            p += 1;
            retry = Some((p, t));
            continue;
        }
        if t == text.len() && p == pattern.len() {
            return true;
        }
        let matched = text.get(t).and_then(|byte| match_one(&pattern[p..], *byte));
        match (matched, retry) {
            (Some(len), _) => {
                p += len;
                t += 1;
            }
            (None, Some((after_star, covered))) if covered < text.len() => {
                retry = Some((after_star, covered + 1));
                p = after_star;
                t = covered + 1;
            }
            (None, _) => return false,
        }
    }
}

/// Returns the bytes before the first special character: all matching texts begin with them.
pub(crate) fn literal_prefix(pattern: &[u8]) -> &[u8] {
    let end = pattern.iter().position(|byte| b"*?[\\".contains(byte));
    &pattern[..end.unwrap_or(pattern.len())]
}

/// Returns the length of the first element of `pattern` if it matches `byte`.
fn match_one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [b'?', ..] => Some(1),
        [b'\\', escaped, ..] => (*escaped == byte).then_some(2),
        [b'[', class @ ..] => {
            let (is_member, len) = match_class(class, byte);
            is_member.then_some(1 + len)
        }
        [first, ..] => (*first == byte).then_some(1),
        [] => None,
    }
}

/// Returns whether `byte` is in the class, and the length of the class after `[`.
fn match_class(class: &[u8], byte: u8) -> (bool, usize) {
    let is_negated = class.first() == Some(&b'^');
    let mut at = usize::from(is_negated);
    let mut is_member = false;
    loop {
        match &class[at..] {
            [] => break,
            [b']', ..] => {
                at += 1;
                break;
            }
            [b'\\', escaped, ..] => {
                is_member |= *escaped == byte;
                at += 2;
            }
            [first, b'-', last, ..] => {
                let (low, high) = if first <= last { (first, last) } else { (last, first) };
                is_member |= (low..=high).contains(&&byte);
                at += 3;
            }
            [single, ..] => {
                is_member |= *single == byte;
                at += 1;
            }
        }
    }
    (is_member != is_negated, at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, matching: &[&str], others: &[&str]) {
        for text in matching {
            assert!(is_match(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
        for text in others {
            assert!(!is_match(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
    }

    #[test]
    fn stars_and_question_marks() {
        check("", &[""], &["a"]);
        check("*", &["", "a", "ab"], &[]);
        check("h?llo", &["hello"], &["hllo", "heello"]);
        check("a*b*c", &["abc", "axxbxbxc"], &["abcd", "acb"]);
        check("**a", &["a", "ba"], &["ab"]);
    }

    #[test]
    fn classes() {
        check("h[ae]llo", &["hello", "hallo"], &["hillo"]);
        check("[^a-c]", &["d", "-"], &["a", "b", ""]);
        check("[c-a]x", &["bx"], &["dx"]);
        check("[\\]]", &["]"], &["\\"]);
        check("[ab", &["a", "b"], &["c"]);
    }

    #[test]
    fn escapes() {
        check("\\*", &["*"], &["a"]);
        check("a\\", &["a\\"], &["a"]);
    }

    #[test]
    fn many_stars_take_no_exponential_time() {
        let pattern = "*a".repeat(1000) + "b";
        check(&pattern, &[], &[&"a".repeat(10_000)]);
    }

    #[test]
    fn literal_prefixes() {
        assert_eq!(literal_prefix(b"CH/B*"), b"CH/B");
        assert_eq!(literal_prefix(b"*"), b"");
        assert_eq!(literal_prefix(b"all"), b"all");
    }
}
