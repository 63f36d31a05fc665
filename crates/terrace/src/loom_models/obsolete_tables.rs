//! Files of a view that is replaced while somebody reads it, and how often a file is worn out.

use std::sync::Mutex as Unseen;

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

fn file() -> Arc<ModelTable> {
    Arc::new(ModelTable { removed: AtomicBool::new(false) })
}

fn sweep(doomed: &ObsoleteModelTables) {
    let free = doomed.lock().take_unreferenced();
    free.iter().for_each(|file| file.removed.store(true, Ordering::Relaxed));
}

/// Looks twice at the file of its view. The last holder of a view sweeps when it is done, as the engine's readers do.
fn read(present: &ReadStateCell<ModelVersion>, doomed: &ObsoleteModelTables) {
    let view = Arc::clone(&present.load().0);
    for _ in 0..2 {
        assert!(!view[0].removed.load(Ordering::Relaxed), "a file was removed while it was read");
    }
    if let Some(view) = Arc::into_inner(view) {
        drop(view);
        sweep(doomed);
    }
}

pub(super) fn reader_keeps_table() {
    let old = file();
    let witness = Arc::downgrade(&old);
    let present = Arc::new(ReadStateCell::new(vec![Arc::clone(&old)], 0));
    let doomed: ObsoleteModelTables = Arc::default();
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let (present, doomed) = (Arc::clone(&present), Arc::clone(&doomed));
            thread::spawn(move || read(&present, &doomed))
        })
        .collect();
    // Installs a version without it.
    {
        let mut doomed = doomed.lock();
        doomed.extend([old]);
        present.install(vec![file()]);
    }
    sweep(&doomed);
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    assert!(witness.upgrade().is_none(), "nobody reads the file, and it is still there");
}

pub(super) fn allowed_seeks() {
    let allowance = Arc::new(AllowedSeeks::new(2));
    let worn = Arc::new(Unseen::new(0));
    let seekers: Vec<_> = (0..2)
        .map(|_| {
            let (allowance, worn) = (Arc::clone(&allowance), Arc::clone(&worn));
            thread::spawn(move || {
                for _ in 0..2 {
                    *worn.lock().unwrap() += u32::from(allowance.charge(1));
                }
            })
        })
        .collect();
    seekers.into_iter().for_each(|seeker| seeker.join().unwrap());
    assert_eq!(*worn.lock().unwrap(), 3, "all but the first");
}
