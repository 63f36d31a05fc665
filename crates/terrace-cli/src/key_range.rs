//! A range of keys as text of a limited width.
//!
//! ```text
//!   AD/Canillo .. ZW/Gweru               both keys fit
//!   0x00000001ff .. 0x00000003a0         binary keys: two columns for each byte
//!   users/0000~{17 .. 921}               the common prefix once, and shortened
//!   customers~ .. suppliers~             no common prefix: each key shortened
//! ```

use crate::escape::Escaped;

/// Minimum width of a useful key. If there is less space, keys are not printed.
const MIN_KEY_COLUMNS: usize = 4;

/// Minimum number of common characters that are printed once.
const MIN_PREFIX_CHARACTERS: usize = 3;

/// Columns of `{`, ` .. ` and `}`.
const BRACES_COLUMNS: usize = "{ .. }".len();

/// Smallest and largest key of a range. A character here is one element of the text that is never
/// cut: a character of the key, an escape, or the digits of a byte.
pub(crate) struct KeyRangeText {
    /// `0x` for binary keys.
    sign: &'static str,
    smallest: Vec<String>,
    largest: Vec<String>,
}

impl KeyRangeText {
    pub(crate) fn new(smallest: &[u8], largest: &[u8]) -> KeyRangeText {
        let is_binary = is_binary(smallest) || is_binary(largest);
        let characters = if is_binary { hex_characters } else { text_characters };
        KeyRangeText {
            sign: if is_binary { "0x" } else { "" },
            smallest: characters(smallest),
            largest: characters(largest),
        }
    }

    /// Width of both keys.
    pub(crate) fn columns(&self) -> usize {
        2 * self.sign.len() + width(&self.smallest) + width(&self.largest) + " .. ".len()
    }

    /// The range in at most `columns`; empty if they are too few. `mark` stands for omitted
    /// characters.
    pub(crate) fn fit(&self, columns: usize, mark: &str) -> String {
        let KeyRangeText { sign, smallest, largest } = self;
        if self.columns() <= columns {
            return format!("{sign}{} .. {sign}{}", smallest.concat(), largest.concat());
        }
        let each = columns.saturating_sub(" .. ".len()) / 2;
        if each < MIN_KEY_COLUMNS {
            return String::new();
        }
        let common = smallest.iter().zip(largest).take_while(|(a, b)| a == b).count();
        if common >= MIN_PREFIX_CHARACTERS && columns > sign.len() + BRACES_COLUMNS + 2 * MIN_KEY_COLUMNS {
            return self.fit_with_prefix(common, columns, mark);
        }
        let each = each.saturating_sub(sign.len());
        format!("{sign}{} .. {sign}{}", shortened(smallest, each, mark), shortened(largest, each, mark))
    }

    /// The range with its first `common` characters once. The ends of the keys get up to two thirds
    /// of the width.
    fn fit_with_prefix(&self, common: usize, columns: usize, mark: &str) -> String {
        let KeyRangeText { sign, smallest, largest } = self;
        let columns = columns - sign.len() - BRACES_COLUMNS;
        let each = columns / 3;
        let from = shortened(&smallest[common..], each, mark);
        let to = shortened(&largest[common..], each, mark);
        let left = columns.saturating_sub(from.chars().count() + to.chars().count());
        format!("{sign}{}{{{from} .. {to}}}", shortened(&smallest[..common], left, mark))
    }
}

/// Whether most of the text of `key` would be escapes: more than a quarter of its bytes.
fn is_binary(key: &[u8]) -> bool {
    let escaped: usize =
        text_characters(key).iter().filter(|text| text.starts_with("\\x")).map(|t| t.len() / 4).sum();
    4 * escaped > key.len()
}

fn hex_characters(key: &[u8]) -> Vec<String> {
    key.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn text_characters(key: &[u8]) -> Vec<String> {
    let mut characters = Vec::new();
    for chunk in key.utf8_chunks() {
        characters.extend(chunk.valid().chars().map(|c| Escaped(c.to_string().as_bytes()).to_string()));
        characters.extend(chunk.invalid().iter().map(|byte| Escaped(&[*byte]).to_string()));
    }
    characters
}

fn width(characters: &[String]) -> usize {
    characters.iter().map(|text| text.chars().count()).sum()
}

/// As many of `characters` as fit into `columns`, with `mark` in place of the others.
fn shortened(characters: &[String], columns: usize, mark: &str) -> String {
    if width(characters) <= columns {
        return characters.concat();
    }
    let mut text = String::new();
    let mut left = columns.saturating_sub(1);
    for character in characters {
        let needed = character.chars().count();
        if needed > left {
            break;
        }
        left -= needed;
        text.push_str(character);
    }
    text + mark
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(smallest: &[u8], largest: &[u8], columns: usize, expect: &str) {
        let text = KeyRangeText::new(smallest, largest).fit(columns, "~");
        assert_eq!(text, expect);
        assert!(text.chars().count() <= columns, "{} columns", text.chars().count());
    }

    #[rustfmt::skip]
    mod ranges {
        use super::check;
        #[test] fn text()             { check(b"a", b"zebra", 25, "a .. zebra"); }
        #[test] fn one_key()          { check(b"k", b"k", 25, "k .. k"); }
        #[test] fn binary()           { check(&[0, 0, 1], &[0, 7, 0xff], 25, "0x000001 .. 0x0007ff"); }
        #[test] fn little_binary()    { check(b"\x1b[2J-and-more", b"b", 25, "\\x1b[2J-and-more .. b"); }
        #[test] fn binary_prefix()    { check(&[0, 0, 0, 0, 1, 0x17], &[0, 0, 0, 0, 1, 0xff], 23, "0x0000000001{17 .. ff}"); }
        #[test] fn long_prefix()      { check(&[[0xab; 30].as_slice(), &[1]].concat(), &[[0xab; 30].as_slice(), &[2]].concat(), 25, "0xabababababab~{01 .. 02}"); }
        #[test] fn no_prefix()        { check(&[1; 20], &[2; 20], 25, "0x010101~ .. 0x020202~"); }
        #[test] fn long_ends()        { check(b"user:alexander-the-great", b"user:zenobia-of-palmyra", 26, "user:{alexa~ .. zenob~}"); }
        #[test] fn narrow()           { check(b"apple", b"zebra", 8, ""); }
        #[test] fn control_character(){ check(b"\x1b[2J-and-more-text", b"b", 25, "\\x1b[2J-a~ .. b"); }
        #[test] fn empty_key()        { check(b"", &[0xff, 0], 25, "0x .. 0xff00"); }
    }
}
