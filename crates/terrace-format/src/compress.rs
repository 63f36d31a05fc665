//! The codecs that a block can be stored with: one table, and the way from a block's type byte to its contents.
//!
//! ```text
//!   type  name      read by stock LevelDB 1.23   written by
//!   0     none      yes                          every LevelDB
//!   1     snappy    yes                          every LevelDB
//!   2     zstd      no                           LevelDB's later sources
//!   2     zlib      no                           forks of games; told from zstd by its first bytes
//!   4     deflate   no                           the same forks, newer files
//! ```
//!
//! The cargo feature `zstd` compiles in zstd, and `zlib` compiles in zlib and deflate. A block of a codec that is not
//! compiled in gives [`DecodeErrorKind::MissingCodec`].
//!
//! The stored bytes are hostile until proven: no codec allocates more than its format can make of its input, and those
//! whose formats make very much of very little stop at [`MAX_BLOCK_CONTENTS`]. Whether compressing a block paid off is the table
//! builder's question.

mod snappy;
#[cfg(feature = "zlib")]
mod zlib;
#[cfg(feature = "zstd")]
mod zstd;

use std::cell::RefCell;

use crate::coding::get_varint32;
use crate::decode_error::{DecodeError, DecodeErrorKind};

/// The most that a block of zstd, zlib or deflate may hold, in bytes. Blocks are some KiB, or one entry that is larger.
/// Snappy needs none: what it makes is bounded by its input.
pub const MAX_BLOCK_CONTENTS: usize = 64 << 20;

/// Declares a module in the place of a codec that is not compiled in. Its blocks are stored as they are.
#[cfg(not(all(feature = "zlib", feature = "zstd")))]
macro_rules! missing {
    (mod $module:ident, feature $feature:literal: $($codec:literal $compress:ident $decompress:ident),+) => {
        mod $module {
            $(
                pub(super) fn $compress(contents: &[u8], dst: &mut Vec<u8>) {
                    super::store_uncompressed(contents, dst);
                }

                pub(super) fn $decompress(_: &[u8], _: &mut Vec<u8>) -> Result<(), super::DecodeError> {
                    Err(super::missing($codec, $feature))
                }
            )+
        }
    };
}

#[cfg(not(feature = "zlib"))]
missing!(mod zlib, feature "zlib": "zlib" compress decompress, "deflate" compress_raw decompress_raw);
#[cfg(not(feature = "zstd"))]
missing!(mod zstd, feature "zstd": "zstd" compress decompress);

/// One way to store a block.
#[derive(Debug)]
pub struct Codec {
    /// The byte in the block's trailer. Never reused, never renumbered.
    pub id: u8,
    /// The name in options, reports and commands.
    pub name: &'static str,
    /// False if a stock LevelDB 1.23 could not read the table again.
    pub leveldb_compatible: bool,
    /// False for dialects that are read and never chosen for a new table, and for codecs that are not compiled in.
    pub writable: bool,
    /// Cargo feature that this build lacks and the codec needs. `None` if the codec is compiled in.
    pub missing_feature: Option<&'static str>,
    /// Appends the stored form of a block. If the codec cannot hold the block, appends the block as it is: that saves
    /// nothing, so no builder keeps it, and stores the block under [`NONE`] instead.
    pub compress: fn(&[u8], &mut Vec<u8>),
    /// Makes the contents of a stored block those of the vector, whose memory is used again if it suffices. After a
    /// error they are arbitrary.
    pub decompress: fn(&[u8], &mut Vec<u8>) -> Result<(), DecodeError>,
}

/// The block as it is.
pub static NO_COMPRESSION: Codec = Codec {
    id: 0,
    name: "none",
    leveldb_compatible: true,
    writable: true,
    missing_feature: None,
    compress: store_uncompressed,
    decompress: load_uncompressed,
};

/// Snappy's raw format.
pub static SNAPPY: Codec = Codec {
    id: 1,
    name: "snappy",
    leveldb_compatible: true,
    writable: true,
    missing_feature: None,
    compress: compress_snappy,
    decompress: decompress_snappy,
};

/// One zstd frame that states its content's size.
pub static ZSTD: Codec = Codec {
    id: 2,
    name: "zstd",
    leveldb_compatible: false,
    writable: cfg!(feature = "zstd"),
    missing_feature: if cfg!(feature = "zstd") { None } else { Some("zstd") },
    compress: zstd::compress,
    decompress: zstd::decompress,
};

