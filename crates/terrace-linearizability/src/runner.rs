//! Plays a scenario on a database of its own, and has what was seen judged.
//!
//! Besides the judge's verdict: no call fails, a snapshot or an iterator shows the same whenever it is read, every
//! operation has taken one sequence number and none is left out, and the database holds the same when it is opened again.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use terrace::{
    BloomFilterPolicy, Db, DbIterator, Env, Options, ReadOptions, Snapshot, WriteBatch, WriteOptions,
};
use terrace_env::fault::{FaultFs, FaultPlan};
use terrace_env::mem::MemFs;
use terrace_env::posix::PosixFs;
use terrace_env::{FileSystem, ManualClock, SeededRandom, ThreadPool};
use terrace_sync::{Arc, thread};

use crate::checker::{self, Effect, Key, Operation, Value, Verdict};
use crate::scenario::{Action, Scenario};

/// Steps that the judge may take for a history.
const CHECKER_STEP_BUDGET: usize = 200_000;

/// What one play came to.
#[derive(Debug, Default, Clone, Copy)]
pub struct ScenarioOutcome {
    /// Operations that were judged.
    pub operations: usize,
    /// A number made of all they saw, and in which order: equal for equal schedules.
    pub digest: u64,
    /// True if the whole was too much for the judge, and he judged key by key.
    pub checked_per_key: bool,
}

/// Plays `scenario`. The error says what was seen and can't be.
pub fn run_scenario(scenario: &Scenario) -> Result<ScenarioOutcome, String> {
    let stage = ScenarioContext::new(scenario)?;
    let mut history = stage.run_clients(scenario)?;
    history.sort_by_key(|operation| operation.invoked_at);
    Ok(ScenarioOutcome {
        operations: history.len(),
        digest: history_digest(&history),
        checked_per_key: !check_history(&history, scenario.key_count)?,
    })
}

