//! Common parts of the targets over whole databases: files in memory, and reads of a database in
//! every way.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use terrace::{
    BlockCache, BloomFilterPolicy, Db, DbIterator, Env, Options, TableInfo, VerifyReport,
    verify_with_progress,
};
use terrace_env::mem::MemFs;
use terrace_env::{DeterministicScheduler, FileSystem};
use terrace_format::filename::FileName;
use terrace_testkit::differential::Entry;

/// Directory of the database.
pub(super) const DB_DIR: &str = "db";

/// Creates a file system with these files in the directory of the database.
pub(super) fn file_system_with<'a>(files: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Arc<MemFs> {
    let fs = MemFs::new();
    let written = fs.create_dir(DB_DIR.as_ref()).and_then(|()| {
        files.into_iter().try_for_each(|(name, bytes)| {
            let mut file = fs.create(&Path::new(DB_DIR).join(name))?;
            file.append(bytes)?;
            file.close()
        })
    });
    written.expect("creating files in memory succeeds");
    Arc::new(fs)
}

/// Returns options with small sizes and with all jobs on this thread.
pub(super) fn options(fs: Arc<MemFs>) -> Options {
    let env = Env { scheduler: DeterministicScheduler::new(0), ..Env::with_file_system(fs) };
    Options::default()
        .env(env)
        .write_buffer_size(64 << 10)
        .max_file_size(1 << 20)
        .block_cache(BlockCache::new(1 << 20))
        .filter_policy(Arc::new(BloomFilterPolicy::new(10)))
}

/// Verifies the database. Returns None if that is impossible.
pub(super) fn verify_report(options: &Options) -> Option<VerifyReport> {
    verify_with_progress(DB_DIR, options, |done, total| assert!(done <= total, "{done} of {total} bytes"))
        .ok()
}

/// Guarantees of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Soundness {
    /// Reads may return any answer or error, but must end without a panic.
    Unverified,
    /// Verify found no problem, so all entries are readable. But a key may be in two tables, of
    /// which the newer one is unknown. A get trusts the upper level, and a scan the larger sequence
    /// number.
    Verified,
    /// As `Verified`, and no key is in two tables, so all reads agree.
    VerifiedWithoutOverlap,
}

/// Determines the guarantees of a database with these files.
pub(super) fn classify(files: &BTreeMap<String, &[u8]>, options: &Options) -> Soundness {
    if !verify_report(options).is_some_and(|report| report.is_clean()) {
        return Soundness::Unverified;
    }
    let has_log = files
        .iter()
        .any(|(name, bytes)| !bytes.is_empty() && matches!(FileName::parse(name), Some(FileName::Log(_))));
    let db = Db::open_read_only(DB_DIR, options)
        .unwrap_or_else(|error| panic!("a verified database does not open: {error}"));
    let mut tables: Vec<TableInfo> = db.levels().into_iter().flat_map(|level| level.files).collect();
    tables.sort_by(|a, b| a.smallest.cmp(&b.smallest));
    let disjoint = tables.windows(2).all(|pair| pair[0].largest < pair[1].smallest);
    if disjoint && !has_log { Soundness::VerifiedWithoutOverlap } else { Soundness::Verified }
}

/// Reads all entries, or returns the read error. Checks nothing.
pub(super) fn read_forward(db: &Db) -> Result<Vec<Entry>, String> {
    scan(&mut db.raw_iter(), DbIterator::seek_to_first, DbIterator::next)
}

type MoveFn = fn(&mut DbIterator);

/// Maximum number of entries of a scan. Well-compressed inputs may have far more, which takes long
/// and adds no coverage.
const MAX_ENTRIES: usize = 20_000;

fn scan(iter: &mut DbIterator, first: MoveFn, next: MoveFn) -> Result<Vec<Entry>, String> {
    let mut entries: Vec<Entry> = Vec::new();
    first(iter);
    while iter.valid() {
        entries.push((iter.key().to_vec(), iter.value().to_vec()));
        if entries.len() > MAX_ENTRIES {
            return Err(format!("more than {MAX_ENTRIES} entries"));
        }
        next(iter);
    }
    iter.status().map_err(|error| error.to_string())?;
    Ok(entries)
}

/// Reads a database in every way. Returns the entries of a complete scan.
pub(super) fn check_reads(db: &Db, soundness: Soundness) -> Option<Vec<Entry>> {
    let forward = read_forward(db);
    let backward = scan(&mut db.raw_iter(), DbIterator::seek_to_last, DbIterator::prev);
    let verified = soundness >= Soundness::Verified;
    let too_many = |error: &str| error.starts_with("more than");
    for (direction, result) in [("forward", &forward), ("backward", &backward)] {
        let error = result.as_ref().err().filter(|error| verified && !too_many(error));
        assert!(error.is_none(), "{direction} scan of a verified database: {error:?}");
    }
    let forward = forward.ok()?;
    let gets: Vec<_> = forward.iter().take(200).map(|(key, _)| db.get(key)).collect();
    if verified {
        assert!(
            forward.windows(2).all(|pair| pair[0].0 < pair[1].0),
            "the keys of a verified database are not in order"
        );
        assert!(
            gets.iter().all(Result::is_ok),
            "get from a verified database: {:?}",
            gets.iter().find(|result| result.is_err())
        );
        assert!(db.get(b"absent\xff\0").is_ok(), "get of an absent key from a verified database failed");
    }
    if soundness == Soundness::VerifiedWithoutOverlap {
        let backward = backward.ok()?;
        assert!(forward.iter().eq(backward.iter().rev()), "a backward scan differs");
        for ((key, value), found) in forward.iter().zip(gets.into_iter().flatten()) {
            assert!(found.as_ref() == Some(value), "get of '{}' differs from a scan", key.escape_ascii());
        }
    }
    Some(forward)
}

/// Checks that no file was created outside of the directory of the database.
pub(super) fn assert_only_db_dir(fs: &MemFs) {
    let names = fs.list("".as_ref()).expect("the root of a file system in memory");
    assert!(names == [DB_DIR], "files outside of the database's directory: {names:?}");
}
