//! Codecs: the table of compression methods, and the decompression of a block by its type byte.
//!
//! ```text
//!   type  name      stock LevelDB 1.23 reads it   other readers and writers
//!   0     none      yes                           every LevelDB
//!   1     snappy    yes                           every LevelDB, but not the forks of games
//!   2     zstd      no                            LevelDB's later sources
//!   2     zlib      no                            forks of games; zstd has other first bytes
//!   4     deflate   no                            the same forks, newer files
//! ```
//!
//! The cargo feature `zstd` compiles in zstd, and `zlib` compiles in zlib and deflate. A block of a
//! codec that is not compiled in gives [`DecodeErrorKind::MissingCodec`].
//!
//! Stored bytes may be hostile. No codec allocates more than its format can produce from its input.
//! Formats with an extreme compression ratio stop at [`MAX_BLOCK_CONTENTS`]. The table builder
//! decides whether the compressed form of a block saves enough.

mod snappy;
#[cfg(feature = "zlib")]
mod zlib;
#[cfg(feature = "zstd")]
mod zstd;

use std::cell::RefCell;
use std::fmt;

use crate::coding::get_varint32;
use crate::decode_error::{DecodeError, DecodeErrorKind};
use crate::memory;

/// Maximum decompressed size of a zstd, zlib or deflate block, in bytes. Blocks have a few KiB, or
/// hold one larger entry. Snappy needs no limit: its input bounds its output.
pub const MAX_BLOCK_CONTENTS: usize = 64 << 20;

/// Declares a module in place of a codec that is not compiled in. It stores blocks uncompressed.
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

/// Compression method of blocks.
pub struct Codec {
    /// Codec byte in the block trailer. A value is never reused or renumbered.
    pub id: u8,
    /// Codec name in options, reports and commands.
    pub name: &'static str,
    /// LevelDB compatibility: false if stock LevelDB 1.23 cannot read a table with such blocks.
    pub leveldb_compatible: bool,
    /// True if a database with such blocks gets another comparator name, so that LevelDB refuses to
    /// open it. False if the other readers of the codec expect LevelDB's name.
    pub needs_marker: bool,
    /// False for codecs that are not compiled in.
    pub writable: bool,
    /// Cargo feature that this build lacks and the codec needs. `None` if the codec is compiled in.
    pub missing_feature: Option<&'static str>,
    /// Appends the compressed form of a block.
    ///
    /// If the codec cannot compress the block, it appends the uncompressed block. That saves
    /// nothing, so a builder stores the block with [`NO_COMPRESSION`] instead.
    pub compress: fn(&[u8], &mut Vec<u8>),
    /// Replaces the contents of the vector by the decompressed block. It reuses the memory of the
    /// vector if that suffices. After an error, the contents are arbitrary.
    pub decompress: fn(&[u8], &mut Vec<u8>) -> Result<(), DecodeError>,
}

impl fmt::Debug for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Codec({})", self.name)
    }
}

/// Uncompressed block.
pub static NO_COMPRESSION: Codec = Codec {
    id: 0,
    name: "none",
    leveldb_compatible: true,
    needs_marker: false,
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
    needs_marker: false,
    writable: true,
    missing_feature: None,
    compress: compress_snappy,
    decompress: decompress_snappy,
};

/// One zstd frame that states the size of its contents.
pub static ZSTD: Codec = Codec {
    id: 2,
    name: "zstd",
    leveldb_compatible: false,
    needs_marker: true,
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
    needs_marker: false,
    writable: cfg!(feature = "zlib"),
    missing_feature: if cfg!(feature = "zlib") { None } else { Some("zlib") },
    compress: zlib::compress,
    decompress: zlib::decompress,
};

/// A deflate stream without a wrapper.
pub static DEFLATE: Codec = Codec {
    id: 4,
    name: "deflate",
    leveldb_compatible: false,
    needs_marker: false,
    writable: cfg!(feature = "zlib"),
    missing_feature: if cfg!(feature = "zlib") { None } else { Some("zlib") },
    compress: zlib::compress_raw,
    decompress: zlib::decompress_raw,
};