/// Judges the whole history; if that is too much, each key by itself, and says false.
fn check_history(history: &[Operation], keys: usize) -> Result<bool, String> {
    let tell = |what: String, history: &[Operation]| {
        let lines = history.iter().map(Operation::to_string).collect::<Vec<_>>().join("\n");
        Err(format!("{what}\nThe history:\n{lines}"))
    };
    match checker::check_linearizable(history, keys, CHECKER_STEP_BUDGET) {
        Verdict::Linearizable => return Ok(true),
        Verdict::NotLinearizable(what) => return tell(what, history),
        Verdict::Undecided => {}
    }
    for key in 0..keys {
        let part = checker::project_to_key(history, key);
        if let Verdict::NotLinearizable(what) = checker::check_linearizable(&part, keys, CHECKER_STEP_BUDGET)
        {
            return tell(what, &part);
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

/// Where it is played: files, options, the clock of the record.
struct ScenarioContext {
    env: Env,
    mem: Arc<MemFs>,
    path: PathBuf,
    options: Options,
    key_count: usize,
    /// Not the engine's, and no part of a schedule.
    logical_clock: AtomicU64,
    /// The first values of the writes that were acknowledged as synced.
    synced_values: Mutex<Vec<u32>>,
    /// Operations of all writes that returned.
    operations_written: AtomicU64,
    /// True once a range was deleted, which takes as many numbers as it needs.
    range_deleted: AtomicBool,
    /// Removed when all is over.
    _directory: Option<tempfile::TempDir>,
}

/// What an actor has to show.
#[derive(Default)]
struct ClientRecord {
    history: Vec<Operation>,
    /// What power cuts would have left, to be opened later.
    crash_images: Vec<(Operation, MemFs)>,
}

impl ScenarioContext {
    fn new(scenario: &Scenario) -> Result<Arc<ScenarioContext>, String> {
        let mem = Arc::new(MemFs::new());
        let directory =
            scenario.on_real_files.then(tempfile::tempdir).transpose().map_err(|e| e.to_string())?;
        let fs: Arc<dyn FileSystem> = match &directory {
            Some(_) => Arc::new(PosixFs::new()),
            // Under a model checker each call is a point at which another thread may go on.
            None if cfg!(feature = "shuttle") => Arc::new(FaultFs::new(mem.clone(), FaultPlan::default())),
            None => mem.clone(),
        };
        let path = directory.as_ref().map_or("/db".into(), |directory| directory.path().join("db"));
        let env = scenario_env(fs);
        let options = Options {
            create_if_missing: true,
            env: env.clone(),
            write_buffer_size: Some(1),
            reuse_logs: scenario.reuse_logs,
            filter_policy: (scenario.bloom_bits > 0)
                .then(|| Arc::new(BloomFilterPolicy::new(scenario.bloom_bits)) as _),
            ..Options::default()
        };
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

    /// The history of all that happens, the next opening included.
    fn run_clients(self: &Arc<Self>, scenario: &Scenario) -> Result<Vec<Operation>, String> {
        let db = Db::open(&self.path, &self.options).map_err(error_context("open"))?;
        let mut first = Client::new(self, "before", db.clone());
        scenario.setup.iter().try_for_each(|action| first.execute(action))?;
        let mut records = vec![first.finish()?];
        let actors = scenario.clients.iter().enumerate().map(|(number, actions)| {
            let (mut actor, actions) =
                (Client::new(self, &format!("actor {number}"), db.clone()), actions.clone());
            thread::spawn(move || {
                actions.iter().try_for_each(|action| actor.execute(action))?;
                actor.finish()
            })
        });
        let actors: Vec<_> = actors.collect();
        let db = (!scenario.last_client_closes).then_some(db);
        for actor in actors {
            records.push(actor.join().map_err(|_| "an actor panicked")??);
        }
        if let Some(db) = db {
            self.check_sequence_number(&db, "before closing")?;
            db.close().map_err(error_context("close"))?;
        }
        self.reopen_and_collect(records)
    }

    /// Opens what there is now, and what power cuts would have left.
    fn reopen_and_collect(&self, records: Vec<ClientRecord>) -> Result<Vec<Operation>, String> {
        let mut history = Vec::new();
        for ClientRecord { history: part, crash_images: images } in records {
            history.extend(part);
            for (mut cut, image) in images {
                let env = Env { fs: Arc::new(image), ..self.env.clone() };
                let options = Options { env, ..self.options.clone() };
                let db = Db::open(&self.path, &options).map_err(error_context("open after a power cut"))?;
                cut.effect = Effect::PowerCutState(self.read_all(&db, &ReadOptions::default())?);
                db.close().map_err(error_context("close after a power cut"))?;
                history.push(cut);
            }
        }
        let from = self.next_timestamp();
        let db = Db::open(&self.path, &self.options).map_err(error_context("open again"))?;
        self.check_sequence_number(&db, "opened again")?;
        let saw = Effect::Read(self.read_all(&db, &ReadOptions::default())?);
        history.push(Operation {
            name: "opened again".into(),
            invoked_at: from,
            returned_at: self.next_timestamp(),
            effect: saw,
            after_values: vec![],
        });
        db.close().map_err(error_context("close again"))?;
        Ok(history)
    }

    fn next_timestamp(&self) -> u64 {
        self.logical_clock.fetch_add(1, Ordering::SeqCst)
    }

    /// Every operation took one sequence number, and nothing else did.
    fn check_sequence_number(&self, db: &Db, when: &str) -> Result<(), String> {
        let (found, expect) = (db.snapshot().sequence(), self.operations_written.load(Ordering::SeqCst));
        let wrong = || format!("{when}: the last sequence number is {found} after {expect} operations");
        let more = self.range_deleted.load(Ordering::SeqCst) && found > expect;
        (found == expect || more).then_some(()).ok_or_else(wrong)
    }

    /// Every key and its value, by a look-up of each and by a walk, which must agree if they read the same moment.
    fn read_all(&self, db: &Db, options: &ReadOptions) -> Result<Vec<(Key, Value)>, String> {
        let walked = scan(&mut db.iter_with(options), self.key_count, false)?;
        for &(key, value) in &walked {
            let got =
                parse_value(db.get_with(&key_bytes(key), options).map_err(error_context("get"))?.as_deref())?;
            if got != value {
                return Err(format!(
                    "key {key}: a walk shows {value:?}, a look-up {got:?}, at the same moment"
                ));
            }
        }
        Ok(walked)
    }
}

/// Files, a clock that stands still, and threads of its own, which end with it.
fn scenario_env(fs: Arc<dyn FileSystem>) -> Env {
    Env {
        fs,
        clock: Arc::new(ManualClock::default()),
        scheduler: Arc::new(ThreadPool::new(2, 1)),
        random: Arc::new(SeededRandom::new(0)),
    }
}

/// One thread's part.
struct Client {
    context: Arc<ScenarioContext>,
    name: String,
    db: Db,
    record: ClientRecord,
    snapshot: Option<HeldReader<Snapshot>>,
    iterator: Option<HeldReader<DbIterator>>,
}

/// Something that shows one moment, and what it showed when it was first read.
struct HeldReader<T> {
    reader: T,
    /// Between these times the moment was.
    invoked_at: u64,
    returned_at: u64,
    first_read: Option<Vec<(Key, Value)>>,
}

impl Client {
    fn new(stage: &Arc<ScenarioContext>, name: &str, db: Db) -> Client {
        let (stage, name) = (Arc::clone(stage), name.to_owned());
        Client { context: stage, name, db, record: ClientRecord::default(), snapshot: None, iterator: None }
    }

    fn execute(&mut self, action: &Action) -> Result<(), String> {
        match action {
            Action::Write { values, length, sync } => self.write(values, *length, *sync),
            Action::Get(key) => self.get(*key),
            Action::Scan { backward } => {
                let mut held = self.acquire(|db| db.iter());
                let saw = scan(&mut held.reader, self.context.key_count, *backward)?;
                self.record_operation("walk", held.invoked_at, held.returned_at, Effect::Read(saw));
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
                self.iterator = Some(self.acquire(|db| db.iter()));
                Ok(())
            }
            Action::RescanIterator { backward } => self.rescan_iterator(*backward),
            Action::Flush => self.db.flush().map_err(error_context("flush")),
            Action::CompactRange(range) => {
                let (begin, end) = range.map(|(a, b)| (key_bytes(a), key_bytes(b))).unzip();
                self.db.compact_range(begin.as_deref(), end.as_deref()).map_err(error_context("compact"))
            }
            Action::DeleteRange(from, to) => self.delete_range(*from, *to),
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

    /// Reads what is still held, and gives up the database, which an iterator keeps a little longer.
    fn finish(mut self) -> Result<ClientRecord, String> {
        self.reread_snapshot()?;
        self.rescan_iterator(true)?;
        Ok(self.record)
    }

    fn acquire<T>(&self, make: impl FnOnce(&Db) -> T) -> HeldReader<T> {
        let from = self.context.next_timestamp();
        let what = make(&self.db);
        HeldReader {
            reader: what,
            invoked_at: from,
            returned_at: self.context.next_timestamp(),
            first_read: None,
        }
    }

    fn record_operation(&mut self, verb: &str, from: u64, to: u64, what: Effect) {
        let name = format!("{}: {verb}", self.name);
        self.record.history.push(Operation {
            name,
            invoked_at: from,
            returned_at: to,
            effect: what,
            after_values: vec![],
        });
    }

    fn write(&mut self, values: &[(Key, Value)], length: usize, sync: bool) -> Result<(), String> {
        let mut batch = WriteBatch::new();
        for &(key, value) in values {
            match value {
                Some(number) => batch.put(&key_bytes(key), &value_bytes(number, length)),
                None => batch.delete(&key_bytes(key)),
            }
        }
        let from = self.context.next_timestamp();
        self.db.write_with(&batch, &WriteOptions { sync }).map_err(error_context("write"))?;
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

    /// Each key goes at a moment of its own. Where others write the same keys, each may go several times: key by key in
    /// each of three attempts to take tables out, and once more in the end, by itself or with its table.
    fn delete_range(&mut self, from: Key, to: Key) -> Result<(), String> {
        const TIMES: usize = 4;
        let keys: Vec<Key> = (from..to.min(self.context.key_count)).flat_map(|key| [key; TIMES]).collect();
        let began: Vec<u64> = keys.iter().map(|_| self.context.next_timestamp()).collect();
        self.db
            .delete_range(Some(&key_bytes(from)), Some(&key_bytes(to)))
            .map_err(error_context("delete a range"))?;
        self.context.range_deleted.store(true, Ordering::SeqCst);
        for (key, from) in keys.into_iter().zip(began) {
            let to = self.context.next_timestamp();
            self.record_operation("delete of a range", from, to, Effect::RangeDelete(vec![(key, None)]));
        }
        Ok(())
    }

    fn get(&mut self, key: Key) -> Result<(), String> {
        let held = self.acquire(|db| db.get(&key_bytes(key)));
        let value = parse_value(held.reader.map_err(error_context("get"))?.as_deref())?;
        self.record_operation("get", held.invoked_at, held.returned_at, Effect::Read(vec![(key, value)]));
        Ok(())
    }

    fn reread_snapshot(&mut self) -> Result<(), String> {
        let Some(mut held) = self.snapshot.take() else { return Ok(()) };
        let options = ReadOptions { snapshot: Some(held.reader.clone()), ..ReadOptions::default() };
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

    /// It leaves a state behind every write that was acknowledged as synced.
    fn simulate_power_cut(&mut self, profile: &terrace_env::mem::PowerLossProfile, seed: u64) {
        let behind = lock_ignoring_poison(&self.context.synced_values).clone();
        let image = self.context.mem.crash_clone(&profile.crash_with_seed(seed));
        let name = format!("{}: power cut, {}", self.name, profile.name);
        let (from, to, what) = (0, self.context.next_timestamp(), Effect::PowerCutState(Vec::new()));
        self.record.crash_images.push((
            Operation { name, invoked_at: from, returned_at: to, effect: what, after_values: behind },
            image,
        ));
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
            return Err(format!("a walk came to key {key} behind key {last:?}"));
        }
        last = Some(key);
        shows[key].1 = parse_value(Some(iterator.value()))?;
        if backward { iterator.prev() } else { iterator.next() }
    }
    iterator.status().map_err(error_context("walk"))?;
    Ok(shows)
}

fn key_bytes(key: Key) -> Vec<u8> {
    vec![b'k', b'0' + key as u8]
}

fn parse_key(name: &[u8]) -> Result<Key, String> {
    match name {
        [b'k', digit @ b'0'..=b'9'] => Ok(usize::from(digit - b'0')),
        _ => Err(format!("a key that nobody wrote: {}", name.escape_ascii())),
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
            "a value that nobody wrote, of {} bytes: {}...",
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
