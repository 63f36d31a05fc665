//! Open and close write only if there is data to write.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use terrace::{Db, Env, Options};
use terrace_env::fault::{FaultFs, FaultPlan, FileOp};
use terrace_env::mem::MemFs;
use terrace_env::{DeterministicScheduler, FileSystem, SeededRandom};

/// Returns every file of the database with its bytes.
fn contents(fs: &MemFs) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for name in fs.list("db".as_ref()).unwrap() {
        let path = Path::new("db").join(&name);
        let mut bytes = vec![0; fs.file_size(&path).unwrap() as usize];
        let file = fs.open_random_access(&path, terrace_env::AccessMode::Pread).unwrap();
        assert_eq!(file.read_at(0, &mut bytes).unwrap(), bytes.len());
        files.insert(name.into_string().unwrap(), bytes);
    }
    files
}

fn options_on(fs: Arc<dyn FileSystem>) -> Options {
    let env = Env {
        scheduler: DeterministicScheduler::new(7),
        random: Arc::new(SeededRandom::new(7)),
        ..Env::with_file_system(fs)
    };
    Options::default().create_if_missing(true).env(env)
}

/// Creates a database with two overlapping tables and, if `logged`, a closed log with a record.
fn database(logged: bool) -> Arc<MemFs> {
    let fs = Arc::new(MemFs::new());
    fs.create_dir("db".as_ref()).unwrap();
    let db = Db::open("db", &options_on(Arc::clone(&fs) as _)).unwrap();
    for value in [b"1", b"2"] {
        db.put(b"key", value).unwrap();
        db.put(b"other", value).unwrap();
        db.flush().unwrap();
    }
    if logged {
        db.put(b"logged", b"3").unwrap();
    }
    db.close().unwrap();
    fs
}

#[test]
fn open_read_and_close_change_no_byte() {
    for logged in [false, true] {
        let fs = database(logged);
        let mut before = contents(&fs);
        let fault = Arc::new(FaultFs::new(Arc::clone(&fs) as _, FaultPlan::default()));
        for _ in 0..3 {
            let db = Db::open("db", &options_on(Arc::clone(&fault) as _)).unwrap();
            assert_eq!(db.get(b"key").unwrap().unwrap(), b"2");
            assert_eq!(db.get(b"logged").unwrap().is_some(), logged);
            db.close().unwrap();
        }
        for op in [FileOp::Sync, FileOp::SyncDir, FileOp::WriteAt] {
            assert_eq!(fault.call_count(op), 0, "{op:?}");
        }
        let mut after = contents(&fs);
        if logged {
            // The info log reports the replayed log.
            for files in [&mut before, &mut after] {
                files.retain(|name, _| !name.starts_with("LOG"));
            }
        }
        assert_eq!(before, after);
    }
}
