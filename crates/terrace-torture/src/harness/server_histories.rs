//! Eight clients of `terrace serve`. The checker judges the recorded history of their replies.
//!
//! ```text
//!   client 0..7, each on its own connection:
//!     SET, GET, DEL of a key    MSET, MGET of all keys    MULTI with either, and EXEC
//! ```
//!
//! A command of several keys and a MULTI are single operations for the checker. The system chooses
//! the schedule; a seed repeats the commands only.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

use terrace_linearizability::checker::{
    Effect, Key, Operation, Value, Verdict, check_linearizable, project_to_key,
};
use terrace_server::{ServerConfig, serve};
use terrace_testkit::rng::Rng;

use super::Harness;
use crate::counters::{Counter, Counters};

pub(super) const SERVER_HISTORIES: Harness = Harness {
    id: 24,
    name: "server-histories",
    property: "histories of eight clients of a server, with MULTI, are linearizable",
    check_cases: 40,
    time_share: 4,
    run,
};

const CLIENTS: u64 = 8;
const KEYS: usize = 3;
/// Number of commands of a client. The search for an order of more of them takes too long.
const COMMANDS: u32 = 8;
/// Maximum number of steps of the search.
const STEP_BUDGET: usize = 2_000_000;

fn run(seed: u64, counters: &Counters) -> Result<(), String> {
    let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
    let mut config = ServerConfig::new(dir.path());
    config.port = Some(0);
    config.workers = Some(3);
    let (sender, ready) = mpsc::channel();
    let server = std::thread::spawn(move || {
        serve(&config, |addresses, handle| {
            // The receiver waits for it.
            let _ = sender.send((addresses.tcp.first().copied(), handle));
        })
    });
    let started = ready.recv().map_err(|_| "the server did not start".to_owned());
    let history = started.and_then(|(address, handle)| {
        let history = record(seed, address.ok_or("the server has no address")?);
        handle.shut_down();
        history
    });
    server.join().map_err(|_| "the server panicked")?.map_err(|error| error.to_string())?;
    judge(&history?, counters)
}

/// Runs the clients and returns all their operations.
fn record(seed: u64, address: SocketAddr) -> Result<Vec<Operation>, String> {
    let clock = AtomicU64::new(0);
    let clients = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..CLIENTS)
            .map(|id| {
                let clock = &clock;
                scope.spawn(move || Client::connect(id, address)?.run(Rng::new(seed ^ id), clock))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join()).collect::<Vec<_>>()
    });
    let mut history = Vec::new();
    for operations in clients {
        let operations = operations.map_err(|_| "a client panicked".to_owned())?;
        history.extend(operations.map_err(|error| format!("a client failed: {error}"))?);
    }
    Ok(history)
}

fn judge(history: &[Operation], counters: &Counters) -> Result<(), String> {
    counters.add(Counter::Histories, 1);
    let verdict = match check_linearizable(history, KEYS, STEP_BUDGET) {
        Verdict::Undecided => {
            counters.add(Counter::HistoriesCheckedPerKey, 1);
            let keys = (0..KEYS).map(|key| check_key(history, key));
            keys.into_iter().find(|verdict| *verdict != Verdict::Linearizable)
        }
        verdict => Some(verdict),
    };
    match verdict {
        Some(Verdict::NotLinearizable(reason)) => Err(format!("not linearizable: {reason}")),
        _ => Ok(()),
    }
}

fn check_key(history: &[Operation], key: Key) -> Verdict {
    check_linearizable(&project_to_key(history, key), KEYS, STEP_BUDGET)
}

/// Connection of a client.
struct Client {
    id: u64,
    stream: BufReader<TcpStream>,
}

