//! Decompression of LZF, which Redis uses for long strings.
//!
//! ```text
//!   000nnnnn                   n + 1 bytes follow
//!   lllooooo [l] oooooooo      copy l + 2 bytes from o + 1 bytes before
//! ```

/// Returns the `len` bytes that `input` stands for, or None if it is damaged.
pub(super) fn decompress(input: &[u8], len: usize) -> Option<Vec<u8>> {
    let mut input = input.iter().copied();
    // The memory grows with the output, so that an announced length reserves nothing.
    let mut output = Vec::new();
    while let Some(control) = input.next() {
        if control < 32 {
            for _ in 0..=control {
                output.push(input.next()?);
            }
        } else {
            let mut count = usize::from(control >> 5);
            if count == 7 {
                count += usize::from(input.next()?);
            }
            let offset = usize::from(control & 31) << 8 | usize::from(input.next()?);
            let begin = output.len().checked_sub(offset + 1)?;
            for index in begin..begin + count + 2 {
                output.push(output[index]);
            }
        }
        if output.len() > len {
            return None;
        }
    }
    (output.len() == len).then_some(output)
}

#[cfg(test)]
mod tests {
    use super::decompress;

    #[test]
    fn literals_and_copies() {
        assert_eq!(decompress(b"\x02abc", 3), Some(b"abc".to_vec()));
        assert_eq!(decompress(b"\x00a\xe0\x01\x00", 11), Some(b"a".repeat(11)));
        assert_eq!(decompress(b"", 0), Some(Vec::new()));
    }

    #[test]
    fn damaged_input() {
        for (input, len) in
            [(&b"\x02ab"[..], 3), (b"\x20\x00", 3), (b"\x02abc", 2), (b"\x02abc", 4), (b"\xe0", 9)]
        {
            assert_eq!(decompress(input, len), None, "{input:?}");
        }
    }
}
