//! Plays a scenario on a database of its own, and has what was seen judged.
//!
//! Besides the judge's verdict: no call fails, a snapshot or an iterator shows the same whenever it is read, every
//! operation has taken one sequence number and none is left out, and the database holds the same when it is opened again.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use terrace::{Bloom, Db, DbIterator, Env, Options, ReadOptions, Snapshot, WriteBatch, WriteOptions};
use terrace_env::fault::{FaultFs, Plan};
use terrace_env::mem::MemFs;
use terrace_env::posix::PosixFs;
use terrace_env::{FileSystem, ManualClock, Pool, SeededRandom};
use terrace_sync::{Arc, thread};

use crate::judge::{self, Key, Operation, Value, Verdict, What};
use crate::scenario::{Action, Scenario};

/// Steps that the judge may take for a history.
const PATIENCE: usize = 200_000;

/// What one play came to.
#[derive(Debug, Default, Clone, Copy)]
pub struct Played {
    /// Operations that were judged.
    pub operations: usize,
    /// A number made of all they saw, and in which order: equal for equal schedules.
    pub digest: u64,
    /// True if the whole was too much for the judge, and he judged key by key.
    pub by_key: bool,
}

/// Plays `scenario`. The error says what was seen and can't be.
pub fn play(scenario: &Scenario) -> Result<Played, String> {
    let stage = Stage::new(scenario)?;
    let mut history = stage.run(scenario)?;
    history.sort_by_key(|operation| operation.from);
    Ok(Played {
        operations: history.len(),
        digest: digest(&history),
        by_key: !whole(&history, scenario.keys)?,
    })
}

/// Judges the whole history; if that is too much, each key by itself, and says false.
fn whole(history: &[Operation], keys: usize) -> Result<bool, String> {
    let tell = |what: String, history: &[Operation]| {
        let lines = history.iter().map(Operation::to_string).collect::<Vec<_>>().join("\n");
        Err(format!("{what}\nThe history:\n{lines}"))
    };
    match judge::judge(history, keys, PATIENCE) {
        Verdict::Fits => return Ok(true),
        Verdict::Never(what) => return tell(what, history),
        Verdict::TooMany => {}
    }
    for key in 0..keys {
        let part = judge::of_key(history, key);
        if let Verdict::Never(what) = judge::judge(&part, keys, PATIENCE) {
            return tell(what, &part);
        }
    }
    Ok(false)
}

fn digest(history: &[Operation]) -> u64 {
    history
        .iter()
        .flat_map(|operation| operation.to_string().into_bytes())
        .fold(0, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(5))
}

/// Where it is played: files, options, the clock of the record.
struct Stage {
    env: Env,
    mem: Arc<MemFs>,
    path: PathBuf,
    options: Options,
    keys: usize,
    /// Not the engine's, and no part of a schedule.
    time: AtomicU64,
    /// The first values of the writes that were acknowledged as synced.
    synced: Mutex<Vec<u32>>,
    /// Operations of all writes that returned.
    written: AtomicU64,
    /// True once a range was deleted, which takes as many numbers as it needs.
    erased: AtomicBool,
    /// Removed when all is over.
    _directory: Option<tempfile::TempDir>,
}

/// What an actor has to show.
#[derive(Default)]
struct Record {
    history: Vec<Operation>,
    /// What power cuts would have left, to be opened later.
    images: Vec<(Operation, MemFs)>,
}

impl Stage {
    fn new(scenario: &Scenario) -> Result<Arc<Stage>, String> {
        let mem = Arc::new(MemFs::new());
        let directory = scenario.files.then(tempfile::tempdir).transpose().map_err(|e| e.to_string())?;
        let fs: Arc<dyn FileSystem> = match &directory {
            Some(_) => Arc::new(PosixFs::new()),
            // Under a model checker each call is a point at which another thread may go on.
            None if cfg!(feature = "shuttle") => Arc::new(FaultFs::new(mem.clone(), Plan::default())),
            None => mem.clone(),
        };
        let path = directory.as_ref().map_or("/db".into(), |directory| directory.path().join("db"));
        let env = env(fs);
        let options = Options {
            create_if_missing: true,
            env: env.clone(),
            write_buffer_size: Some(1),
            reuse_logs: scenario.reuse_logs,
            filter_policy: (scenario.bloom_bits > 0).then(|| Arc::new(Bloom::new(scenario.bloom_bits)) as _),
            ..Options::default()
        };
        Ok(Arc::new(Stage {
            env,
            mem,
            path,
            options,
            keys: scenario.keys,
            time: AtomicU64::new(1),
            synced: Mutex::default(),
            written: AtomicU64::new(0),
            erased: AtomicBool::new(false),
            _directory: directory,
        }))
    }

