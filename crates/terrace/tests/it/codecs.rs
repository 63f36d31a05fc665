//! Codecs are cargo features. A build without a codec names it in errors and loses no data.
//!
//! `cargo test -p terrace --no-default-features --test it codecs` tests the build without all of
//! them.

use std::path::Path;
use std::sync::Arc;

use terrace::compress::{self, CODECS, Codec};
use terrace::{Db, Env, Error, ErrorKind, Options, RepairOptions, VerifyReport, repair, verify};
use terrace_format::InternalIterator;
use terrace_format::block::{Block, BlockIter};
use terrace_format::table::{BLOCK_TRAILER_SIZE, BlockHandle, FOOTER_SIZE, Footer, read_block};

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
    needs_marker: true,
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

/// Returns the codecs of the blocks of all tables in `dir`, without duplicates.
fn stored_codecs(dir: &Path) -> Vec<&'static str> {
    let mut names = Vec::new();
    for path in files::tables(dir) {
        let bytes = files::read(&path);
        let footer = Footer::decode(&bytes[bytes.len() - FOOTER_SIZE..], bytes.len() as u64).unwrap();
        let stored = |handle: BlockHandle| {
            &bytes[handle.offset as usize..][..handle.size as usize + BLOCK_TRAILER_SIZE]
        };
        let index = Block::new(read_block(stored(footer.index), true).unwrap()).unwrap();
        let mut entries = BlockIter::new(Arc::new(index), terrace::bytewise());
        entries.seek_to_first();
        while entries.valid() {
            let block = stored(BlockHandle::decode(entries.value()).unwrap().0);
            let codec = compress::codec_of_block(block[block.len() - BLOCK_TRAILER_SIZE], block).unwrap();
            names.push(codec.name);
            entries.next();
        }
    }
    names.sort_unstable();
    names.dedup();
    names
}

/// Returns the codecs that this build can write, except no compression.
fn compressing_codecs() -> impl Iterator<Item = &'static Codec> {
    CODECS.iter().copied().filter(|codec| codec.writable && codec.name != "none")
}

/// Symptom: any open for writing replaced the deflate blocks of a game's world by snappy blocks,
/// which the game cannot read. Guarantee: without an explicit codec, new tables have the codec of
/// the existing ones.
#[test]
fn database_keeps_its_codec() {
    let default = Options::default();
    for codec in compressing_codecs() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        fill(dir, &options(codec));
        assert_eq!(Db::open_read_only(dir, &default).unwrap().codec().name, codec.name);
        let db = Db::open(dir, &default).unwrap();
        assert_eq!(db.codec().name, codec.name);
        db.put(b"key-50", [b'w'; 5000]).unwrap();
        db.compact_range(None, None).unwrap();
        db.delete_range(&b"key-60"[..]..&b"key-70"[..]).unwrap();
        db.rewrite_tables().unwrap();
        db.close().unwrap();
        assert_eq!(stored_codecs(dir), [codec.name]);
        for damage in [-1, 3] {
            files::damage(&files::tables(dir).pop().unwrap(), damage, 1);
            assert!(repair(dir, &default, &RepairOptions::default()).unwrap().changed);
            assert_eq!(stored_codecs(dir), [codec.name], "after repair");
        }
    }
}

/// The log is replayed into tables at open.
#[test]
fn recovered_tables_keep_the_codec() {
    for codec in compressing_codecs() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        fill(dir, &options(codec));
        let db = Db::open(dir, &Options::default()).unwrap();
        for n in 0..1000u32 {
            db.put(n.to_be_bytes(), [b'v'; 100]).unwrap();
        }
        db.close().unwrap();
        let reopened = Db::open(dir, &Options::default().reuse_logs(false)).unwrap();
        reopened.close().unwrap();
        assert_eq!(stored_codecs(dir), [codec.name]);
    }
}