/// A zlib stream.
pub static ZLIB: Codec = Codec {
    id: 2,
    name: "zlib",
    leveldb_compatible: false,
    writable: false,
    missing_feature: if cfg!(feature = "zlib") { None } else { Some("zlib") },
    compress: zlib::compress,
    decompress: zlib::decompress,
};

/// A deflate stream without a wrapper.
pub static DEFLATE: Codec = Codec {
    id: 4,
    name: "deflate",
    leveldb_compatible: false,
    writable: false,
    missing_feature: if cfg!(feature = "zlib") { None } else { Some("zlib") },
    compress: zlib::compress_raw,
    decompress: zlib::decompress_raw,
};

/// Every codec.
pub static CODECS: &[&Codec] = &[&NO_COMPRESSION, &SNAPPY, &ZSTD, &ZLIB, &DEFLATE];

/// The codec called `name`.
pub fn codec_by_name(name: &str) -> Option<&'static Codec> {
    CODECS.iter().copied().find(|codec| codec.name == name)
}

/// The contents of a block that is stored as `stored` with type byte `id`.
pub fn decompress(id: u8, stored: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let mut contents = Vec::new();
    decompress_into(id, stored, &mut contents)?;
    Ok(contents)
}

/// As [`unpack`], in the memory of `contents`, whatever was in it. After a error its bytes are arbitrary.
pub fn decompress_into(id: u8, stored: &[u8], contents: &mut Vec<u8>) -> Result<(), DecodeError> {
    (codec_of_block(id, stored)?.decompress)(stored, contents)
}

const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Type 2 has two meanings. No zlib stream begins like a zstd frame: its first two bytes, read big-endian, are a
/// multiple of 31, and 0x28b5 is not.
fn codec_of_block(id: u8, stored: &[u8]) -> Result<&'static Codec, DecodeError> {
    match id {
        2 if stored.starts_with(&ZSTD_MAGIC) => Ok(&ZSTD),
        2 => Ok(&ZLIB),
        _ => CODECS.iter().copied().find(|codec| codec.id == id).ok_or_else(|| {
            DecodeError::new(
                DecodeErrorKind::Unknown,
                stored.len() as u64,
                format!("block type {id}"),
                "0, 1, 2 or 4",
            )
        }),
    }
}

fn store_uncompressed(contents: &[u8], dst: &mut Vec<u8>) {
    dst.extend_from_slice(contents);
}

fn load_uncompressed(stored: &[u8], dst: &mut Vec<u8>) -> Result<(), DecodeError> {
    dst.clear();
    dst.reserve_exact(stored.len());
    dst.extend_from_slice(stored);
    Ok(())
}

fn compress_snappy(contents: &[u8], dst: &mut Vec<u8>) {
    let start = dst.len();
    dst.resize(start + snap::raw::max_compress_len(contents.len()), 0);
    let mut pack = |packer: &mut snap::raw::Encoder| packer.compress(contents, &mut dst[start..]);
    let packed = SNAPPY_ENCODER.try_with(|packer| pack(&mut packer.borrow_mut()));
    // A thread that is nearly gone has none any more.
    match packed.unwrap_or_else(|_| pack(&mut snap::raw::Encoder::new())) {
        Ok(len) => dst.truncate(start + len),
        Err(_) => {
            dst.truncate(start); // 4 GiB or more
            store_uncompressed(contents, dst);
        }
    }
}

/// The densest element of the format, a copy, makes 64 bytes of 3.
const SNAPPY_MAX_RATIO: usize = 22;

fn decompress_snappy(stored: &[u8], dst: &mut Vec<u8>) -> Result<(), DecodeError> {
    let (declared, at) =
        get_varint32(stored).ok_or_else(|| decompression_error("snappy", "it does not tell its length"))?;
    let declared = declared as usize;
    check_size("snappy", declared, stored.len().saturating_mul(SNAPPY_MAX_RATIO))?;
    resize_for_overwrite(dst, declared + snappy::SLOP_BYTES);
    snappy::decompress(stored, at, dst)
        .ok_or_else(|| decompression_error("snappy", "not what makes its length"))?;
    dst.truncate(declared);
    Ok(())
}

/// Makes `dst` as long as said, to be written over: of what it holds nothing is moved, and no more than needed cleared.
fn resize_for_overwrite(dst: &mut Vec<u8>, len: usize) {
    if dst.capacity() < len {
        *dst = vec![0; len];
    } else {
        dst.resize(len, 0);
    }
}

thread_local! {
    // Its table of 32 KiB would be made, and cleared, for every block.
    static SNAPPY_ENCODER: RefCell<snap::raw::Encoder> = RefCell::new(snap::raw::Encoder::new());
}