    /// The history of all that happens, the next opening included.
    fn run(self: &Arc<Self>, scenario: &Scenario) -> Result<Vec<Operation>, String> {
        let db = Db::open(&self.path, &self.options).map_err(said("open"))?;
        let mut first = Actor::new(self, "before", db.clone());
        scenario.before.iter().try_for_each(|action| first.act(action))?;
        let mut records = vec![first.end()?];
        let actors = scenario.actors.iter().enumerate().map(|(number, actions)| {
            let (mut actor, actions) =
                (Actor::new(self, &format!("actor {number}"), db.clone()), actions.clone());
            thread::spawn(move || {
                actions.iter().try_for_each(|action| actor.act(action))?;
                actor.end()
            })
        });
        let actors: Vec<_> = actors.collect();
        let db = (!scenario.last_closes).then_some(db);
        for actor in actors {
            records.push(actor.join().map_err(|_| "an actor panicked")??);
        }
        if let Some(db) = db {
            self.check_sequence(&db, "before closing")?;
            db.close().map_err(said("close"))?;
        }
        self.afterwards(records)
    }

    /// Opens what there is now, and what power cuts would have left.
    fn afterwards(&self, records: Vec<Record>) -> Result<Vec<Operation>, String> {
        let mut history = Vec::new();
        for Record { history: part, images } in records {
            history.extend(part);
            for (mut cut, image) in images {
                let env = Env { fs: Arc::new(image), ..self.env.clone() };
                let options = Options { env, ..self.options.clone() };
                let db = Db::open(&self.path, &options).map_err(said("open after a power cut"))?;
                cut.what = What::Left(self.read(&db, &ReadOptions::default())?);
                db.close().map_err(said("close after a power cut"))?;
                history.push(cut);
            }
        }
        let from = self.now();
        let db = Db::open(&self.path, &self.options).map_err(said("open again"))?;
        self.check_sequence(&db, "opened again")?;
        let saw = What::Saw(self.read(&db, &ReadOptions::default())?);
        history.push(Operation {
            name: "opened again".into(),
            from,
            to: self.now(),
            what: saw,
            behind: vec![],
        });
        db.close().map_err(said("close again"))?;
        Ok(history)
    }

    fn now(&self) -> u64 {
        self.time.fetch_add(1, Ordering::SeqCst)
    }

    /// Every operation took one sequence number, and nothing else did.
    fn check_sequence(&self, db: &Db, when: &str) -> Result<(), String> {
        let (found, expect) = (db.snapshot().sequence(), self.written.load(Ordering::SeqCst));
        let wrong = || format!("{when}: the last sequence number is {found} after {expect} operations");
        let more = self.erased.load(Ordering::SeqCst) && found > expect;
        (found == expect || more).then_some(()).ok_or_else(wrong)
    }

