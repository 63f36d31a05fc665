//! Worked examples of `docs/format/`.

#![allow(clippy::disallowed_methods, reason = "a test reads the documents from the disk")]

use std::path::Path;

/// Returns the bytes of the first block fenced as `hex` in `docs/format/<document>`. Text after a
/// `#` is a comment.
#[track_caller]
pub(crate) fn example(document: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/format").join(document);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let block = text.lines().skip_while(|line| *line != "```hex").skip(1).take_while(|line| *line != "```");
    let digits: String = block.map(|line| line.split('#').next().unwrap_or_default()).collect();
    let digits: Vec<char> = digits.chars().filter(|c| !c.is_whitespace()).collect();
    let (pairs, odd) = digits.as_chunks::<2>();
    assert!(!pairs.is_empty() && odd.is_empty(), "{document} has no complete example");
    pairs.iter().map(|[high, low]| byte(*high) << 4 | byte(*low)).collect()
}

#[track_caller]
fn byte(digit: char) -> u8 {
    digit.to_digit(16).unwrap_or_else(|| panic!("'{digit}' is no hexadecimal digit")) as u8
}
