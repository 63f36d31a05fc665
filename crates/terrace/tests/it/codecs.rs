//! Codecs are cargo features. A build without a codec names it in errors and loses no data.
//!
//! `cargo test -p terrace --no-default-features --test it codecs` tests the build without all of
//! them.

use std::path::Path;

use terrace::compress::{self, CODECS, Codec};
use terrace::{Db, Env, Error, ErrorKind, Options, RepairOptions, VerifyReport, repair, verify};

use crate::files;

fn options(compression: &'static Codec) -> Options {
    Options::default().create_if_missing(true).compression(compression)
}

/// Writes one table of 100 entries.
fn fill(dir: &Path, options: &Options) {
    let db = Db::open(dir, options).unwrap();
    for n in 0..100 {
        db.put(format!("key-{n:02}").as_bytes(), [b'v'; 100]).unwrap();
    }
    db.flush().unwrap();
    db.close().unwrap();
}

fn verified(dir: &Path, options: &Options) -> terrace::Result<VerifyReport> {
    verify(dir, options)
}

/// Writes data blocks that begin with the zstd magic and that no decoder accepts.
fn truncated_zstd(contents: &[u8], dst: &mut Vec<u8>) {
    dst.extend_from_slice(if contents.len() > 1000 { b"\x28\xb5\x2f\xfd" } else { contents });
}

/// Writes data blocks that are neither a zlib nor a deflate stream.
fn not_a_stream(contents: &[u8], dst: &mut Vec<u8>) {
    dst.extend_from_slice(if contents.len() > 1000 { b"\xff\xff\xff\xff" } else { contents });
}

fn nothing(_: &[u8], _: &mut Vec<u8>) -> Result<(), terrace_format::DecodeError> {
    Ok(())
}

const WRITER: Codec = Codec {
    id: 2,
    name: "test",
    leveldb_compatible: false,
    writable: true,
    missing_feature: None,
    compress: truncated_zstd,
    decompress: nothing,
};
static ZSTD_WRITER: Codec = WRITER;
static ZLIB_WRITER: Codec = Codec { compress: not_a_stream, ..WRITER };
static DEFLATE_WRITER: Codec = Codec { id: 4, compress: not_a_stream, ..WRITER };

/// Each optional codec: name, feature, a writer of invalid blocks, and whether this build has the
/// feature.
static OPTIONAL: [(&str, &str, &Codec, bool); 3] = [
    ("zstd", "zstd", &ZSTD_WRITER, cfg!(feature = "zstd")),
    ("zlib", "zlib", &ZLIB_WRITER, cfg!(feature = "zlib")),
    ("deflate", "zlib", &DEFLATE_WRITER, cfg!(feature = "zlib")),
];

#[track_caller]
fn check_error(error: &Error, codec: &str, feature: &str, has_feature: bool) {
    let text = error.to_string();
    if has_feature {
        assert_eq!(error.kind(), ErrorKind::Corruption, "{text}");
    } else {
        assert_eq!(error.kind(), ErrorKind::NotSupported, "{text}");
        let expect = format!("{codec} block, expected a build with the cargo feature `{feature}`");
        assert!(text.contains(".ldb at 0: ") && text.ends_with(&expect), "{text}");
    }
}

#[test]
fn every_build_reads_and_writes_plain_and_snappy() {
    for codec in [&compress::NO_COMPRESSION, &compress::SNAPPY] {
        let dir = tempfile::tempdir().unwrap();
        let options = options(codec);
        fill(dir.path(), &options);
        let db = Db::open(dir.path(), &options).unwrap();
        db.compact_range(None, None).unwrap();
        assert_eq!(db.get(b"key-99").unwrap().unwrap(), [b'v'; 100], "{}", codec.name);
        db.close().unwrap();
        assert!(verified(dir.path(), &options).unwrap().is_clean());
    }
}

#[test]
fn missing_codec_is_an_error_at_open() {
    for codec in CODECS {
        let options = options(codec).env(Env::in_memory());
        match (codec.missing_feature, Db::open("db", &options)) {
            (None, opened) => assert!(opened.is_ok(), "{}", codec.name),
            (Some(feature), opened) => {
                let error = opened.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::InvalidArgument);
                let text = error.to_string();
                let name = codec.name;
                let expect = format!("compression {name}: this build lacks the cargo feature `{feature}`");
                assert!(text.ends_with(&expect), "{text}");
            }
        }
    }
}

#[test]
fn read_error_names_the_codec_and_the_feature() {
    for (codec, feature, writer, has_feature) in OPTIONAL {
        let dir = tempfile::tempdir().unwrap();
        let options = options(writer);
        fill(dir.path(), &options);
        let db = Db::open(dir.path(), &options).unwrap();
        check_error(&db.get(b"key-01").unwrap_err(), codec, feature, has_feature);
        let mut iterator = db.raw_iter();
        iterator.seek_to_first();
        check_error(&iterator.status().unwrap_err(), codec, feature, has_feature);
    }
}

/// A build without the codec cannot check its blocks and must not treat them as damaged.
#[test]
fn missing_codec_is_reported_by_verify_and_repair() {
    for (codec, feature, writer, has_feature) in OPTIONAL.into_iter().filter(|row| !row.3) {
        let dir = tempfile::tempdir().unwrap();
        let options = options(writer);
        let dir = dir.path();
        fill(dir, &options);
        let problems = verified(dir, &options).unwrap().problems;
        assert!(problems[0].message.starts_with("not supported: "), "{problems:?}");
        for _ in 0..2 {
            let before = files::contents(dir);
            let error = repair(dir, &options, &RepairOptions::default()).unwrap_err();
            check_error(&error, codec, feature, has_feature);
            assert_eq!(files::contents(dir), before);
            // Without the index, repair searches for the blocks.
            files::damage(&files::only(dir, ".ldb"), -48, 8);
        }
    }
}