    /// Every key and its value, by a look-up of each and by a walk, which must agree if they read the same moment.
    fn read(&self, db: &Db, options: &ReadOptions) -> Result<Vec<(Key, Value)>, String> {
        let walked = walk(&mut db.iter_with(options), self.keys, false)?;
        for &(key, value) in &walked {
            let got = value_of(db.get_with(&name_of(key), options).map_err(said("get"))?.as_deref())?;
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
fn env(fs: Arc<dyn FileSystem>) -> Env {
    Env {
        fs,
        clock: Arc::new(ManualClock::default()),
        scheduler: Arc::new(Pool::new(2, 1)),
        random: Arc::new(SeededRandom::new(0)),
    }
}

/// One thread's part.
struct Actor {
    stage: Arc<Stage>,
    name: String,
    db: Db,
    record: Record,
    snapshot: Option<Held<Snapshot>>,
    iterator: Option<Held<DbIterator>>,
}

/// Something that shows one moment, and what it showed when it was first read.
struct Held<T> {
    what: T,
    /// Between these times the moment was.
    from: u64,
    to: u64,
    showed: Option<Vec<(Key, Value)>>,
}

impl Actor {
    fn new(stage: &Arc<Stage>, name: &str, db: Db) -> Actor {
        let (stage, name) = (Arc::clone(stage), name.to_owned());
        Actor { stage, name, db, record: Record::default(), snapshot: None, iterator: None }
    }

    fn act(&mut self, action: &Action) -> Result<(), String> {
        match action {
            Action::Write { values, length, sync } => self.write(values, *length, *sync),
            Action::Get(key) => self.get(*key),
            Action::Scan { backward } => {
                let mut held = self.hold(|db| db.iter());
                let saw = walk(&mut held.what, self.stage.keys, *backward)?;
                self.note("walk", held.from, held.to, What::Saw(saw));
                Ok(())
            }
            Action::Take => {
                self.look()?;
                self.snapshot = Some(self.hold(Db::snapshot));
                Ok(())
            }
            Action::Look => self.look(),
            Action::Open => {
                self.walk(false)?;
                self.iterator = Some(self.hold(|db| db.iter()));
                Ok(())
            }
            Action::Walk { backward } => self.walk(*backward),
            Action::Flush => self.db.flush().map_err(said("flush")),
            Action::Compact(range) => {
                let (begin, end) = range.map(|(a, b)| (name_of(a), name_of(b))).unzip();
                self.db.compact_range(begin.as_deref(), end.as_deref()).map_err(said("compact"))
            }
            Action::Erase(from, to) => self.erase(*from, *to),
            Action::Ask => {
                self.db.property("leveldb.stats");
                self.db.approximate_sizes(&[(b"", b"z")]).map(drop).map_err(said("sizes"))
            }
            Action::PowerCut { profile, seed } => {
                self.power_cut(profile, *seed);
                Ok(())
            }
        }
    }

    /// Reads what is still held, and gives up the database, which an iterator keeps a little longer.
    fn end(mut self) -> Result<Record, String> {
        self.look()?;
        self.walk(true)?;
        Ok(self.record)
    }

    fn hold<T>(&self, make: impl FnOnce(&Db) -> T) -> Held<T> {
        let from = self.stage.now();
        let what = make(&self.db);
        Held { what, from, to: self.stage.now(), showed: None }
    }

    fn note(&mut self, verb: &str, from: u64, to: u64, what: What) {
        let name = format!("{}: {verb}", self.name);
        self.record.history.push(Operation { name, from, to, what, behind: vec![] });
    }

    fn write(&mut self, values: &[(Key, Value)], length: usize, sync: bool) -> Result<(), String> {
        let mut batch = WriteBatch::new();
        for &(key, value) in values {
            match value {
                Some(number) => batch.put(&name_of(key), &bytes_of(number, length)),
                None => batch.delete(&name_of(key)),
            }
        }
        let from = self.stage.now();
        self.db.write_with(&batch, &WriteOptions { sync }).map_err(said("write"))?;
        let to = self.stage.now();
        self.stage.written.fetch_add(values.len() as u64, Ordering::SeqCst);
        if let Some(first) = values.iter().find_map(|(_, value)| *value).filter(|_| sync) {
            locked(&self.stage.synced).push(first);
        }
        self.note(if sync { "sync write" } else { "write" }, from, to, What::Put(values.to_vec()));
        Ok(())
    }

    /// Each key goes at a moment of its own. Where others write the same keys, each may go several times: key by key in
    /// each of three attempts to take tables out, and once more in the end, by itself or with its table.
    fn erase(&mut self, from: Key, to: Key) -> Result<(), String> {
        const TIMES: usize = 4;
        let keys: Vec<Key> = (from..to.min(self.stage.keys)).flat_map(|key| [key; TIMES]).collect();
        let began: Vec<u64> = keys.iter().map(|_| self.stage.now()).collect();
        self.db.delete_range(Some(&name_of(from)), Some(&name_of(to))).map_err(said("delete a range"))?;
        self.stage.erased.store(true, Ordering::SeqCst);
        for (key, from) in keys.into_iter().zip(began) {
            let to = self.stage.now();
            self.note("delete of a range", from, to, What::Erased(vec![(key, None)]));
        }
        Ok(())
    }

    fn get(&mut self, key: Key) -> Result<(), String> {
        let held = self.hold(|db| db.get(&name_of(key)));
        let value = value_of(held.what.map_err(said("get"))?.as_deref())?;
        self.note("get", held.from, held.to, What::Saw(vec![(key, value)]));
        Ok(())
    }

    fn look(&mut self) -> Result<(), String> {
        let Some(mut held) = self.snapshot.take() else { return Ok(()) };
        let options = ReadOptions { snapshot: Some(held.what.clone()), ..ReadOptions::default() };
        let shows = self.stage.read(&self.db, &options)?;
        self.compare("snapshot", &mut held, shows)?;
        self.snapshot = Some(held);
        Ok(())
    }

    fn walk(&mut self, backward: bool) -> Result<(), String> {
        let Some(mut held) = self.iterator.take() else { return Ok(()) };
        let shows = walk(&mut held.what, self.stage.keys, backward)?;
        self.compare("iterator", &mut held, shows)?;
        self.iterator = Some(held);
        Ok(())
    }

    fn compare<T>(&mut self, kind: &str, held: &mut Held<T>, shows: Vec<(Key, Value)>) -> Result<(), String> {
        match &held.showed {
            Some(showed) if *showed != shows => {
                return Err(format!("{}: the {kind} showed {showed:?} and then {shows:?}", self.name));
            }
            Some(_) => {}
            None => self.note(kind, held.from, held.to, What::Saw(shows.clone())),
        }
        held.showed = Some(shows);
        Ok(())
    }

    /// It leaves a state behind every write that was acknowledged as synced.
    fn power_cut(&mut self, profile: &terrace_env::mem::Profile, seed: u64) {
        let behind = locked(&self.stage.synced).clone();
        let image = self.stage.mem.crash(&profile.with_seed(seed));
        let name = format!("{}: power cut, {}", self.name, profile.name);
        let (from, to, what) = (0, self.stage.now(), What::Left(Vec::new()));
        self.record.images.push((Operation { name, from, to, what, behind }, image));
    }
}

fn walk(iterator: &mut DbIterator, keys: usize, backward: bool) -> Result<Vec<(Key, Value)>, String> {
    let mut shows: Vec<(Key, Value)> = (0..keys).map(|key| (key, None)).collect();
    let mut last = None;
    if backward {
        iterator.seek_to_last()
    } else {
        iterator.seek_to_first()
    }
    while iterator.valid() {
        let key = key_of(iterator.key())?;
        if last.is_some_and(|last| if backward { last <= key } else { last >= key }) {
            return Err(format!("a walk came to key {key} behind key {last:?}"));
        }
        last = Some(key);
        shows[key].1 = value_of(Some(iterator.value()))?;
        if backward { iterator.prev() } else { iterator.next() }
    }
    iterator.status().map_err(said("walk"))?;
    Ok(shows)
}

fn name_of(key: Key) -> Vec<u8> {
    vec![b'k', b'0' + key as u8]
}

fn key_of(name: &[u8]) -> Result<Key, String> {
    match name {
        [b'k', digit @ b'0'..=b'9'] => Ok(usize::from(digit - b'0')),
        _ => Err(format!("a key that nobody wrote: {}", name.escape_ascii())),
    }
}

fn bytes_of(number: u32, length: usize) -> Vec<u8> {
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.resize(length, number as u8);
    bytes
}

fn value_of(bytes: Option<&[u8]>) -> Result<Value, String> {
    let Some(bytes) = bytes else { return Ok(None) };
    let number = bytes.first_chunk().map(|first| u32::from_le_bytes(*first));
    number.filter(|number| *bytes == bytes_of(*number, bytes.len())).map(Some).ok_or_else(|| {
        format!(
            "a value that nobody wrote, of {} bytes: {}...",
            bytes.len(),
            bytes[..bytes.len().min(12)].escape_ascii()
        )
    })
}

fn said(call: &'static str) -> impl Fn(terrace::Error) -> String {
    move |error| format!("{call}: {error}")
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
