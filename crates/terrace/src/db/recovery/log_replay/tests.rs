//! Comparison of the serial replay with the parallel replay of the same logs.

use std::fmt;

use terrace_env::{
    DeterministicScheduler, Priority, Random, ScheduledJob, Scheduler, SeededRandom, ThreadPool,
};
use terrace_format::batch::WriteBatch;
use terrace_format::comparator::bytewise;
use terrace_format::log::{LOG_BLOCK_SIZE, RecordWriter};

use super::*;
use crate::internal_iterator::InternalIterator;
use crate::sync::Mutex;

/// Memtable size in bytes. The logs of the test fill several memtables.
const MEMTABLE_SIZE: usize = 24 << 10;

#[derive(Default)]
struct RecordingLogger(Mutex<Vec<String>>);

impl Logger for RecordingLogger {
    fn log(&self, line: fmt::Arguments<'_>) {
        self.0.lock().push(line.to_string());
    }
}

/// Scheduler that runs no job.
#[derive(Debug)]
struct IdleScheduler;

impl Scheduler for IdleScheduler {
    fn schedule(&self, _lane: Priority, _job: ScheduledJob) {}

    fn parallelism(&self, _lane: Priority) -> usize {
        4
    }

    fn run_one_here(&self) -> bool {
        false
    }
}

fn pick(random: &SeededRandom, below: usize) -> usize {
    random.uniform(below as u64) as usize
}

/// Creates logs with batches of all sizes, few or many keys, and consecutive sequence numbers. The
/// last log is closed or not. Some logs are damaged.
fn logs(random: &SeededRandom) -> Vec<Vec<u8>> {
    let keys = [5, 300, 100_000][pick(random, 3)];
    let prefix = ["", "a/long/prefix/of/all/"][pick(random, 2)];
    let mut sequence = 1;
    let mut logs = Vec::new();
    for _ in 0..1 + pick(random, 4) {
        let mut log = Vec::new();
        let mut record_writer = RecordWriter::resume_at(0);
        let mut add = |batch: &mut WriteBatch, sequence: u64| {
            batch.set_sequence(sequence);
            for fragment in record_writer.add_record(batch.as_bytes()) {
                log.resize(fragment.offset as usize, 0);
                log.extend_from_slice(&fragment.header);
                log.extend_from_slice(fragment.payload);
            }
        };
        for _ in 0..pick(random, 1500) {
            let mut batch = WriteBatch::new();
            for _ in 0..1 + pick(random, 30) / 9 * pick(random, 4) {
                let key = format!("{prefix}{:x}", pick(random, keys));
                let value =
                    vec![b'a' + pick(random, 26) as u8; pick(random, 40) * (1 + pick(random, 60) / 59 * 300)];
                if pick(random, 5) == 0 {
                    batch.delete(key.as_bytes());
                } else {
                    batch.put(key.as_bytes(), &value);
                }
            }
            add(&mut batch, sequence);
            match pick(random, 400) {
                // Repeats or skips sequence numbers.
                0 => {}
                1 => sequence += 3 + batch.len() as u64,
                _ => sequence += batch.len() as u64,
            }
        }
        if pick(random, 3) == 0 {
            add(&mut WriteBatch::new(), sequence);
        } else if pick(random, 2) == 0 {
            log.resize(log.len() + pick(random, 3 * LOG_BLOCK_SIZE), 0);
        }
        damage(&mut log, random);
        logs.push(log);
    }
    logs
}

fn damage(log: &mut Vec<u8>, random: &SeededRandom) {
    if log.is_empty() {
        return;
    }
    let at = pick(random, log.len());
    match pick(random, 9) {
        0 => log.truncate(at),
        1 => log[at] ^= 1 << pick(random, 8),
        2 => {
            let end = log.len().min(at + pick(random, 5000));
            log[at..end].fill(0);
        }
        3 => log.truncate(log.len().saturating_sub(pick(random, 30))),
        _ => {}
    }
}

/// Returns the result of a replay as text.
fn replayed(
    logs: &[Vec<u8>],
    scheduler: Arc<dyn Scheduler>,
    settings: usize,
    one_by_one: bool,
) -> Vec<String> {
    let env = Env { scheduler, ..Env::in_memory() };
    env.fs.create_dir("db".as_ref()).unwrap();
    for (number, log) in (1..).zip(logs) {
        let path = Path::new("db").join(FileName::Log(number).to_string());
        let mut file = env.fs.create(&path).unwrap();
        file.append(log).unwrap();
        file.close().unwrap();
    }
    let comparator = InternalComparator::new(bytewise());
    let lines = RecordingLogger::default();
    let mut told = Vec::new();
    let tell = |told: &mut Vec<String>, memtable: &Arc<Memtable>| {
        let mut entries = memtable.iter();
        entries.seek_to_first();
        while let Some((key, value)) = entries.entry() {
            told.push(format!("{} = {}", key.escape_ascii(), value.escape_ascii()));
            entries.next();
        }
        told.push(format!("{} hold it", Arc::strong_count(memtable)));
    };
    let chunk_max = if one_by_one { 0 } else { MEMTABLE_SIZE / 8 };
    let outcome = LogReplay {
        env: &env,
        directory: Path::new("db"),
        comparator: &comparator,
        chunk_pool: &Arc::default(),
        logger: &lines,
        paranoid_checks: settings & 1 > 0,
        allows_damage: false,
        closed_log: None,
        log_method: if settings & 2 > 0 { LogWriteMethod::Mapped } else { LogWriteMethod::Appended },
        memtable_size: MEMTABLE_SIZE,
        inserter: ParallelInserter::with_max_chunk_bytes(&env, &comparator, chunk_max),
        last_sequence: 0,
        on_full_memtable: &mut |memtable| {
            tell(&mut told, &memtable);
            Ok(())
        },
    }
    .run(&(1..=logs.len() as u64).collect::<Vec<_>>());
    match outcome {
        Err(error) => told.push(error.to_string()),
        Ok(done) => {
            tell(&mut told, &done.memtable);
            let ReplayOutcome {
                last_sequence,
                sequence_before_last_log: before_last_log,
                next_sequence: next,
                skipped_logs: set_aside,
                reusable_len: resumable,
                ..
            } = done;
            told.push(format!("{last_sequence} {before_last_log} {next:?} {set_aside:?} {resumable:?}"));
        }
    }
    told.extend(lines.0.into_inner());
    told
}

#[test]
fn parallel_replay_matches_serial_replay() {
    let mut damaged = 0;
    let mut several = 0;
    for seed in 0..if cfg!(miri) { 2 } else { 150 } {
        let random = SeededRandom::new(seed);
        let logs = logs(&random);
        let settings = pick(&random, 4);
        let right = replayed(&logs, Arc::new(IdleScheduler), settings, true);
        damaged += usize::from(right.iter().any(|line| line.contains("expected")));
        several += usize::from(right.iter().filter(|line| line.ends_with("hold it")).count() > 2);
        let schedulers: [Arc<dyn Scheduler>; 4] = [
            Arc::new(IdleScheduler),
            DeterministicScheduler::new(seed),
            Arc::new(ThreadPool::new(1, 1)),
            Arc::new(ThreadPool::new(1, 4)),
        ];
        for scheduler in schedulers {
            let name = format!("seed {seed}, settings {settings}, {scheduler:?}");
            assert!(replayed(&logs, scheduler, settings, false) == right, "{name}");
        }
    }
    assert!(damaged > 20 && several > 20, "{damaged} damaged, {several} of several memtables");
}
