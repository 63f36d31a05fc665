//! CRC-32C, and the mask that LevelDB applies to a stored checksum.
//!
//! ```text
//!   masked = rotate_right(crc, 15) + 0xa282ead8        (wrapping)
//! ```
//!
//! A checksum over bytes that contain their own checksums is weak, so the stored number is masked.

#[cfg(not(target_arch = "aarch64"))]
use ::crc32c;
#[cfg(target_arch = "aarch64")]
use terrace_env::crc32c;

const MASK_DELTA: u32 = 0xa282_ead8;

/// Returns the checksum of `bytes`.
pub fn value(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

/// Returns the checksum of the bytes of `crc` followed by `bytes`.
pub fn extend(crc: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc, bytes)
}

/// Returns the stored form of `crc`.
pub fn mask(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(MASK_DELTA)
}

/// Returns the checksum with the stored form `masked`.
pub fn unmask(masked: u32) -> u32 {
    masked.wrapping_sub(MASK_DELTA).rotate_left(15)
}

#[cfg(test)]
mod tests {
    use super::*;

    // The vectors of RFC 3720, appendix B.4.
    #[test]
    fn published_vectors() {
        let rising: Vec<u8> = (0..32).collect();
        let falling: Vec<u8> = (0..32).rev().collect();
        assert_eq!(value(&[0; 32]), 0x8a91_36aa);
        assert_eq!(value(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(value(&rising), 0x46dd_794e);
        assert_eq!(value(&falling), 0x113f_db5c);
        assert_eq!(value(b""), 0);
    }

    #[test]
    fn extend_equals_whole() {
        let whole = b"one block after another";
        for cut in 0..=whole.len() {
            assert_eq!(extend(value(&whole[..cut]), &whole[cut..]), value(whole), "cut at {cut}");
        }
    }

    #[test]
    fn masked() {
        assert_eq!(mask(0), 0xa282_ead8);
        assert_eq!(mask(1), 0xa284_ead8);
        assert_eq!(mask(0x8000), 0xa282_ead9);
        for crc in [0, 1, 0x7fff_ffff, u32::MAX, value(b"foo")] {
            assert_eq!(unmask(mask(crc)), crc);
            assert_ne!(mask(mask(crc)), crc);
        }
    }
}