impl Client {
    fn connect(id: u64, address: SocketAddr) -> std::io::Result<Client> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Client { id, stream: BufReader::new(stream) })
    }

    fn run(&mut self, mut rng: Rng, clock: &AtomicU64) -> std::io::Result<Vec<Operation>> {
        let mut operations = Vec::new();
        for number in 0..COMMANDS {
            let value = self.id as u32 * COMMANDS + number + 1;
            let command = Command::draw(&mut rng, value);
            let is_multi = rng.one_in(3);
            let name = format!("client {}: {}{command:?}", self.id, if is_multi { "MULTI " } else { "" });
            let invoked_at = clock.fetch_add(1, Ordering::SeqCst);
            let effect = self.call(&command, is_multi)?;
            let returned_at = clock.fetch_add(1, Ordering::SeqCst);
            operations.push(Operation { name, invoked_at, returned_at, effect, after_values: Vec::new() });
        }
        Ok(operations)
    }

    /// Runs the command and returns its effect, with the values that it has read.
    fn call(&mut self, command: &Command, is_multi: bool) -> std::io::Result<Effect> {
        let lines = command.lines(is_multi);
        let text: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
        self.stream.get_mut().write_all(text.as_bytes())?;
        let mut values = Vec::new();
        for _ in &lines {
            self.read_reply(&mut values)?;
        }
        Ok(match command {
            Command::Put(pairs) => Effect::Write(pairs.clone()),
            Command::Read(keys) if values.len() == keys.len() => {
                Effect::Read(keys.iter().copied().zip(values).collect())
            }
            Command::Read(_) => return Err(std::io::Error::other(format!("values: {values:?}"))),
        })
    }

    /// Reads a reply. Appends the strings in it, and the nulls, to `values`.
    fn read_reply(&mut self, values: &mut Vec<Value>) -> std::io::Result<()> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        let number: i64 = line.get(1..).and_then(|text| text.trim_end().parse().ok()).unwrap_or(-1);
        match line.as_bytes().first() {
            Some(b'+' | b':') => Ok(()),
            Some(b'$') if number < 0 => {
                values.push(None);
                Ok(())
            }
            Some(b'$') => {
                let mut bytes = vec![0; number as usize + 2];
                self.stream.read_exact(&mut bytes)?;
                let text = String::from_utf8_lossy(&bytes);
                values.push(Some(text.trim_end().parse().map_err(std::io::Error::other)?));
                Ok(())
            }
            Some(b'*') if number >= 0 => (0..number).try_for_each(|_| self.read_reply(values)),
            _ => Err(std::io::Error::other(format!("unexpected reply: {line}"))),
        }
    }
}

/// Command of a client.
#[derive(Debug)]
enum Command {
    /// Puts, and deletions of values without a number.
    Put(Vec<(Key, Value)>),
    Read(Vec<Key>),
}

impl Command {
    fn draw(rng: &mut Rng, value: u32) -> Command {
        let key = rng.below(KEYS as u64) as Key;
        match rng.below(6) {
            0 | 1 => Command::Put(vec![(key, Some(value))]),
            2 => Command::Put(vec![(key, None)]),
            3 => Command::Put((0..KEYS).map(|key| (key, Some(value))).collect()),
            4 => Command::Read(vec![key]),
            _ => Command::Read((0..KEYS).collect()),
        }
    }

    /// Inline commands of the protocol.
    fn lines(&self, is_multi: bool) -> Vec<String> {
        // Within MULTI, each key has a command of its own.
        let mut lines = match self {
            Command::Put(pairs) if pairs.len() > 1 && !is_multi => {
                let words = pairs.iter().map(|(key, value)| format!(" k{key} {}", value.unwrap_or(0)));
                vec![format!("MSET{}", words.collect::<String>())]
            }
            Command::Put(pairs) => pairs.iter().map(put_line).collect(),
            Command::Read(keys) if keys.len() > 1 && !is_multi => {
                vec![format!("MGET{}", keys.iter().map(|key| format!(" k{key}")).collect::<String>())]
            }
            Command::Read(keys) => keys.iter().map(|key| format!("GET k{key}")).collect(),
        };
        if is_multi {
            lines.insert(0, "MULTI".into());
            lines.push("EXEC".into());
        }
        lines
    }
}

fn put_line((key, value): &(Key, Value)) -> String {
    match value {
        Some(value) => format!("SET k{key} {value}"),
        None => format!("DEL k{key}"),
    }
}
