//! Runs a script and reports every point at which a crash is possible.

use std::sync::Arc;

use terrace_env::FileSystem;
use terrace_env::mem::MemFs;

use super::contents::{describe_difference, parse_state};
use super::script::{Script, ScriptStep};
use super::store::CrashableStore;

/// Progress of a workload, in numbers of writes.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct WriteProgress {
    /// Writes that a power cut must keep.
    pub durable: usize,
    /// Writes that returned. A kill of the process must keep them.
    pub acknowledged: usize,
    /// Writes that started. No later write may be found.
    pub started: usize,
}

/// State between two calls that change a file.
pub struct CrashPoint {
    /// Files with their unsynced changes.
    pub fs: MemFs,
    /// Progress that limits the contents after a restart.
    pub progress: WriteProgress,
}

/// Runs `script` on empty `files`, which the store uses through `fs`. Calls `visit` at every crash
/// point.
///
/// A wrong answer without a crash is also an error.
pub fn run_script<S: CrashableStore>(
    script: &Script,
    options: &S::Options,
    files: &MemFs,
    fs: &Arc<dyn FileSystem>,
    visit: &mut dyn FnMut(CrashPoint) -> Result<(), String>,
) -> Result<(), String> {
    let mut progress = WriteProgress::default();
    let mut snapshot_writes = 0;
    drop(files.take_crash_points());
    let mut store = S::open(fs, options)?;
    report_points(files, progress, visit)?;
    for step in &script.steps {
        match step {
            ScriptStep::Write { changes, sync } => {
                let changes: Vec<_> = changes
                    .iter()
                    .map(|(key, id)| (key.as_slice(), id.map(|id| script.values.bytes(id))))
                    .collect();
                progress.started += 1;
                store.write(&changes, *sync)?;
                report_points(files, progress, visit)?;
                progress.acknowledged = progress.started;
                if *sync {
                    progress.durable = progress.started;
                }
            }
            ScriptStep::TakeSnapshot => {
                check_entries(script, snapshot_writes, "the snapshot", store.read_snapshot())?;
                store.take_snapshot();
                snapshot_writes = progress.started;
            }
            durable_step => {
                if matches!(durable_step, ScriptStep::Reopen | ScriptStep::Repair) {
                    check_entries(script, snapshot_writes, "the snapshot", store.read_snapshot())?;
                }
                store = store.make_durable(durable_step)?;
                report_points(files, progress, visit)?;
                progress.durable = progress.started;
            }
        }
    }
    check_entries(script, snapshot_writes, "the snapshot", store.read_snapshot())?;
    check_entries(script, progress.started, "the end", Some(store.entries()))?;
    store.close()?;
    report_points(files, progress, visit)?;
    progress.durable = progress.started;
    visit(CrashPoint { fs: files.fork(), progress })
}

fn report_points(
    files: &MemFs,
    progress: WriteProgress,
    visit: &mut dyn FnMut(CrashPoint) -> Result<(), String>,
) -> Result<(), String> {
    files.take_crash_points().into_iter().try_for_each(|fs| visit(CrashPoint { fs, progress }))
}

fn check_entries(
    script: &Script,
    count: usize,
    place: &str,
    found: Option<Result<Vec<super::contents::Entry>, String>>,
) -> Result<(), String> {
    let Some(found) = found else { return Ok(()) };
    let found = parse_state(&found?, &script.values)?;
    let expected = &script.states[count];
    if found == *expected {
        return Ok(());
    }
    Err(format!("without a crash, at {place} after write {count}: {}", describe_difference(expected, &found)))
}