fn check_size(codec: &str, size: usize, most: usize) -> Result<(), DecodeError> {
    if size > most {
        let found = format!("{codec} block of {size} bytes");
        return Err(DecodeError::new(DecodeErrorKind::OutOfBounds, 0, found, format!("at most {most}")));
    }
    Ok(())
}

/// The error of a block whose codec needs a feature that this build lacks.
#[cfg(not(all(feature = "zlib", feature = "zstd")))]
fn missing(codec: &str, feature: &str) -> DecodeError {
    let expected = format!("a build with the cargo feature `{feature}`");
    DecodeError::new(DecodeErrorKind::MissingCodec, 0, format!("{codec} block"), expected)
}

fn decompression_error(codec: &str, error: impl std::fmt::Display) -> DecodeError {
    DecodeError::new(
        DecodeErrorKind::Decompression,
        0,
        format!("{codec} block that does not decompress ({error})"),
        "",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packed(codec: &Codec, contents: &[u8]) -> Vec<u8> {
        let mut stored = Vec::new();
        (codec.compress)(contents, &mut stored);
        stored
    }

    /// Codecs that this build contains.
    fn compiled() -> impl Iterator<Item = &'static Codec> {
        CODECS.iter().copied().filter(|codec| codec.missing_feature.is_none())
    }

    #[track_caller]
    fn check_error(id: u8, stored: &[u8], kind: DecodeErrorKind, expect: &str) {
        let error = decompress(id, stored).unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.to_string().contains(expect), "{error}");
    }

    proptest! {
        #[test]
        fn every_codec_round_trips(
            contents in prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..2000),
                proptest::collection::vec(0u8..3, 0..20_000),
            ],
        ) {
            for codec in compiled() {
                let stored = packed(codec, &contents);
                prop_assert_eq!(decompress(codec.id, &stored).unwrap(), &contents[..], "{}", codec.name);
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(id in 0u8..6, stored in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(contents) = decompress(id, &stored) {
                prop_assert!(contents.len() <= MAX_BLOCK_CONTENTS);
            }
        }
    }

    #[test]
    fn compress_appends_and_decompress_replaces() {
        for codec in compiled() {
            let mut stored = b"##".to_vec();
            (codec.compress)(b"contents", &mut stored);
            for before in [&b""[..], b"!", b"something that is longer"] {
                let mut contents = before.to_vec();
                (codec.decompress)(&stored[2..], &mut contents).unwrap();
                assert_eq!(contents, b"contents", "{}", codec.name);
            }
        }
    }

    #[test]
    fn decompress_reuses_the_buffer() {
        let mut contents = Vec::with_capacity(100);
        let place = contents.as_ptr();
        for codec in [&NO_COMPRESSION, &SNAPPY] {
            decompress_into(codec.id, &packed(codec, b"contents"), &mut contents).unwrap();
            assert_eq!((contents.as_ptr(), contents.capacity()), (place, 100), "{}", codec.name);
        }
    }

    #[test]
    fn names_are_distinct_and_found() {
        for codec in CODECS {
            assert!(std::ptr::eq(codec_by_name(codec.name).unwrap(), *codec));
        }
        assert!(codec_by_name("lz4").is_none());
    }

    const ZLIB_ABCD_X8: &[u8] = b"\x78\x9c\x4b\x4c\x4a\x4e\x49\xc4\x83\x01\xcb\x20\x0c\x51";
    /// A frame with one raw block.
    const ZSTD_ABCD: &[u8] = b"\x28\xb5\x2f\xfd\x20\x04\x21\x00\x00abcd";

    /// The block decompresses to `contents`, or the error names the codec and the feature.
    #[track_caller]
    fn check_optional(codec: &Codec, stored: &[u8], contents: &[u8]) {
        match codec.missing_feature {
            None => assert_eq!(decompress(codec.id, stored).unwrap(), contents),
            Some(feature) => {
                let expect =
                    format!("{} block, expected a build with the cargo feature `{feature}`", codec.name);
                check_error(codec.id, stored, DecodeErrorKind::MissingCodec, &expect);
            }
        }
    }

    #[test]
    fn features_and_codecs() {
        let have = |name| codec_by_name(name).unwrap().missing_feature.is_none();
        assert!(have("none") && have("snappy"));
        assert_eq!(have("zstd"), cfg!(feature = "zstd"));
        assert_eq!((have("zlib"), have("deflate")), (cfg!(feature = "zlib"), cfg!(feature = "zlib")));
        assert!(CODECS.iter().all(|codec| !codec.writable || codec.missing_feature.is_none()));
    }

    #[test]
    fn blocks_for_a_missing_codec_are_stored_as_they_are() {
        for codec in CODECS.iter().filter(|codec| codec.missing_feature.is_some()) {
            assert_eq!(packed(codec, b"contents"), b"contents", "{}", codec.name);
        }
    }

    #[test]
    fn decompresses_blocks_of_other_writers() {
        let abcd_x8 = b"abcdabcdabcdabcdabcdabcdabcdabcd";
        let snappy = b"\x20\x0cabcd\x6e\x04\x00";
        assert_eq!(decompress(1, snappy).unwrap(), abcd_x8);
        check_optional(&ZLIB, ZLIB_ABCD_X8, abcd_x8);
        check_optional(&DEFLATE, &ZLIB_ABCD_X8[2..], abcd_x8);
        let zstd_size_unknown = b"\x28\xb5\x2f\xfd\x00\x00\x21\x00\x00abcd";
        check_optional(&ZSTD, ZSTD_ABCD, b"abcd");
        check_optional(&ZSTD, zstd_size_unknown, b"abcd");
    }

    #[test]
    fn unknown_block_types() {
        check_error(3, b"", DecodeErrorKind::Unknown, "block type 3, expected 0, 1, 2 or 4");
        check_error(255, b"abc", DecodeErrorKind::Unknown, "block type 255");
    }

    #[test]
    fn truncated_at_every_byte() {
        let contents = b"abcdabcdabcd and something that does not repeat: 0123456789".repeat(3);
        for codec in compiled().filter(|codec| codec.id != NO_COMPRESSION.id) {
            let stored = packed(codec, &contents);
            for cut in 0..stored.len() {
                assert!(decompress(codec.id, &stored[..cut]).is_err(), "{} of {cut} bytes", codec.name);
            }
        }
    }

    #[test]
    fn snappy_length_over_the_maximum_ratio() {
        check_error(1, b"\xff\xff\xff\xff\x0f\x00", DecodeErrorKind::OutOfBounds, "expected at most 132");
        check_error(1, b"\xff\xff\xff\xff\xff\x0f", DecodeErrorKind::Decompression, "snappy");
        let just_possible_by_length = b"\x42\x00\x61";
        check_error(1, just_possible_by_length, DecodeErrorKind::Decompression, "snappy");
    }

    #[test]
    fn snappy_at_the_maximum_ratio() {
        let contents = vec![7; 1 << 20];
        assert_eq!(decompress(1, &packed(&SNAPPY, &contents)).unwrap(), contents);
    }

    #[test]
    #[cfg(feature = "zlib")]
    fn zlib_and_deflate_over_the_size_limit() {
        let contents = vec![0; MAX_BLOCK_CONTENTS + 1];
        check_error(
            2,
            &packed(&ZLIB, &contents),
            DecodeErrorKind::OutOfBounds,
            "zlib block of 67108865 bytes",
        );
        check_error(
            4,
            &packed(&DEFLATE, &contents),
            DecodeErrorKind::OutOfBounds,
            "deflate block of 67108865 bytes",
        );
    }

    #[test]
    #[cfg(feature = "zstd")]
    fn a_zstd_frame_beyond_the_bound() {
        let frame = ::zstd::bulk::compress(&vec![0; MAX_BLOCK_CONTENTS + 1], 1).unwrap();
        check_error(2, &frame, DecodeErrorKind::Decompression, "zstd");
    }

    #[test]
    fn block_over_the_size_limit_is_stored_uncompressed() {
        let contents = vec![0; MAX_BLOCK_CONTENTS + 1];
        assert!(packed(&ZSTD, &contents) == contents);
        let stored = packed(&SNAPPY, &contents);
        assert!(stored.len() < contents.len() / 8 && decompress(1, &stored) == Ok(contents));
    }

    #[test]
    #[cfg(feature = "zstd")]
    fn zstd_length_over_the_maximum_ratio() {
        let declares_2_to_the_60 = b"\x28\xb5\x2f\xfd\xe0\0\0\0\0\0\0\0\x10\x01\0\0";
        check_error(2, declares_2_to_the_60, DecodeErrorKind::Decompression, "zstd");
    }

    #[test]
    #[cfg(feature = "zstd")]
    fn zstd_at_the_maximum_ratio() {
        let contents = vec![0; MAX_BLOCK_CONTENTS];
        assert_eq!(decompress(2, &packed(&ZSTD, &contents)).unwrap().len(), MAX_BLOCK_CONTENTS);
    }
}
