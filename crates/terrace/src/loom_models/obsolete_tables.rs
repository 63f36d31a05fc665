//! Models of the removal of obsolete tables beside readers, and of allowed seeks.

use std::sync::Mutex as UntrackedMutex;

use terrace_sync::thread;

use crate::db::components::obsolete_tables::ObsoleteTables;
use crate::db::components::read_state::ReadStateCell;
use crate::sync::{Arc, AtomicBool, Mutex, Ordering};
use crate::version::AllowedSeeks;

struct ModelTable {
    removed: AtomicBool,
}

type ModelVersion = Vec<Arc<ModelTable>>;
type ObsoleteModelTables = Arc<Mutex<ObsoleteTables<ModelTable>>>;

fn table() -> Arc<ModelTable> {
    Arc::new(ModelTable { removed: AtomicBool::new(false) })
}

fn remove_obsolete(obsolete: &ObsoleteModelTables) {
    let free = obsolete.lock().take_unreferenced(usize::MAX);
    for table in free {
        table.removed.store(true, Ordering::Relaxed);
    }
}

/// Runs removal jobs while one is due, as a thread of the scheduler does.
fn run_removal_jobs(obsolete: &ObsoleteModelTables) {
    while obsolete.lock().start_removal() {
        remove_obsolete(obsolete);
        obsolete.lock().end_removal();
    }
}

/// Reads the table of the current version twice. The last reader of a version schedules the removal
/// of obsolete tables, as in the engine.
fn read(read_state: &ReadStateCell<ModelVersion>, obsolete: &ObsoleteModelTables) {
    let version = Arc::clone(&read_state.load().0);
    for _ in 0..2 {
        assert!(!version[0].removed.load(Ordering::Relaxed), "a table was removed while a reader used it");
    }
    if let Some(version) = Arc::into_inner(version) {
        drop(version);
        run_removal_jobs(obsolete);
    }
}

pub(super) fn reader_keeps_table() {
    let old = table();
    let weak = Arc::downgrade(&old);
    let read_state = Arc::new(ReadStateCell::new(vec![Arc::clone(&old)], 0));
    let obsolete: ObsoleteModelTables = Arc::default();
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let read_state = Arc::clone(&read_state);
            let obsolete = Arc::clone(&obsolete);
            thread::spawn(move || read(&read_state, &obsolete))
        })
        .collect();
    // Installs a version without the table.
    {
        let mut obsolete = obsolete.lock();
        obsolete.extend([old]);
        read_state.install(vec![table()]);
    }
    remove_obsolete(&obsolete);
    for reader in readers {
        reader.join().unwrap();
    }
    assert!(weak.upgrade().is_none(), "the table has no reader and was not removed");
}

pub(super) fn allowed_seeks() {
    let allowed_seeks = Arc::new(AllowedSeeks::new(2));
    let exhausted = Arc::new(UntrackedMutex::new(0));
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let allowed_seeks = Arc::clone(&allowed_seeks);
            let exhausted = Arc::clone(&exhausted);
            thread::spawn(move || {
                for _ in 0..2 {
                    *exhausted.lock().unwrap() += u32::from(allowed_seeks.charge(1));
                }
            })
        })
        .collect();
    for reader in readers {
        reader.join().unwrap();
    }
    assert_eq!(*exhausted.lock().unwrap(), 3, "all charges but the first");
}
