//! SHA-1, the hash that names a script. It protects nothing.

/// Returns the SHA-1 of `input` in hexadecimal digits.
pub(crate) fn sha1_hex(input: &[u8]) -> [u8; 40] {
    let mut state = [0x6745_2301_u32, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
    let mut chunks = input.chunks_exact(64);
    for block in &mut chunks {
        add_block(&mut state, block);
    }
    let rest = chunks.remainder();
    let mut last = [0; 128];
    last[..rest.len()].copy_from_slice(rest);
    last[rest.len()] = 0x80;
    let len = if rest.len() < 56 { 64 } else { 128 };
    last[len - 8..len].copy_from_slice(&(input.len() as u64 * 8).to_be_bytes());
    for block in last[..len].chunks_exact(64) {
        add_block(&mut state, block);
    }
    let mut hex = [0; 40];
    for (index, digit) in hex.iter_mut().enumerate() {
        *digit = b"0123456789abcdef"[(state[index / 8] >> (28 - index % 8 * 4)) as usize & 15];
    }
    hex
}

/// Adds a block of 64 bytes.
fn add_block(state: &mut [u32; 5], block: &[u8]) {
    let mut words = [0u32; 80];
    for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
        *word = bytes.iter().fold(0, |word, byte| word << 8 | u32::from(*byte));
    }
    for at in 16..80 {
        words[at] = (words[at - 3] ^ words[at - 8] ^ words[at - 14] ^ words[at - 16]).rotate_left(1);
    }
    let [mut a, mut b, mut c, mut d, mut e] = *state;
    for (round, word) in words.iter().enumerate() {
        let (mixed, constant) = match round / 20 {
            0 => (b & c | !b & d, 0x5a82_7999),
            1 => (b ^ c ^ d, 0x6ed9_eba1),
            2 => (b & c | b & d | c & d, 0x8f1b_bcdc_u32),
            _ => (b ^ c ^ d, 0xca62_c1d6),
        };
        let next = a.rotate_left(5).wrapping_add(mixed).wrapping_add(e).wrapping_add(constant);
        e = d;
        d = c;
        c = b.rotate_left(30);
        b = a;
        a = next.wrapping_add(*word);
    }
    for (sum, value) in state.iter_mut().zip([a, b, c, d, e]) {
        *sum = sum.wrapping_add(value);
    }
}

#[cfg(test)]
mod tests {
    use super::sha1_hex;

    #[track_caller]
    fn check(input: &[u8], expected: &str) {
        assert_eq!(std::str::from_utf8(&sha1_hex(input)), Ok(expected));
    }

    #[test]
    fn examples_of_the_standard() {
        check(b"abc", "a9993e364706816aba3e25717850c26c9cd0d89d");
        check(b"", "da39a3ee5e6b4b0d3255bfef95601890afd80709");
        check(
            b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
            "84983e441c3bd26ebaae4aa1f95129e5e54670f1",
        );
        check(&[b'a'; 1_000_000], "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
    }
}
