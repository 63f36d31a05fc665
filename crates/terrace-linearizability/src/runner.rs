//! Executes a scenario on a new database and checks its history.
//!
//! The runner checks more than the order of operations. No call fails. A snapshot or an iterator
//! shows the same entries at every read. Each operation takes one sequence number and skips none.
//! The database has the same contents after it is reopened.

mod ingest;

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use terrace::{
    BloomFilterPolicy, Db, DbIterator, Env, MappedLogs, Options, ReadOptions, Snapshot, WriteBatch,
    WriteOptions,
};
use terrace_env::SystemFs;
use terrace_env::fault::{FaultFs, FaultPlan};
use terrace_env::mem::MemFs;
use terrace_env::{FileSystem, ManualClock, SeededRandom, ThreadPool};
use terrace_sync::{Arc, thread};

use crate::checker::{self, Effect, Key, Operation, Value, Verdict};
use crate::scenario::{Action, Scenario};

/// Maximum number of search steps per history.
const CHECKER_STEP_BUDGET: usize = 200_000;

/// Result of one scenario.
#[derive(Debug, Default, Clone, Copy)]
pub struct ScenarioOutcome {
    /// Number of checked operations.
    pub operations: usize,
    /// Hash of all results in their order. Equal schedules have equal digests.
    pub digest: u64,
    /// Whether the whole history exceeded the step budget, so that each key was checked alone.
    pub checked_per_key: bool,
}

/// Executes `scenario`. The error describes an impossible result.
pub fn run_scenario(scenario: &Scenario) -> Result<ScenarioOutcome, String> {
    let context = ScenarioContext::new(scenario)?;
    let mut history = context.run_clients(scenario)?;
    history.sort_by_key(|operation| operation.invoked_at);
    Ok(ScenarioOutcome {
        operations: history.len(),
        digest: history_digest(&history),
        checked_per_key: !check_history(&history, scenario.key_count)?,
    })
}

/// Checks the whole history and returns true. If that exceeds the step budget, checks each key
/// alone and returns false.
fn check_history(history: &[Operation], keys: usize) -> Result<bool, String> {
    let violation = |message: String, history: &[Operation]| {
        let lines = history.iter().map(Operation::to_string).collect::<Vec<_>>().join("\n");
        Err(format!("{message}\nThe history:\n{lines}"))
    };
    match checker::check_linearizable(history, keys, CHECKER_STEP_BUDGET) {
        Verdict::Linearizable => return Ok(true),
        Verdict::NotLinearizable(message) => return violation(message, history),
        Verdict::Undecided => {}
    }
    for key in 0..keys {
        let part = checker::project_to_key(history, key);
        let verdict = checker::check_linearizable(&part, keys, CHECKER_STEP_BUDGET);
        if let Verdict::NotLinearizable(message) = verdict {
            return violation(message, &part);
        }
    }
    Ok(false)
}

fn history_digest(history: &[Operation]) -> u64 {
    history
        .iter()
        .flat_map(|operation| operation.to_string().into_bytes())
        .fold(0, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(5))
}

/// Database directory, options, and the clock of the history.
struct ScenarioContext {
    env: Env,
    mem: Arc<MemFs>,
    path: PathBuf,
    options: Options,
    key_count: usize,
    /// Clock of the history. The engine does not read it, and it is no part of a schedule.
    logical_clock: AtomicU64,
    /// First value of each acknowledged sync write.
    synced_values: Mutex<Vec<u32>>,
    /// Number of operations in all writes that returned.
    operations_written: AtomicU64,
    /// Whether a client deleted a range, which takes an unknown number of sequence numbers.
    range_deleted: AtomicBool,
    /// Temporary directory, removed with this value.
    _directory: Option<tempfile::TempDir>,
}

/// Results of one client.
#[derive(Default)]
struct ClientRecord {
    history: Vec<Operation>,
    /// Crash images of power cuts, opened after all clients.
    crash_images: Vec<(Operation, MemFs)>,
}

impl ScenarioContext {
    fn new(scenario: &Scenario) -> Result<Arc<ScenarioContext>, String> {
        let mem = Arc::new(MemFs::new());
        let directory =
            scenario.on_real_files.then(tempfile::tempdir).transpose().map_err(|e| e.to_string())?;
        let fs: Arc<dyn FileSystem> = match &directory {
            Some(_) => Arc::new(SystemFs::new()),
            // Under a model checker, each call is a point at which another thread may continue.
            None if cfg!(feature = "shuttle") => Arc::new(FaultFs::new(mem.clone(), FaultPlan::default())),
            None => mem.clone(),
        };
        let path = directory.as_ref().map_or("/db".into(), |directory| directory.path().join("db"));
        let env = scenario_env(fs);
        let mut options = Options::default()
            .create_if_missing(true)
            .env(env.clone())
            .write_buffer_size(1)
            .reuse_logs(scenario.reuse_logs);
        if scenario.has_appended_logs {
            options.mapped_logs = MappedLogs::Never;
        }
        options.filter_policy =
            (scenario.bloom_bits > 0).then(|| Arc::new(BloomFilterPolicy::new(scenario.bloom_bits)) as _);
        Ok(Arc::new(ScenarioContext {
            env,
            mem,
            path,
            options,
            key_count: scenario.key_count,
            logical_clock: AtomicU64::new(1),
            synced_values: Mutex::default(),
            operations_written: AtomicU64::new(0),
            range_deleted: AtomicBool::new(false),
            _directory: directory,
        }))
    }