/// Table of all codecs.
pub static CODECS: &[&Codec] = &[&NO_COMPRESSION, &SNAPPY, &ZSTD, &ZLIB, &DEFLATE];

/// Returns the codec called `name`.
pub fn codec_by_name(name: &str) -> Option<&'static Codec> {
    CODECS.iter().copied().find(|codec| codec.name == name)
}

/// Decompresses the block `stored` with type byte `id`.
pub fn decompress(id: u8, stored: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let mut contents = Vec::new();
    decompress_into(id, stored, &mut contents)?;
    Ok(contents)
}

/// Decompresses a block like [`decompress`] into `contents`, and replaces its old bytes. After an
/// error they are arbitrary.
pub fn decompress_into(id: u8, stored: &[u8], contents: &mut Vec<u8>) -> Result<(), DecodeError> {
    (codec_of_block(id, stored)?.decompress)(stored, contents)
}

const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Returns the codec of a block with type byte `id` whose stored form begins with `stored`. Type 2
/// has two meanings, zstd and zlib, and the first four bytes decide between them.
///
/// No zlib stream starts like a zstd frame. Its first two bytes, read as a big-endian number, are a
/// multiple of 31, and 0x28b5 is not.
pub fn codec_of_block(id: u8, stored: &[u8]) -> Result<&'static Codec, DecodeError> {
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
    memory::reserve(dst, stored.len())?;
    dst.extend_from_slice(stored);
    Ok(())
}

fn new_encoder() -> Box<snap::raw::Encoder> {
    Box::new(snap::raw::Encoder::new())
}

fn compress_snappy(contents: &[u8], dst: &mut Vec<u8>) {
    let start = dst.len();
    dst.resize(start + snap::raw::max_compress_len(contents.len()), 0);
    let mut compress = |encoder: &mut snap::raw::Encoder| encoder.compress(contents, &mut dst[start..]);
    let result =
        SNAPPY_ENCODER.try_with(|encoder| compress(encoder.borrow_mut().get_or_insert_with(new_encoder)));
    // A thread that is about to end has no encoder any more.
    match result.unwrap_or_else(|_| compress(&mut new_encoder())) {
        Ok(len) => dst.truncate(start + len),
        Err(_) => {
            dst.truncate(start); // The block has 4 GiB or more.
            store_uncompressed(contents, dst);
        }
    }
}

/// Maximum ratio of a block's size to its stored size. The densest element of the format, a copy,
/// encodes 64 bytes in 3.
const SNAPPY_MAX_RATIO: usize = 22;

fn decompress_snappy(stored: &[u8], dst: &mut Vec<u8>) -> Result<(), DecodeError> {
    let (declared, pos) = get_varint32(stored).ok_or_else(|| decompression_error("snappy", "no length"))?;
    let declared = declared as usize;
    check_size("snappy", declared, stored.len().saturating_mul(SNAPPY_MAX_RATIO))?;
    resize_for_overwrite(dst, declared + snappy::SLOP_BYTES)?;
    snappy::decompress(stored, pos, dst)
        .ok_or_else(|| decompression_error("snappy", "wrong decompressed length"))?;
    dst.truncate(declared);
    Ok(())
}

/// Sets the length of `dst`, whose bytes the caller overwrites. It copies no old bytes and clears
/// no more than necessary.
fn resize_for_overwrite(dst: &mut Vec<u8>, len: usize) -> Result<(), DecodeError> {
    if dst.capacity() < len {
        *dst = Vec::new();
        memory::reserve(dst, len)?;
    }
    dst.resize(len, 0);
    Ok(())
}

thread_local! {
    // An encoder has a table of 32 KiB. A new one for every block would have to clear it. The box
    // matters: thread-locals of a shared library take space on the stack of every thread of the
    // program, and an encoder has 2 KiB.
    static SNAPPY_ENCODER: RefCell<Option<Box<snap::raw::Encoder>>> = const { RefCell::new(None) };
}

