//! Clients of servers with the Redis protocol. Their replies make a history.
//!
//! ```text
//!   client 0..7, each on its own connection:
//!     SET, GET, DEL of a key    MSET, MGET of all keys    MULTI with either, and EXEC
//!     MULTI GET .. SET .. EXEC and EVAL, which read keys and write one of them
//!     WATCH and MGET of all keys, MULTI SET EXEC
//! ```
//!
//! A command of several keys and an EXEC are single operations for the checker. The system chooses
//! the schedule; a seed repeats the commands only.
//!
//! A write whose reply is lost may take effect at any later time. The codes `TRYAGAIN` and
//! `CLUSTERDOWN` of front ends promise that nothing was written.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use terrace_testkit::rng::Rng;

use crate::checker::{Effect, Key, Operation, Value, Verdict, check_linearizable, project_to_key};

/// Number of clients.
pub const CLIENTS: u64 = 8;
/// Number of keys.
pub const KEYS: usize = 3;
/// Number of operations of a client. The search for an order of more of them takes too long.
const COMMANDS: u32 = 8;
/// Maximum number of steps of the search.
const STEP_BUDGET: usize = 2_000_000;
/// Maximum time of a reply, beyond every fault of the tests.
const REPLY_TIME: Duration = Duration::from_secs(150);
/// Pause before another connection.
const RECONNECT_PAUSE: Duration = Duration::from_millis(20);
/// Maximum number of connections for an operation.
const CONNECTIONS: u32 = 500;
/// Script that writes its first key and returns the earlier values of all keys.
const SCRIPT: &str =
    "local v = redis.call('MGET', unpack(KEYS)) redis.call('SET', KEYS[1], ARGV[1]) return v";

/// Operations of all clients.
#[derive(Debug, Default)]
pub struct Recorded {
    /// Operations with a result, and writes whose result is unknown.
    pub operations: Vec<Operation>,
    /// Number of writes whose connection was lost.
    pub lost: u64,
    /// Number of writes for which the server does not know the result.
    pub unknown: u64,
    /// Number of operations that the server refused without an effect.
    pub refused: u64,
    /// Number of EXEC that another client's write has stopped.
    pub conflicts: u64,
}

/// Result of the search for an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Certainty {
    /// One order explains all operations.
    Order,
    /// An order of each single key exists, or its search ended early. The search for one order of
    /// all keys ended early.
    OrderOfKeys,
}

/// Runs the clients on keys that begin with `prefix`. A client calls `address` with its number
/// before each connection.
///
/// # Errors
///
/// An unexpected reply, or a server that accepts no connection for ten seconds.
pub fn record(
    seed: u64,
    prefix: &str,
    address: &(impl Fn(u64) -> SocketAddr + Sync),
) -> Result<Recorded, String> {
    let clock = AtomicU64::new(0);
    let clients = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..CLIENTS)
            .map(|id| {
                let mut client = Client::new(id, prefix, address, &clock);
                scope.spawn(move || client.run(Rng::new(seed ^ id)).map(|()| client.recorded))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join()).collect::<Vec<_>>()
    });
    let mut all = Recorded::default();
    for recorded in clients {
        let recorded = recorded.map_err(|_| "a client panicked".to_owned())?;
        let recorded = recorded.map_err(|error| format!("a client failed: {error}"))?;
        all.operations.extend(recorded.operations);
        all.lost += recorded.lost;
        all.unknown += recorded.unknown;
        all.refused += recorded.refused;
        all.conflicts += recorded.conflicts;
    }
    let mut last = Client::new(0, prefix, address, &clock);
    last.read_all().map_err(|error| format!("the last read failed: {error}"))?;
    all.operations.extend(last.recorded.operations);
    Ok(all)
}