    /// Returns the history of all clients and of the reopened database.
    fn run_clients(self: &Arc<Self>, scenario: &Scenario) -> Result<Vec<Operation>, String> {
        let db = Db::open(&self.path, &self.options).map_err(error_context("open"))?;
        let mut first = Client::new(self, "before", db.clone());
        scenario.setup.iter().try_for_each(|action| first.execute(action))?;
        let mut records = vec![first.finish()?];
        let clients = scenario.clients.iter().enumerate().map(|(number, actions)| {
            let mut client = Client::new(self, &format!("client {number}"), db.clone());
            let actions = actions.clone();
            thread::spawn(move || {
                actions.iter().try_for_each(|action| client.execute(action))?;
                client.finish()
            })
        });
        let clients: Vec<_> = clients.collect();
        let db = (!scenario.last_client_closes).then_some(db);
        for client in clients {
            records.push(client.join().map_err(|_| "a client panicked")??);
        }
        if let Some(db) = db {
            self.check_sequence_number(&db, "before the close")?;
            db.close().map_err(error_context("close"))?;
        }
        self.reopen_and_collect(records)
    }

    /// Reopens the database, opens the crash images, and appends their contents to the history.
    fn reopen_and_collect(&self, records: Vec<ClientRecord>) -> Result<Vec<Operation>, String> {
        let mut history = Vec::new();
        for record in records {
            history.extend(record.history);
            for (mut cut, image) in record.crash_images {
                let env = Env { fs: Arc::new(image), ..self.env.clone() };
                let options = self.options.clone().env(env);
                let db = Db::open(&self.path, &options).map_err(error_context("open after a power cut"))?;
                cut.effect = Effect::PowerCutState(self.read_all(&db, &ReadOptions::default())?);
                db.close().map_err(error_context("close after a power cut"))?;
                history.push(cut);
            }
        }
        let invoked_at = self.next_timestamp();
        let db = Db::open(&self.path, &self.options).map_err(error_context("reopen"))?;
        self.check_sequence_number(&db, "reopened")?;
        let effect = Effect::Read(self.read_all(&db, &ReadOptions::default())?);
        history.push(Operation {
            name: "reopened".into(),
            invoked_at,
            returned_at: self.next_timestamp(),
            effect,
            after_values: vec![],
        });
        db.close().map_err(error_context("close after the reopen"))?;
        Ok(history)
    }

    fn next_timestamp(&self) -> u64 {
        self.logical_clock.fetch_add(1, Ordering::SeqCst)
    }

    /// Checks that every operation took one sequence number. A range delete may take more.
    fn check_sequence_number(&self, db: &Db, when: &str) -> Result<(), String> {
        let found = db.snapshot().sequence();
        let expected = self.operations_written.load(Ordering::SeqCst);
        let may_exceed = self.range_deleted.load(Ordering::SeqCst);
        if found == expected || (may_exceed && found > expected) {
            return Ok(());
        }
        Err(format!("{when}: the last sequence number is {found} after {expected} operations"))
    }

    /// Reads every key by a get and by a scan. Both must agree, because they read one snapshot.
    fn read_all(&self, db: &Db, options: &ReadOptions) -> Result<Vec<(Key, Value)>, String> {
        let scanned = scan(&mut db.raw_iter_with(options), self.key_count, false)?;
        for &(key, value) in &scanned {
            let got =
                parse_value(db.get_with(key_bytes(key), options).map_err(error_context("get"))?.as_deref())?;
            if got != value {
                return Err(format!(
                    "key {key}: a scan shows {value:?}, a get {got:?}, at one sequence number"
                ));
            }
        }
        Ok(scanned)
    }
}

/// Env with a stopped clock and threads of its own, which end with it.
fn scenario_env(fs: Arc<dyn FileSystem>) -> Env {
    Env {
        fs,
        clock: Arc::new(ManualClock::default()),
        scheduler: Arc::new(ThreadPool::new(2, 1)),
        random: Arc::new(SeededRandom::new(0)),
    }
}

/// State of one client thread.
struct Client {
    context: Arc<ScenarioContext>,
    name: String,
    db: Db,
    record: ClientRecord,
    snapshot: Option<HeldReader<Snapshot>>,
    iterator: Option<HeldReader<DbIterator>>,
}

