//! What the targets over whole databases share: files in memory, and reading all of a database in every way.

use std::path::Path;
use std::sync::Arc;

use terrace::{BlockCache, Bloom, Db, DbIterator, Env, Options, VerifyReport, verify};
use terrace_env::mem::MemFs;
use terrace_env::{Deterministic, FileSystem};
use terrace_testkit::run::Entry;

/// Where the database lies.
pub(super) const PLACE: &str = "db";

/// A file system with these files in the database's directory.
pub(super) fn files<'a>(files: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Arc<MemFs> {
    let fs = MemFs::new();
    let written = fs.create_dir(PLACE.as_ref()).and_then(|()| {
        files.into_iter().try_for_each(|(name, bytes)| {
            let mut file = fs.create(&Path::new(PLACE).join(name))?;
            file.append(bytes)?;
            file.close()
        })
    });
    written.expect("files in memory, with good names");
    Arc::new(fs)
}

/// Options that keep everything small and on this thread.
pub(super) fn options(fs: Arc<MemFs>) -> Options {
    let env = Env { scheduler: Deterministic::new(0), ..Env::on(fs) };
    Options {
        env,
        write_buffer_size: 64 << 10,
        max_file_size: 1 << 20,
        block_cache: Some(BlockCache::new(1 << 20)),
        filter_policy: Some(Arc::new(Bloom::new(10))),
        ..Options::default()
    }
}

/// What is wrong with the database; None if it can't be looked at.
pub(super) fn examined(options: &Options) -> Option<VerifyReport> {
    verify(PLACE, options, &mut |done, all| assert!(done <= all, "{done} of {all} bytes")).ok()
}

/// Everything in a database, or why it can't be read. Checks nothing.
pub(super) fn entries(db: &Db) -> Result<Vec<Entry>, String> {
    let (first, next): (Move, Move) = (DbIterator::seek_to_first, DbIterator::next);
    walk(&mut db.iter(), first, next)
}

type Move = fn(&mut DbIterator);

/// A few bytes can be compressed so well that they are many entries: reading them all takes long, and shows nothing.
const ENTRIES_MAX: usize = 20_000;

fn walk(iter: &mut DbIterator, first: Move, next: Move) -> Result<Vec<Entry>, String> {
    let mut entries: Vec<Entry> = Vec::new();
    first(iter);
    while iter.valid() {
        entries.push((iter.key().to_vec(), iter.value().to_vec()));
        if entries.len() > ENTRIES_MAX {
            return Err(format!("more than {ENTRIES_MAX} entries"));
        }
        next(iter);
    }
    iter.status().map_err(|error| error.to_string())?;
    Ok(entries)
}

/// Reads a database in every way. Of a `sound` one all must agree, and nothing may fail.
pub(super) fn read(db: &Db, sound: bool) -> Option<Vec<Entry>> {
    let forward = entries(db);
    let backward = walk(&mut db.iter(), DbIterator::seek_to_last, DbIterator::prev);
    let forward = match forward {
        Ok(forward) => forward,
        Err(error) => {
            assert!(!sound || error.starts_with("more than"), "a sound database: {error}");
            return None;
        }
    };
    let gets: Vec<_> = forward.iter().take(200).map(|(key, _)| db.get(key)).collect();
    let absent = db.get(b"absent\xff\0");
    if sound {
        let mut backward = backward.unwrap_or_else(|error| panic!("a sound database, backwards: {error}"));
        backward.reverse();
        assert!(
            forward == backward,
            "a sound database, backwards: {} entries of {}",
            backward.len(),
            forward.len()
        );
        assert!(forward.windows(2).all(|pair| pair[0].0 < pair[1].0), "a sound database's keys do not rise");
        for ((key, value), got) in forward.iter().zip(gets) {
            let key = key.escape_ascii();
            match got {
                Ok(got) => assert!(
                    got.as_ref() == Some(value),
                    "a sound database: a look-up of '{key}' differs from a scan"
                ),
                Err(error) => panic!("a sound database: get '{key}': {error}"),
            }
        }
        assert!(absent.is_ok(), "a sound database: {absent:?}");
    }
    Some(forward)
}

/// Nothing may have been made outside of the database's directory.
pub(super) fn assert_inside(fs: &MemFs) {
    let names = fs.list("".as_ref()).expect("the root of a file system in memory");
    assert!(names == [PLACE], "files outside of the database's directory: {names:?}");
}
