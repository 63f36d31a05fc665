//! What the targets over whole databases share: files in memory, and reading all of a database in every way.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use terrace::{BlockCache, BloomFilterPolicy, Db, DbIterator, Env, Options, TableInfo, VerifyReport, verify};
use terrace_env::mem::MemFs;
use terrace_env::{DeterministicScheduler, FileSystem};
use terrace_format::filename::FileName;
use terrace_testkit::differential::Entry;

/// Where the database lies.
pub(super) const DB_DIR: &str = "db";

/// A file system with these files in the database's directory.
pub(super) fn file_system_with<'a>(files: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Arc<MemFs> {
    let fs = MemFs::new();
    let written = fs.create_dir(DB_DIR.as_ref()).and_then(|()| {
        files.into_iter().try_for_each(|(name, bytes)| {
            let mut file = fs.create(&Path::new(DB_DIR).join(name))?;
            file.append(bytes)?;
            file.close()
        })
    });
    written.expect("files in memory, with good names");
    Arc::new(fs)
}

/// Options that keep everything small and on this thread.
pub(super) fn options(fs: Arc<MemFs>) -> Options {
    let env = Env { scheduler: DeterministicScheduler::new(0), ..Env::with_file_system(fs) };
    Options {
        env,
        write_buffer_size: Some(64 << 10),
        max_file_size: Some(1 << 20),
        block_cache: Some(BlockCache::new(1 << 20)),
        filter_policy: Some(Arc::new(BloomFilterPolicy::new(10))),
        ..Options::default()
    }
}

/// What is wrong with the database; None if it can't be looked at.
pub(super) fn verify_report(options: &Options) -> Option<VerifyReport> {
    verify(DB_DIR, options, &mut |done, all| assert!(done <= all, "{done} of {all} bytes")).ok()
}

/// What can be asked of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Soundness {
    /// Nothing but that it is survived.
    Unverified,
    /// A check found nothing: all of it can be read. But a key may stand in two places, and nobody looked which of them
    /// is newer: a look-up believes the upper one, a scan the greater number.
    Verified,
    /// And no key stands in two places: all ways of reading agree.
    VerifiedWithoutOverlap,
}

/// What can be asked of a database with these files.
pub(super) fn classify(files: &BTreeMap<String, &[u8]>, options: &Options) -> Soundness {
    if !verify_report(options).is_some_and(|report| report.is_clean()) {
        return Soundness::Unverified;
    }
    let has_log = files
        .iter()
        .any(|(name, bytes)| !bytes.is_empty() && matches!(FileName::parse(name), Some(FileName::Log(_))));
    let db = Db::open_read_only(DB_DIR, options)
        .unwrap_or_else(|error| panic!("a sound database does not open: {error}"));
    let mut tables: Vec<TableInfo> = db.levels().into_iter().flat_map(|level| level.files).collect();
    tables.sort_by(|a, b| a.smallest.cmp(&b.smallest));
    let apart = tables.windows(2).all(|pair| pair[0].largest < pair[1].smallest);
    if apart && !has_log { Soundness::VerifiedWithoutOverlap } else { Soundness::Verified }
}

/// Everything in a database, or why it can't be read. Checks nothing.
pub(super) fn read_forward(db: &Db) -> Result<Vec<Entry>, String> {
    let (first, next): (MoveFn, MoveFn) = (DbIterator::seek_to_first, DbIterator::next);
    scan(&mut db.iter(), first, next)
}

type MoveFn = fn(&mut DbIterator);

/// A few bytes can be compressed so well that they are many entries: reading them all takes long, and shows nothing.
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

/// Reads a database in every way. Returns what a scan shows, if it shows all.
pub(super) fn check_reads(db: &Db, state: Soundness) -> Option<Vec<Entry>> {
    let forward = read_forward(db);
    let backward = scan(&mut db.iter(), DbIterator::seek_to_last, DbIterator::prev);
    let sound = state >= Soundness::Verified;
    let too_many = |error: &str| error.starts_with("more than");
    for (way, walked) in [("forwards", &forward), ("backwards", &backward)] {
        let failed = walked.as_ref().err().filter(|error| sound && !too_many(error));
        assert!(failed.is_none(), "a sound database, {way}: {failed:?}");
    }
    let forward = forward.ok()?;
    let gets: Vec<_> = forward.iter().take(200).map(|(key, _)| db.get(key)).collect();
    if sound {
        assert!(forward.windows(2).all(|pair| pair[0].0 < pair[1].0), "a sound database's keys do not rise");
        assert!(
            gets.iter().all(Result::is_ok),
            "a sound database: {:?}",
            gets.iter().find(|got| got.is_err())
        );
        assert!(db.get(b"absent\xff\0").is_ok(), "a sound database: a look-up of what is not there");
    }
    if state == Soundness::VerifiedWithoutOverlap {
        let backward = backward.ok()?;
        assert!(forward.iter().eq(backward.iter().rev()), "a scan backwards differs");
        for ((key, value), got) in forward.iter().zip(gets.into_iter().flatten()) {
            assert!(got.as_ref() == Some(value), "a look-up of '{}' differs from a scan", key.escape_ascii());
        }
    }
    Some(forward)
}

/// Nothing may have been made outside of the database's directory.
pub(super) fn assert_only_db_dir(fs: &MemFs) {
    let names = fs.list("".as_ref()).expect("the root of a file system in memory");
    assert!(names == [DB_DIR], "files outside of the database's directory: {names:?}");
}
