//! CRC-64 with the polynomial of Jones, as Redis uses it.

/// Reversed polynomial.
const POLYNOMIAL: u64 = 0x95ac_9329_ac4b_c9b5;

/// Checksums of all bytes.
static TABLE: [u64; 256] = table();

const fn table() -> [u64; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
}

/// Returns the checksum of `bytes`.
pub(super) fn crc64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |crc, byte| TABLE[usize::from(crc as u8 ^ byte)] ^ (crc >> 8))
}

#[cfg(test)]
mod tests {
    #[test]
    fn check_value() {
        assert_eq!(super::crc64(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
    }
}
