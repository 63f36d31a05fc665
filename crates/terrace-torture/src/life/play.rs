//! Runs a script, and shows every point at which a crash can find it.

use std::sync::Arc;

use terrace_env::FileSystem;
use terrace_env::mem::MemFs;

use super::contents::{difference, state};
use super::script::{Script, Step};
use super::store::Store;

/// How far a life has come, counted in writes.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Those that a power cut must leave.
    pub durable: usize,
    /// Those that returned: the death of the process leaves them.
    pub acknowledged: usize,
    /// Those that were begun: nothing beyond may be found.
    pub begun: usize,
}

/// A moment between two calls that change a file.
pub struct Point {
    /// The files, with what is pending.
    pub fs: MemFs,
    /// What a restart must find.
    pub progress: Progress,
}

/// Plays `script` from nothing on `files`, which `world` shows to the store; `see` gets every point.
///
/// An answer that is wrong without any crash is an error, too.
pub fn play<S: Store>(
    script: &Script,
    options: &S::Options,
    files: &MemFs,
    world: &Arc<dyn FileSystem>,
    see: &mut dyn FnMut(Point) -> Result<(), String>,
) -> Result<(), String> {
    let mut progress = Progress::default();
    let mut held = 0;
    drop(files.take_points());
    let mut store = S::open(world, options)?;
    show(files, progress, see)?;
    for step in &script.steps {
        match step {
            Step::Write { changes, sync } => {
                let changes: Vec<_> = changes
                    .iter()
                    .map(|(key, id)| (key.as_slice(), id.map(|id| script.values.bytes(id))))
                    .collect();
                progress.begun += 1;
                store.write(&changes, *sync)?;
                show(files, progress, see)?;
                progress.acknowledged = progress.begun;
                if *sync {
                    progress.durable = progress.begun;
                }
            }
            Step::Hold => {
                compare(script, held, "the snapshot", store.release())?;
                store.hold();
                held = progress.begun;
            }
            settling => {
                compare(script, held, "the snapshot", store.release())?;
                store = store.settle(settling)?;
                show(files, progress, see)?;
                progress.durable = progress.begun;
            }
        }
    }
    compare(script, progress.begun, "the end", Some(store.entries()))?;
    store.close()?;
    show(files, progress, see)?;
    progress.durable = progress.begun;
    see(Point { fs: files.fork(), progress })
}

fn show(
    files: &MemFs,
    progress: Progress,
    see: &mut dyn FnMut(Point) -> Result<(), String>,
) -> Result<(), String> {
    files.take_points().into_iter().try_for_each(|fs| see(Point { fs, progress }))
}

fn compare(
    script: &Script,
    count: usize,
    what: &str,
    found: Option<Result<Vec<super::contents::Entry>, String>>,
) -> Result<(), String> {
    let Some(found) = found else { return Ok(()) };
    let found = state(&found?, &script.values)?;
    let expected = &script.states[count];
    if found == *expected {
        return Ok(());
    }
    Err(format!("without a crash, at {what} after write {count}: {}", difference(expected, &found)))
}