/// Snapshot or iterator, with the result of its first read.
struct HeldReader<T> {
    reader: T,
    /// Start of the call that created the reader. The observed state existed between this time and
    /// `returned_at`.
    invoked_at: u64,
    returned_at: u64,
    first_read: Option<Vec<(Key, Value)>>,
}

impl Client {
    fn new(context: &Arc<ScenarioContext>, name: &str, db: Db) -> Client {
        Client {
            context: Arc::clone(context),
            name: name.to_owned(),
            db,
            record: ClientRecord::default(),
            snapshot: None,
            iterator: None,
        }
    }

    fn execute(&mut self, action: &Action) -> Result<(), String> {
        match action {
            Action::Write { values, length, sync } => self.write(values, *length, *sync),
            Action::Get(key) => self.get(*key),
            Action::Scan { backward } => {
                let mut held = self.acquire(|db| db.raw_iter());
                let values = scan(&mut held.reader, self.context.key_count, *backward)?;
                let effect = Effect::Read(values);
                self.record_operation("scan", held.invoked_at, held.returned_at, effect);
                Ok(())
            }
            Action::TakeSnapshot => {
                self.reread_snapshot()?;
                self.snapshot = Some(self.acquire(Db::snapshot));
                Ok(())
            }
            Action::ReadSnapshot => self.reread_snapshot(),
            Action::OpenIterator => {
                self.rescan_iterator(false)?;
                self.iterator = Some(self.acquire(|db| db.raw_iter()));
                Ok(())
            }
            Action::RescanIterator { backward } => self.rescan_iterator(*backward),
            Action::Flush => self.db.flush().map_err(error_context("flush")),
            Action::CompactRange(range) => {
                let (begin, end) = range.map(|(a, b)| (key_bytes(a), key_bytes(b))).unzip();
                self.db.compact_range(begin.as_deref(), end.as_deref()).map_err(error_context("compact"))
            }
            Action::DeleteRange(from, to) => self.delete_range(*from, *to),
            Action::Ingest(values) => self.ingest(values),
            Action::ReadProperties => {
                self.db.property("leveldb.stats");
                self.db.approximate_sizes(&[(b"", b"z")]).map(drop).map_err(error_context("sizes"))
            }
            Action::PowerCut { profile, seed } => {
                self.simulate_power_cut(profile, *seed);
                Ok(())
            }
        }
    }

    /// Reads the kept snapshot and iterator once more, then drops the database handle.
    fn finish(mut self) -> Result<ClientRecord, String> {
        self.reread_snapshot()?;
        self.rescan_iterator(true)?;
        Ok(self.record)
    }

    fn acquire<T>(&self, make: impl FnOnce(&Db) -> T) -> HeldReader<T> {
        let invoked_at = self.context.next_timestamp();
        HeldReader {
            reader: make(&self.db),
            invoked_at,
            returned_at: self.context.next_timestamp(),
            first_read: None,
        }
    }

    fn record_operation(&mut self, verb: &str, invoked_at: u64, returned_at: u64, effect: Effect) {
        let name = format!("{}: {verb}", self.name);
        self.record.history.push(Operation { name, invoked_at, returned_at, effect, after_values: vec![] });
    }

    fn write(&mut self, values: &[(Key, Value)], length: usize, sync: bool) -> Result<(), String> {
        let mut batch = WriteBatch::new();
        for &(key, value) in values {
            match value {
                Some(number) => batch.put(key_bytes(key), value_bytes(number, length)),
                None => batch.delete(key_bytes(key)),
            };
        }
        let from = self.context.next_timestamp();
        self.db.write_with(&batch, &WriteOptions::default().sync(sync)).map_err(error_context("write"))?;
        let to = self.context.next_timestamp();
        self.context.operations_written.fetch_add(values.len() as u64, Ordering::SeqCst);
        if let Some(first) = values.iter().find_map(|(_, value)| *value).filter(|_| sync) {
            lock_ignoring_poison(&self.context.synced_values).push(first);
        }
        self.record_operation(
            if sync { "sync write" } else { "write" },
            from,
            to,
            Effect::Write(values.to_vec()),
        );
        Ok(())
    }

    /// Records one delete per key, each with times of its own. With concurrent writers the engine
    /// may delete a key several times: three attempts to drop tables, then once more by itself or
    /// with its table.
    fn delete_range(&mut self, from: Key, to: Key) -> Result<(), String> {
        const MAX_DELETES_PER_KEY: usize = 4;
        let keys: Vec<Key> =
            (from..to.min(self.context.key_count)).flat_map(|key| [key; MAX_DELETES_PER_KEY]).collect();
        let began: Vec<u64> = keys.iter().map(|_| self.context.next_timestamp()).collect();
        self.db.delete_range(key_bytes(from)..key_bytes(to)).map_err(error_context("delete_range"))?;
        self.context.range_deleted.store(true, Ordering::SeqCst);
        for (key, from) in keys.into_iter().zip(began) {
            let to = self.context.next_timestamp();
            self.record_operation("range delete", from, to, Effect::RangeDelete(vec![(key, None)]));
        }
        Ok(())
    }

