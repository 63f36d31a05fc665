//! Files that cannot be created: the error is reported, and acknowledged writes are kept.

use std::sync::Arc;

use terrace::{Db, Env, ErrorKind, Options};
use terrace_env::fault::{FaultFs, FaultPlan};
use terrace_env::mem::MemFs;
use terrace_testkit::settings::Settings;

use super::{key, plain, value};
use terrace_torture::database_under_test::options_from_settings;

/// Returns an in-memory file system with planned faults, and options that use it.
fn faulty_options() -> (Arc<FaultFs>, Options) {
    let fs = Arc::new(FaultFs::new(Arc::new(MemFs::new()), FaultPlan::default()));
    let settings = Settings { write_buffer_size: 64 << 10, ..plain() };
    let options = options_from_settings(&settings, &Env::with_file_system(Arc::clone(&fs) as _));
    (fs, options)
}

fn plan(text: &str) -> FaultPlan {
    text.parse().unwrap()
}

#[test]
fn file_creation_fails_at_open() {
    let (fs, options) = faulty_options();
    let db = Db::open("/db", &options).unwrap();
    db.put(b"foo", b"bar").unwrap();
    db.close().unwrap();
    for text in
        ["create MANIFEST #1 forever EIO", "create-log .log #1 forever EIO", "create * #1 forever ENOSPC"]
    {
        fs.set_plan(plan(text));
        let error = Db::open("/db", &options).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Io, "{text}: {error}");
        fs.set_plan(FaultPlan::default());
        let db = Db::open("/db", &options).unwrap();
        assert_eq!(db.get(b"foo").unwrap(), Some(b"bar".to_vec()), "{text}");
        db.close().unwrap();
    }
}

/// Tables or logs cannot be created while writes continue: a write reports it eventually, and no
/// acknowledged write is lost.
#[test]
fn file_creation_fails_during_writes() {
    for text in
        ["create .ldb #1 forever EIO", "create-log .log #1 forever EIO", "create .ldb #1 forever ENOSPC"]
    {
        let (fs, options) = faulty_options();
        let db = Db::open("/db", &options).unwrap();
        fs.set_plan(plan(text));
        let acknowledged = (0..5_000).take_while(|&n| db.put(key(n), value(n)).is_ok()).count() as u32;
        assert!((1..5_000).contains(&acknowledged), "{text}: {acknowledged} writes");
        for n in 0..acknowledged {
            assert!(db.get(key(n)).unwrap() == Some(value(n)), "{text}: entry {n} while it fails");
        }
        drop(db);
        fs.set_plan(FaultPlan::default());
        let db = Db::open("/db", &options).unwrap();
        for n in 0..acknowledged {
            assert!(db.get(key(n)).unwrap() == Some(value(n)), "{text}: entry {n} of {acknowledged}");
        }
        db.put(b"again", b"1").unwrap();
    }
}

/// A failed flush returns an error and loses no entry.
#[test]
fn temporary_enospc_during_a_flush() {
    let (fs, options) = faulty_options();
    let db = Db::open("/db", &options).unwrap();
    (0..50).for_each(|n| db.put(key(n), value(n)).unwrap());
    fs.set_plan(plan("create .ldb #1 forever ENOSPC"));
    assert_eq!(db.flush().unwrap_err().kind(), ErrorKind::Io);
    fs.set_plan(FaultPlan::default());
    drop(db);
    let db = Db::open("/db", &options).unwrap();
    (0..50).for_each(|n| assert!(db.get(key(n)).unwrap() == Some(value(n)), "entry {n}"));
    db.flush().unwrap();
}