fn check_size(codec: &str, size: usize, max: usize) -> Result<(), DecodeError> {
    if size > max {
        let found = format!("{codec} block of {size} bytes");
        return Err(DecodeError::new(DecodeErrorKind::OutOfBounds, 0, found, format!("at most {max}")));
    }
    Ok(())
}

/// Returns the error of a block whose codec needs a feature that this build lacks.
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

    fn compressed(codec: &Codec, contents: &[u8]) -> Vec<u8> {
        let mut stored = Vec::new();
        (codec.compress)(contents, &mut stored);
        stored
    }

    /// Returns the codecs that this build contains.
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
                let stored = compressed(codec, &contents);
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
        let address = contents.as_ptr();
        for codec in [&NO_COMPRESSION, &SNAPPY] {
            decompress_into(codec.id, &compressed(codec, b"contents"), &mut contents).unwrap();
            assert_eq!((contents.as_ptr(), contents.capacity()), (address, 100), "{}", codec.name);
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

    /// Checks that the block decompresses to `contents`, or that the error names the codec and the
    /// feature.
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
        let is_compiled = |name| codec_by_name(name).unwrap().missing_feature.is_none();
        assert!(is_compiled("none") && is_compiled("snappy"));
        assert_eq!(is_compiled("zstd"), cfg!(feature = "zstd"));
        assert_eq!(is_compiled("zlib"), cfg!(feature = "zlib"));
        assert_eq!(is_compiled("deflate"), cfg!(feature = "zlib"));
        assert!(CODECS.iter().all(|codec| !codec.writable || codec.missing_feature.is_none()));
    }

    #[test]
    fn blocks_for_a_missing_codec_are_stored_as_they_are() {
        for codec in CODECS.iter().filter(|codec| codec.missing_feature.is_some()) {
            assert_eq!(compressed(codec, b"contents"), b"contents", "{}", codec.name);
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
            let stored = compressed(codec, &contents);
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
        assert_eq!(decompress(1, &compressed(&SNAPPY, &contents)).unwrap(), contents);
    }

    #[test]
    #[cfg(feature = "zlib")]
    fn zlib_and_deflate_over_the_size_limit() {
        let contents = vec![0; MAX_BLOCK_CONTENTS + 1];
        let level = flate2::Compression::default();
        let mut zlib = Vec::new();
        std::io::copy(&mut flate2::bufread::ZlibEncoder::new(&contents[..], level), &mut zlib).unwrap();
        let mut deflate = Vec::new();
        std::io::copy(&mut flate2::bufread::DeflateEncoder::new(&contents[..], level), &mut deflate).unwrap();
        check_error(2, &zlib, DecodeErrorKind::OutOfBounds, "zlib block of 67108865 bytes");
        check_error(4, &deflate, DecodeErrorKind::OutOfBounds, "deflate block of 67108865 bytes");
        // Writers store such a block as it is.
        for codec in [&ZLIB, &DEFLATE] {
            assert!(compressed(codec, &contents) == contents, "{}", codec.name);
        }
    }

    #[test]
    #[cfg(feature = "zlib")]
    fn zlib_and_deflate_equal_one_stream_per_block() {
        let text: Vec<u8> = (0..20_000u32).flat_map(|n| (n * n % 251).to_le_bytes()).collect();
        let random: Vec<u8> =
            (0..70_000u64).map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect();
        let level = flate2::Compression::default();
        for contents in [&text[..], &random, b"", b"a", &text] {
            let mut zlib = Vec::new();
            std::io::copy(&mut flate2::bufread::ZlibEncoder::new(contents, level), &mut zlib).unwrap();
            assert!(compressed(&ZLIB, contents) == zlib, "{} bytes", contents.len());
            assert_eq!(decompress(2, &zlib).unwrap(), contents);
            assert_eq!(decompress(4, &compressed(&DEFLATE, contents)).unwrap(), contents);
        }
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
        assert!(compressed(&ZSTD, &contents) == contents);
        let stored = compressed(&SNAPPY, &contents);
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
        assert_eq!(decompress(2, &compressed(&ZSTD, &contents)).unwrap().len(), MAX_BLOCK_CONTENTS);
    }
}