    fn get(&mut self, key: Key) -> Result<(), String> {
        let held = self.acquire(|db| db.get(key_bytes(key)));
        let value = parse_value(held.reader.map_err(error_context("get"))?.as_deref())?;
        self.record_operation("get", held.invoked_at, held.returned_at, Effect::Read(vec![(key, value)]));
        Ok(())
    }

    fn reread_snapshot(&mut self) -> Result<(), String> {
        let Some(mut held) = self.snapshot.take() else { return Ok(()) };
        let options = ReadOptions::default().snapshot(held.reader.clone());
        let shows = self.context.read_all(&self.db, &options)?;
        self.check_unchanged("snapshot", &mut held, shows)?;
        self.snapshot = Some(held);
        Ok(())
    }

    fn rescan_iterator(&mut self, backward: bool) -> Result<(), String> {
        let Some(mut held) = self.iterator.take() else { return Ok(()) };
        let shows = scan(&mut held.reader, self.context.key_count, backward)?;
        self.check_unchanged("iterator", &mut held, shows)?;
        self.iterator = Some(held);
        Ok(())
    }

    fn check_unchanged<T>(
        &mut self,
        kind: &str,
        held: &mut HeldReader<T>,
        shows: Vec<(Key, Value)>,
    ) -> Result<(), String> {
        match &held.first_read {
            Some(showed) if *showed != shows => {
                return Err(format!("{}: the {kind} showed {showed:?} and then {shows:?}", self.name));
            }
            Some(_) => {}
            None => {
                self.record_operation(kind, held.invoked_at, held.returned_at, Effect::Read(shows.clone()))
            }
        }
        held.first_read = Some(shows);
        Ok(())
    }

    /// Records the crash image of a power cut. Its state includes every acknowledged sync write.
    fn simulate_power_cut(&mut self, profile: &terrace_env::mem::PowerLossProfile, seed: u64) {
        let after_values = lock_ignoring_poison(&self.context.synced_values).clone();
        let image = self.context.mem.crash_clone(&profile.crash_with_seed(seed));
        let name = format!("{}: power cut, {}", self.name, profile.name);
        let operation = Operation {
            name,
            invoked_at: 0,
            returned_at: self.context.next_timestamp(),
            effect: Effect::PowerCutState(Vec::new()),
            after_values,
        };
        self.record.crash_images.push((operation, image));
    }
}

fn scan(iterator: &mut DbIterator, keys: usize, backward: bool) -> Result<Vec<(Key, Value)>, String> {
    let mut shows: Vec<(Key, Value)> = (0..keys).map(|key| (key, None)).collect();
    let mut last = None;
    if backward {
        iterator.seek_to_last()
    } else {
        iterator.seek_to_first()
    }
    while iterator.valid() {
        let key = parse_key(iterator.key())?;
        if last.is_some_and(|last| if backward { last <= key } else { last >= key }) {
            return Err(format!("a scan returned key {key} after key {last:?}"));
        }
        last = Some(key);
        shows[key].1 = parse_value(Some(iterator.value()))?;
        if backward { iterator.prev() } else { iterator.next() }
    }
    iterator.status().map_err(error_context("scan"))?;
    Ok(shows)
}

fn key_bytes(key: Key) -> Vec<u8> {
    vec![b'k', b'0' + key as u8]
}

fn parse_key(name: &[u8]) -> Result<Key, String> {
    match name {
        [b'k', digit @ b'0'..=b'9'] => Ok(usize::from(digit - b'0')),
        _ => Err(format!("key that no client wrote: {}", name.escape_ascii())),
    }
}

fn value_bytes(number: u32, length: usize) -> Vec<u8> {
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.resize(length, number as u8);
    bytes
}

fn parse_value(bytes: Option<&[u8]>) -> Result<Value, String> {
    let Some(bytes) = bytes else { return Ok(None) };
    let number = bytes.first_chunk().map(|first| u32::from_le_bytes(*first));
    number.filter(|number| *bytes == value_bytes(*number, bytes.len())).map(Some).ok_or_else(|| {
        format!(
            "value of {} bytes that no client wrote: {}...",
            bytes.len(),
            bytes[..bytes.len().min(12)].escape_ascii()
        )
    })
}

fn error_context(call: &'static str) -> impl Fn(terrace::Error) -> String {
    move |error| format!("{call}: {error}")
}

fn lock_ignoring_poison<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
