//! A database whose writer was killed, for readers of the format.

use std::path::Path;
use std::time::Duration;

use terrace_testkit::rng::Rng;

use super::ledger::Ledger;
use super::writer::WriterJob;
use super::writer_process::WriterProcess;

/// Maximum lifetime of the writer, in milliseconds.
const MAX_WRITER_LIFETIME_MS: u64 = 150;

/// Writes a database in `dir` with options that LevelDB also has, until the writer is killed.
/// Returns a description.
///
/// Half of the databases are opened and killed twice.
pub(in crate::harness) fn leave(
    seed: u64,
    by_leveldb: bool,
    rng: &mut Rng,
    dir: &Path,
) -> Result<String, String> {
    let ledger_dir = tempfile::tempdir().map_err(|error| error.to_string())?;
    let ledger_path = ledger_dir.path().join("ledger");
    // The binding of the stock library uses one thread.
    let threads = if by_leveldb { 1 } else { 1 + rng.below(3) };
    let mut acknowledged = vec![0; threads as usize];
    let kills = 1 + rng.below(2);
    for round in 0..kills {
        let job = WriterJob {
            database: dir.to_path_buf(),
            seed,
            settings_seed: seed ^ round,
            acknowledged: acknowledged.clone(),
            sync_one_in: rng.pick(&[20, 200, u64::MAX]),
            fault_plan: None,
            ballast: None,
            by_leveldb,
            leveldb_compatible: true,
        };
        let ledger = Ledger::create(&ledger_path, &acknowledged)?;
        let job = serde_json::to_string(&job).map_err(|error| error.to_string())?;
        let stderr_path = ledger_dir.path().join("stderr");
        let arguments = ["write".as_ref(), job.as_ref(), ledger_path.as_os_str()];
        let writer = WriterProcess::start(arguments, stderr_path)?;
        std::thread::sleep(Duration::from_millis(1 + rng.below(MAX_WRITER_LIFETIME_MS)));
        writer.kill()?;
        acknowledged = ledger.read()?;
    }
    let writes = acknowledged.iter().sum::<u64>();
    Ok(format!("killed {kills} times, {} threads, {writes} batches acknowledged", acknowledged.len()))
}