/// Checks the operations of [`record`].
///
/// # Errors
///
/// No order explains all results.
pub fn judge(history: &[Operation]) -> Result<Certainty, String> {
    let (verdict, certainty) = match check_linearizable(history, KEYS, STEP_BUDGET) {
        Verdict::Undecided => {
            let mut keys = (0..KEYS).map(|key| check_key(history, key));
            let wrong = keys.find(|verdict| matches!(verdict, Verdict::NotLinearizable(_)));
            (wrong.unwrap_or(Verdict::Linearizable), Certainty::OrderOfKeys)
        }
        verdict => (verdict, Certainty::Order),
    };
    match verdict {
        Verdict::NotLinearizable(reason) => Err(format!("not linearizable: {reason}")),
        _ => Ok(certainty),
    }
}

fn check_key(history: &[Operation], key: Key) -> Verdict {
    check_linearizable(&project_to_key(history, key), KEYS, STEP_BUDGET)
}

/// Client with its connection and its records.
struct Client<'a, A> {
    id: u64,
    prefix: &'a str,
    address: &'a A,
    clock: &'a AtomicU64,
    /// None before the first connection, and after a lost one.
    stream: Option<BufReader<TcpStream>>,
    recorded: Recorded,
}

/// Result of an operation.
enum Outcome {
    Done(Effect),
    /// EXEC has found a change of a watched key. The values were read before.
    Conflict(Effect),
    /// The server has refused the operation, which had no effect.
    Refused,
    /// The server does not know whether the write has taken effect.
    Unknown,
}

impl<'a, A: Fn(u64) -> SocketAddr> Client<'a, A> {
    fn new(id: u64, prefix: &'a str, address: &'a A, clock: &'a AtomicU64) -> Client<'a, A> {
        Client { id, prefix, address, clock, stream: None, recorded: Recorded::default() }
    }

    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    fn run(&mut self, mut rng: Rng) -> io::Result<()> {
        for number in 0..COMMANDS {
            let command = Command::draw(&mut rng, self.id as u32 * COMMANDS + number + 1);
            let form = Form::draw(&mut rng);
            self.connect()?;
            let invoked_at = self.tick();
            match self.call(&command, form) {
                Ok(outcome) => self.note(&command, form, invoked_at, outcome),
                Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(error),
                Err(_) => {
                    self.stream = None;
                    self.recorded.lost += u64::from(!command.writes().is_empty());
                    self.note_lost(&command, form, invoked_at);
                }
            }
        }
        Ok(())
    }

    /// Reads all keys, so that no acknowledged write at the end of the history is missing.
    fn read_all(&mut self) -> io::Result<()> {
        let command = Command::Read((0..KEYS).collect());
        while self.recorded.operations.is_empty() {
            self.connect()?;
            let invoked_at = self.tick();
            match self.call(&command, Form::Plain) {
                Ok(outcome) => self.note(&command, Form::Plain, invoked_at, outcome),
                Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(error),
                Err(_) => self.stream = None,
            }
        }
        Ok(())
    }

    fn connect(&mut self) -> io::Result<()> {
        for attempt in 0.. {
            if self.stream.is_some() {
                break;
            }
            match TcpStream::connect((self.address)(self.id)) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    stream.set_read_timeout(Some(REPLY_TIME))?;
                    self.stream = Some(BufReader::new(stream));
                }
                Err(error) if attempt == CONNECTIONS => return Err(io::Error::other(error)),
                Err(_) => std::thread::sleep(RECONNECT_PAUSE),
            }
        }
        Ok(())
    }

    fn note(&mut self, command: &Command, form: Form, invoked_at: u64, outcome: Outcome) {
        match outcome {
            Outcome::Done(effect) => {
                let returned_at = self.tick();
                self.push(command, form, invoked_at, returned_at, effect);
            }
            Outcome::Conflict(effect) => {
                self.recorded.conflicts += 1;
                let returned_at = self.tick();
                self.push(command, form, invoked_at, returned_at, effect);
            }
            Outcome::Refused => self.recorded.refused += 1,
            Outcome::Unknown => {
                self.recorded.unknown += 1;
                self.note_lost(command, form, invoked_at);
            }
        }
    }

    /// Records a write that may take effect at any later time. What it has read is unknown, too.
    fn note_lost(&mut self, command: &Command, form: Form, invoked_at: u64) {
        let writes = command.writes();
        if !writes.is_empty() {
            // Each such write ends at a time of its own.
            let returned_at = u64::MAX - self.tick();
            self.push(command, form, invoked_at, returned_at, Effect::Write(writes));
        }
    }

    fn push(&mut self, command: &Command, form: Form, invoked_at: u64, returned_at: u64, effect: Effect) {
        let name = format!("client {}: {form:?} {command:?}", self.id);
        let operation = Operation { name, invoked_at, returned_at, effect, after_values: Vec::new() };
        self.recorded.operations.push(operation);
    }

    /// Executes the command and returns its effect, with the values that it has read.
    fn call(&mut self, command: &Command, form: Form) -> io::Result<Outcome> {
        let mut replies = Replies::default();
        for lines in command.lines(form, self.prefix) {
            let text: Vec<u8> = lines.iter().flat_map(|words| encode(words)).collect();
            let stream = self.stream.as_mut().ok_or(io::ErrorKind::NotConnected)?;
            stream.get_mut().write_all(&text)?;
            for _ in &lines {
                replies.read(stream)?;
            }
            if let Some(error) = &replies.error {
                // The keys of WATCH end with the connection.
                self.stream = None;
                return outcome_of_error(error);
            }
        }
        let keys = command.reads();
        if replies.values.len() != keys.len() {
            return Err(unexpected(&format!("{:?} for {command:?}", replies.values)));
        }
        let reads: Vec<(Key, Value)> = keys.into_iter().zip(replies.values).collect();
        if replies.is_stopped {
            return Ok(Outcome::Conflict(Effect::Read(reads)));
        }
        Ok(Outcome::Done(match (reads.is_empty(), command.writes()) {
            (true, writes) => Effect::Write(writes),
            (false, writes) if writes.is_empty() => Effect::Read(reads),
            (false, writes) => Effect::Update { reads, writes },
        }))
    }
}