#[test]
fn explicit_codec_applies_to_new_tables_and_rewrite_converts_the_others() {
    for old in compressing_codecs() {
        for new in compressing_codecs().filter(|new| new.name != old.name) {
            let dir = tempfile::tempdir().unwrap();
            let dir = dir.path();
            fill(dir, &options(old));
            let db = Db::open(dir, &options(new)).unwrap();
            db.put(b"zz", [b'w'; 5000]).unwrap();
            db.flush().unwrap();
            let mut both = [old.name, new.name];
            both.sort_unstable();
            assert_eq!(stored_codecs(dir), both);
            db.rewrite_tables().unwrap();
            assert_eq!(db.get(b"key-99").unwrap().unwrap(), [b'v'; 100]);
            db.close().unwrap();
            assert_eq!(stored_codecs(dir), [new.name], "from {}", old.name);
            assert!(verified(dir, &options(new)).unwrap().is_clean());
        }
    }
}

fn is_marked(dir: &Path) -> bool {
    let manifest = files::read(&files::only(dir, "MANIFEST"));
    manifest.windows(9).any(|bytes| bytes == b"+terrace.")
}

/// The marker in the comparator name is stored from the first table with a zstd block on, and until
/// the last one is replaced.
#[test]
#[cfg(feature = "zstd")]
fn marker_depends_on_stored_blocks() {
    let zstd = options(&compress::ZSTD);
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let db = Db::open(dir, &zstd).unwrap();
    db.put(b"not", b"compressible").unwrap();
    db.flush().unwrap();
    assert!(!is_marked(dir) && db.is_leveldb_compatible(), "an uncompressed table");
    db.put(b"zz", [b'w'; 5000]).unwrap();
    db.flush().unwrap();
    assert!(is_marked(dir) && !db.is_leveldb_compatible());
    db.close().unwrap();
    // An open with another codec changes nothing.
    let db = Db::open(dir, &options(&compress::SNAPPY)).unwrap();
    db.put(b"a", b"").unwrap();
    db.flush().unwrap();
    assert!(is_marked(dir) && !db.is_leveldb_compatible());
    db.rewrite_tables().unwrap();
    assert!(!is_marked(dir) && db.is_leveldb_compatible());
    db.close().unwrap();
    // A deleted table is a replaced one.
    let db = Db::open(dir, &zstd).unwrap();
    db.put(b"zz", [b'x'; 5000]).unwrap();
    db.compact_range(None, None).unwrap();
    assert!(is_marked(dir));
    db.delete_range::<&[u8]>(..).unwrap();
    db.compact_range(None, None).unwrap();
    assert!(!is_marked(dir));
    db.close().unwrap();
}

/// A marker without a cause, as earlier versions wrote it, disappears by repair.
#[test]
#[cfg(feature = "zstd")]
fn repair_removes_a_marker_without_cause() {
    for (stays, codec) in [(false, &compress::SNAPPY), (true, &compress::ZSTD)] {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        fill(dir, &options(&compress::ZSTD));
        let db = Db::open(dir, &options(codec)).unwrap();
        // This table keeps the marker until the close.
        db.compact_range(None, None).unwrap();
        db.close().unwrap();
        assert!(is_marked(dir));
        if !stays {
            let unmarked = tempfile::tempdir().unwrap();
            fill(unmarked.path(), &options(codec));
            let old = files::tables(dir).pop().unwrap();
            files::write(&old, &files::read(&files::tables(unmarked.path())[0]));
        }
        let report = repair(dir, &Options::default(), &RepairOptions::default()).unwrap();
        assert_eq!((report.changed, is_marked(dir)), (!stays, stays), "{report}");
        let again = repair(dir, &Options::default(), &RepairOptions::default()).unwrap();
        assert!(!again.changed, "{again}");
    }
}

/// LevelDB's later sources write zstd under LevelDB's comparator name and expect that name.
#[test]
#[cfg(feature = "zstd")]
fn zstd_of_another_program_gets_no_marker() {
    static UNMARKED_ZSTD: Codec = Codec { needs_marker: false, ..compress::ZSTD };
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    fill(dir, &options(&UNMARKED_ZSTD));
    assert!(!is_marked(dir));
    let db = Db::open(dir, &Options::default()).unwrap();
    db.put(b"zz", [b'w'; 5000]).unwrap();
    db.compact_range(None, None).unwrap();
    db.close().unwrap();
    assert_eq!((stored_codecs(dir), is_marked(dir)), (vec!["zstd"], false));
    files::damage(&files::tables(dir).pop().unwrap(), -1, 1);
    repair(dir, &Options::default(), &RepairOptions::default()).unwrap();
    assert_eq!((stored_codecs(dir), is_marked(dir)), (vec!["zstd"], false));
}
