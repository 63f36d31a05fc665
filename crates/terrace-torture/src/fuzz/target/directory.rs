//! Whole directories: opened, scanned, compacted, opened again.

use std::sync::Arc;

use terrace::{Db, Env, Options, ReadOptions};
use terrace_env::mem::MemFs;
use terrace_testkit::crafted::format_cases;
use terrace_testkit::differential::Entry;

use super::db_checks::{self, Soundness};
use crate::fuzz::input_format::InputFormat;
use crate::fuzz::{MAX_INPUT_LEN, Target, archive};

pub(super) const TARGET: Target = Target {
    name: "directory",
    property: "a database that a check finds sound keeps its contents through every way of opening and compacting it",
    format: InputFormat::Archive,
    executions_per_case: 200,
    seed_inputs: seeds,
    run,
};

/// Every database of the catalogue that is not too long.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    let cases = format_cases::cases();
    let packs = cases.iter().map(|case| archive::encode(&case.database.files()));
    let mut seeds: Vec<Vec<u8>> = packs.filter(|pack| pack.len() <= MAX_INPUT_LEN).collect();
    seeds.sort();
    seeds.dedup();
    seeds
}

fn run(input: &[u8]) {
    let files = archive::decode(input);
    let before = db_checks::file_system_with(files.iter().map(|(name, bytes)| (name.as_str(), *bytes)));
    let options = db_checks::options(Arc::clone(&before));
    let state = db_checks::classify(&files, &options);
    let seen = check_read_only(&options, state);
    let again = Arc::new(before.fork());
    check_writable(&with_file_system(&options, &again), state, seen.as_ref());
    db_checks::assert_only_db_dir(&before);
    db_checks::assert_only_db_dir(&again);
}

fn check_read_only(options: &Options, state: Soundness) -> Option<Vec<Entry>> {
    match Db::open_read_only(db_checks::DB_DIR, options) {
        Ok(db) => db_checks::check_reads(&db, state),
        Err(error) => {
            assert!(state == Soundness::Unverified, "a sound database does not open: {error}");
            None
        }
    }
}

fn check_writable(options: &Options, state: Soundness, seen: Option<&Vec<Entry>>) {
    let sound = state >= Soundness::Verified;
    let db = match Db::open(db_checks::DB_DIR, options) {
        Ok(db) => db,
        Err(error) => return assert!(!sound, "a sound database does not open for writing: {error}"),
    };
    check_same_contents(&db, state, seen, "opened for writing");
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
    check_same_contents(&db, state, seen, "compacted");
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
    let Ok(db) = Db::open(db_checks::DB_DIR, options) else {
        return assert!(!sound, "a sound database does not open again");
    };
    if put.is_ok() && sound {
        assert_eq!(db.get(b"key-c").expect("sound").as_deref(), Some(&b"a new value"[..]), "opened again");
    }
}

fn check_same_contents(db: &Db, state: Soundness, seen: Option<&Vec<Entry>>, when: &str) {
    let now = db_checks::check_reads(db, state);
    if let (Soundness::VerifiedWithoutOverlap, Some(seen), Some(now)) = (state, seen, now) {
        assert!(now == *seen, "a sound database, {when}: {} entries, were {}", now.len(), seen.len());
    }
}

/// The same options over other files.
pub(super) fn with_file_system(options: &Options, fs: &Arc<MemFs>) -> Options {
    let env = Env { fs: Arc::clone(fs) as _, ..options.env.clone() };
    Options { env, ..options.clone() }
}