fn outcome_of_error(error: &str) -> io::Result<Outcome> {
    match error.split_once(' ').map_or(error, |(code, _)| code) {
        "TRYAGAIN" | "CLUSTERDOWN" => Ok(Outcome::Refused),
        "COMMITUNKNOWN" => Ok(Outcome::Unknown),
        _ => Err(unexpected(error)),
    }
}

/// Error that ends the test.
fn unexpected(reply: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("unexpected reply: {reply}"))
}

fn encode(words: &[String]) -> Vec<u8> {
    let mut text = format!("*{}\r\n", words.len());
    for word in words {
        text += &format!("${}\r\n{word}\r\n", word.len());
    }
    text.into_bytes()
}

/// Replies of one operation.
#[derive(Default)]
struct Replies {
    /// Strings and nulls, each a number or none.
    values: Vec<Value>,
    /// Text of the first error.
    error: Option<String>,
    /// Whether an EXEC has executed nothing.
    is_stopped: bool,
}

impl Replies {
    fn read(&mut self, stream: &mut BufReader<TcpStream>) -> io::Result<()> {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        if !line.ends_with('\n') {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let text = line.get(1..).unwrap_or_default().trim_end();
        let number: i64 = text.parse().unwrap_or(-1);
        match line.as_bytes().first() {
            Some(b'+' | b':') => Ok(()),
            Some(b'-') => {
                self.error.get_or_insert(text.to_owned());
                Ok(())
            }
            Some(b'$') if number < 0 => {
                self.values.push(None);
                Ok(())
            }
            Some(b'$') => {
                let mut bytes = vec![0; number as usize + 2];
                stream.read_exact(&mut bytes)?;
                let text = String::from_utf8_lossy(&bytes);
                let value = text.trim_end().parse().map_err(|_| unexpected(&line))?;
                self.values.push(Some(value));
                Ok(())
            }
            Some(b'*') if number < 0 => {
                self.is_stopped = true;
                Ok(())
            }
            Some(b'*') => (0..number).try_for_each(|_| self.read(stream)),
            _ => Err(unexpected(&line)),
        }
    }
}

/// Operation of a client.
#[derive(Debug)]
enum Command {
    /// Puts, and deletions of values without a number.
    Put(Vec<(Key, Value)>),
    Read(Vec<Key>),
    /// Reads all keys, the given one first, and puts a value into the given one.
    Update(Key, u32),
}

/// Form of the commands of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// One command, and a script for an update.
    Plain,
    Multi,
    /// WATCH, reads and MULTI for an update. The other operations are plain.
    Watch,
}

