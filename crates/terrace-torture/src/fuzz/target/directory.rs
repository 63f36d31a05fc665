//! Whole directories: opened, scanned, compacted, opened again.

use std::sync::Arc;

use terrace::{Db, Env, Options, ReadOptions};
use terrace_env::mem::MemFs;
use terrace_testkit::fabricate::catalogue;
use terrace_testkit::run::Entry;

use super::contents::{self, State};
use crate::fuzz::form::Form;
use crate::fuzz::{INPUT_MAX, Target, pack};

pub(super) const TARGET: Target = Target {
    name: "directory",
    shows: "a database that a check finds sound keeps its contents through every way of opening and compacting it",
    form: Form::Pack,
    runs: 200,
    seeds,
    run,
};

/// Every database of the catalogue that is not too long.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    let cases = catalogue::cases();
    let packs = cases.iter().map(|case| pack::encode(&case.database.files()));
    let mut seeds: Vec<Vec<u8>> = packs.filter(|pack| pack.len() <= INPUT_MAX).collect();
    seeds.sort();
    seeds.dedup();
    seeds
}

fn run(input: &[u8]) {
    let files = pack::decode(input);
    let before = contents::files(files.iter().map(|(name, bytes)| (name.as_str(), *bytes)));
    let options = contents::options(Arc::clone(&before));
    let state = contents::state(&files, &options);
    let seen = read_only(&options, state);
    let again = Arc::new(before.fork());
    writable(&with(&options, &again), state, seen.as_ref());
    contents::assert_inside(&before);
    contents::assert_inside(&again);
}

fn read_only(options: &Options, state: State) -> Option<Vec<Entry>> {
    match Db::open_read_only(contents::PLACE, options) {
        Ok(db) => contents::read(&db, state),
        Err(error) => {
            assert!(state == State::Doubtful, "a sound database does not open: {error}");
            None
        }
    }
}

fn writable(options: &Options, state: State, seen: Option<&Vec<Entry>>) {
    let sound = state >= State::Sound;
    let db = match Db::open(contents::PLACE, options) {
        Ok(db) => db,
        Err(error) => return assert!(!sound, "a sound database does not open for writing: {error}"),
    };
    same(&db, state, seen, "opened for writing");
    let bounded = ReadOptions {
        lower_bound: Some(b"b".to_vec()),
        upper_bound: Some(b"k".to_vec()),
        ..ReadOptions::default()
    };
    let bounded = db.iter_with(&bounded).into_forward().take(100).filter_map(Result::ok).collect::<Vec<_>>();
    assert!(
        bounded.iter().all(|(key, _)| (&b"b"[..]..&b"k"[..]).contains(&key.as_slice())),
        "a key outside of its bounds"
    );
    let compacted = db.compact_range(None, None);
    assert!(!sound || compacted.is_ok(), "a sound database does not compact: {compacted:?}");
    same(&db, state, seen, "compacted");
    let put = db.put(b"key-c", b"a new value");
    if put.is_ok() {
        assert_eq!(
            db.get(b"key-c").expect("in memory").as_deref(),
            Some(&b"a new value"[..]),
            "what was just put"
        );
    }
    let closed = db.close();
    assert!(!sound || closed.is_ok() && put.is_ok(), "a sound database: {put:?}, {closed:?}");
    let Ok(db) = Db::open(contents::PLACE, options) else {
        return assert!(!sound, "a sound database does not open again");
    };
    if put.is_ok() && sound {
        assert_eq!(db.get(b"key-c").expect("sound").as_deref(), Some(&b"a new value"[..]), "opened again");
    }
}

fn same(db: &Db, state: State, seen: Option<&Vec<Entry>>, when: &str) {
    let now = contents::read(db, state);
    if let (State::Plain, Some(seen), Some(now)) = (state, seen, now) {
        assert!(now == *seen, "a sound database, {when}: {} entries, were {}", now.len(), seen.len());
    }
}

/// The same options over other files.
pub(super) fn with(options: &Options, fs: &Arc<MemFs>) -> Options {
    let env = Env { fs: Arc::clone(fs) as _, ..options.env.clone() };
    Options { env, ..options.clone() }
}
