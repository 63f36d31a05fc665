//! Whole directories: open, scan, compact, open copy.

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
    property: "a database without problems keeps its contents through opens and compactions",
    format: InputFormat::Archive,
    executions_per_case: 200,
    seed_inputs: seeds,
    run,
};

/// Returns all databases of the catalogue that fit into an input.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    let cases = format_cases::cases();
    let archives = cases.iter().map(|case| archive::encode(&case.database.files()));
    let mut seeds: Vec<Vec<u8>> = archives.filter(|archive| archive.len() <= MAX_INPUT_LEN).collect();
    seeds.sort();
    seeds.dedup();
    seeds
}

fn run(input: &[u8]) {
    let files = archive::decode(input);
    let before = db_checks::file_system_with(files.iter().map(|(name, bytes)| (name.as_str(), *bytes)));
    let options = db_checks::options(Arc::clone(&before));
    let soundness = db_checks::classify(&files, &options);
    let contents = check_read_only(&options, soundness);
    let copy = Arc::new(before.fork());
    check_writable(&with_file_system(&options, &copy), soundness, contents.as_ref());
    db_checks::assert_only_db_dir(&before);
    db_checks::assert_only_db_dir(&copy);
}

fn check_read_only(options: &Options, soundness: Soundness) -> Option<Vec<Entry>> {
    match Db::open_read_only(db_checks::DB_DIR, options) {
        Ok(db) => db_checks::check_reads(&db, soundness),
        Err(error) => {
            assert!(soundness == Soundness::Unverified, "a verified database does not open: {error}");
            None
        }
    }
}

fn check_writable(options: &Options, soundness: Soundness, contents: Option<&Vec<Entry>>) {
    let verified = soundness >= Soundness::Verified;
    let db = match Db::open(db_checks::DB_DIR, options) {
        Ok(db) => db,
        Err(error) => return assert!(!verified, "a verified database does not open for writing: {error}"),
    };
    check_same_contents(&db, soundness, contents, "after an open for writing");
    let bounded = ReadOptions::default().lower_bound(b"b".to_vec()).upper_bound(b"k".to_vec());
    let bounded = db.iter_with(&bounded).take(100).filter_map(Result::ok).collect::<Vec<_>>();
    assert!(
        bounded.iter().all(|(key, _)| (&b"b"[..]..&b"k"[..]).contains(&key.as_slice())),
        "a key outside of the bounds"
    );
    let compaction = db.compact_range(None, None);
    assert!(!verified || compaction.is_ok(), "a verified database does not compact: {compaction:?}");
    check_same_contents(&db, soundness, contents, "after a compaction");
    let put = db.put(b"key-c", b"a new value");
    if put.is_ok() {
        assert_eq!(
            db.get(b"key-c").expect("in memory").as_deref(),
            Some(&b"a new value"[..]),
            "a get after the put"
        );
    }
    let closed = db.close();
    assert!(!verified || closed.is_ok() && put.is_ok(), "a verified database: {put:?}, {closed:?}");
    let Ok(db) = Db::open(db_checks::DB_DIR, options) else {
        return assert!(!verified, "a verified database does not open again");
    };
    if put.is_ok() && verified {
        assert_eq!(
            db.get(b"key-c").expect("a verified database is readable").as_deref(),
            Some(&b"a new value"[..]),
            "after another open"
        );
    }
}

fn check_same_contents(db: &Db, soundness: Soundness, contents: Option<&Vec<Entry>>, when: &str) {
    let now = db_checks::check_reads(db, soundness);
    if let (Soundness::VerifiedWithoutOverlap, Some(contents), Some(now)) = (soundness, contents, now) {
        assert!(
            now == *contents,
            "a verified database, {when}: {} entries, expected {}",
            now.len(),
            contents.len()
        );
    }
}

/// Returns the same options with another file system.
pub(super) fn with_file_system(options: &Options, fs: &Arc<MemFs>) -> Options {
    let env = Env { fs: Arc::clone(fs) as _, ..options.env.clone() };
    options.clone().env(env)
}