impl Form {
    fn draw(rng: &mut Rng) -> Form {
        [Form::Plain, Form::Multi, Form::Watch][rng.below(3) as usize]
    }
}

/// Words of a command.
type Words = Vec<String>;

impl Command {
    fn draw(rng: &mut Rng, value: u32) -> Command {
        let key = rng.below(KEYS as u64) as Key;
        match rng.below(8) {
            0 | 1 => Command::Put(vec![(key, Some(value))]),
            2 => Command::Put(vec![(key, None)]),
            3 => Command::Put((0..KEYS).map(|key| (key, Some(value))).collect()),
            4 => Command::Read(vec![key]),
            5 => Command::Read((0..KEYS).collect()),
            _ => Command::Update(key, value),
        }
    }

    fn writes(&self) -> Vec<(Key, Value)> {
        match self {
            Command::Put(pairs) => pairs.clone(),
            Command::Read(_) => Vec::new(),
            Command::Update(key, value) => vec![(*key, Some(*value))],
        }
    }

    /// Keys in the order of their values in the replies.
    fn reads(&self) -> Vec<Key> {
        match self {
            Command::Put(_) => Vec::new(),
            Command::Read(keys) => keys.clone(),
            Command::Update(first, _) => (0..KEYS).map(|at| (first + at) % KEYS).collect(),
        }
    }

    /// Commands in steps. A step begins after the replies to the one before.
    fn lines(&self, form: Form, prefix: &str) -> Vec<Vec<Words>> {
        let name = |key: &Key| format!("{prefix}k{key}");
        let set = |(key, value): &(Key, Value)| match value {
            Some(value) => vec!["SET".to_owned(), name(key), value.to_string()],
            None => vec!["DEL".to_owned(), name(key)],
        };
        let reads = self.reads();
        let writes = self.writes();
        let mget = || [vec!["MGET".to_owned()], reads.iter().map(name).collect()].concat();
        let word = |text: &str| vec![text.to_owned()];
        // In an EXEC, each key has a command of its own.
        let gets = reads.iter().map(|key| vec!["GET".to_owned(), name(key)]);
        match (self, form) {
            (_, Form::Multi) => {
                let body = gets.chain(writes.iter().map(set));
                vec![[word("MULTI")].into_iter().chain(body).chain([word("EXEC")]).collect()]
            }
            (Command::Update(..), Form::Watch) => {
                let watch = [word("WATCH"), reads.iter().map(name).collect()].concat();
                let exec = [word("MULTI")].into_iter().chain(writes.iter().map(set)).chain([word("EXEC")]);
                vec![vec![watch, mget()], exec.collect()]
            }
            (Command::Update(_, value), Form::Plain) => {
                let script = [word("EVAL"), word(SCRIPT), word(&KEYS.to_string())].concat();
                vec![vec![[script, reads.iter().map(name).collect(), word(&value.to_string())].concat()]]
            }
            (Command::Put(pairs), _) if pairs.len() > 1 => {
                let words = pairs.iter().flat_map(|(key, value)| [name(key), value.unwrap_or(0).to_string()]);
                vec![vec![[word("MSET"), words.collect()].concat()]]
            }
            (Command::Put(pairs), _) => vec![pairs.iter().map(set).collect()],
            (Command::Read(keys), _) if keys.len() == 1 => vec![gets.collect()],
            (Command::Read(_), _) => vec![vec![mget()]],
        }
    }
}
