//! Test suites of others against redis-server and `terrace serve`.
//!
//! ```text
//!   redis      Redis' own suite in Tcl, unit by unit
//!   clients/   suites of clients
//!
//!   suite on redis-server --> cases --\
//!                                      row of a table, cases that pass on redis-server only
//!   suite on terrace serve -> cases --/
//! ```

mod clients;
mod redis;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::tidy::root;

pub(crate) use clients::run as run_clients;
pub(crate) use redis::run as run_redis;

/// Time until a server accepts connections.
const START_TIME: Duration = Duration::from_secs(10);

/// Arguments of the command line.
#[derive(Debug, Default)]
struct Arguments {
    /// Parts of names of units; all units if empty.
    filters: Vec<String>,
    /// Program under test, or None for a build.
    program: Option<PathBuf>,
    /// Uses the results of redis-server from an earlier run.
    reuses_redis: bool,
    /// Runs the fast units only, with the build of the tests. A missing program is no error.
    is_share: bool,
}

impl Arguments {
    fn parse(mut args: impl Iterator<Item = String>) -> Arguments {
        let mut parsed = Arguments::default();
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--program" => parsed.program = args.next().map(PathBuf::from),
                "--reuse-redis" => parsed.reuses_redis = true,
                "--share" => parsed.is_share = true,
                _ => parsed.filters.push(arg),
            }
        }
        parsed
    }

    fn selects(&self, unit: &str) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|name| unit.contains(name.as_str()))
    }

    /// Returns the program under test, and builds it if the command line has none.
    fn program(&self) -> Result<PathBuf, String> {
        if let Some(program) = &self.program {
            return std::path::absolute(program).map_err(|error| error.to_string());
        }
        let (profile, dir) = if self.is_share { ("ci", "ci") } else { ("release", "release") };
        let mut build = Command::new("cargo");
        build.args(["build", "--quiet", "--profile", profile, "--package", "terrace-cli"]);
        finish(build.current_dir(root()))?;
        Ok(target().join(dir).join("terrace"))
    }
}

/// Directory of the build.
fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or(root().join("target"), PathBuf::from)
}

/// Prints why a suite did not run. Only a run of the whole suite then fails.
fn not_tested(suite: &str, reason: &str, arguments: &Arguments) -> ExitCode {
    eprintln!("NOT TESTED: {suite}: {reason}");
    ExitCode::from(u8::from(!arguments.is_share))
}

/// Returns the path of an installed program.
///
/// # Errors
///
/// The program is missing.
fn installed(name: &str) -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|dir| dir.join(name)).find(|path| path.exists());
    found.ok_or_else(|| format!("{name} is missing"))
}

/// Results of a suite, or a part of it, on one server.
#[derive(Debug, Default)]
struct Cases {
    passed: BTreeSet<String>,
    failed: BTreeSet<String>,
}

/// Rows of the table, and what follows it.
#[derive(Debug, Default)]
struct Report {
    total: Row,
}

impl Report {
    /// Prints the head of the table.
    fn begin() -> Report {
        println!("| unit | Redis passed | Redis failed | Terrace passed | Terrace failed | share |");
        println!("|---|---:|---:|---:|---:|---:|");
        Report::default()
    }

    /// Prints a row.
    fn add(&mut self, unit: &str, redis: &Cases, terrace: &Cases) {
        let row = Row::new(unit, redis, terrace);
        row.print(unit);
        self.total.add(row);
    }

    /// Prints the sums, and the cases that pass on redis-server and not on Terrace.
    fn end(self) -> ExitCode {
        self.end_with(|_| false)
    }

    /// Prints the sums, and the cases that pass on redis-server only. Fails if one of them is not
    /// expected.
    fn end_with(self, is_expected: impl Fn(&str) -> bool) -> ExitCode {
        self.total.print("all");
        let differences = self.total.differences.iter();
        let (expected, others): (Vec<_>, Vec<_>) = differences.partition(|case| is_expected(case));
        let lists = [
            ("Expected cases that pass on redis-server and not on Terrace", &expected),
            ("Cases that pass on redis-server and not on Terrace", &others),
        ];
        for (head, cases) in lists.into_iter().filter(|(_, cases)| !cases.is_empty()) {
            println!("\n{head}: {}\n", cases.len());
            cases.iter().for_each(|case| println!("- {case}"));
        }
        ExitCode::from(u8::from(!others.is_empty()))
    }
}

/// Row of the table.
#[derive(Debug, Default)]
struct Row {
    /// Passed and failed cases of redis-server, and of Terrace.
    counts: [usize; 4],
    /// Number of cases that pass on both servers.
    both: usize,
    differences: Vec<String>,
}

impl Row {
    fn new(unit: &str, redis: &Cases, terrace: &Cases) -> Row {
        let differences: Vec<String> =
            redis.passed.difference(&terrace.passed).map(|case| format!("{unit}: {case}")).collect();
        Row {
            counts: [redis.passed.len(), redis.failed.len(), terrace.passed.len(), terrace.failed.len()],
            both: redis.passed.len() - differences.len(),
            differences,
        }
    }

    fn add(&mut self, other: Row) {
        self.counts.iter_mut().zip(other.counts).for_each(|(sum, count)| *sum += count);
        self.both += other.both;
        self.differences.extend(other.differences);
    }

    fn print(&self, unit: &str) {
        let [passed, failed, our_passed, our_failed] = self.counts;
        let share = 100 * self.both / passed.max(1);
        println!("| {unit} | {passed} | {failed} | {our_passed} | {our_failed} | {share} % |");
    }
}

/// Server of one run. It ends with this value.
struct Server {
    process: Child,
    port: u16,
    data: PathBuf,
}

impl Server {
    /// Starts redis-server with its data and its log in `work`.
    fn redis(work: &Path) -> io::Result<Server> {
        Server::redis_at(work, free_port()?)
    }

    /// Starts the program `terrace` with its data and its log in `work`.
    fn terrace(program: &Path, work: &Path) -> io::Result<Server> {
        Server::terrace_at(program, work, free_port()?)
    }

    /// Starts redis-server at a port.
    fn redis_at(work: &Path, port: u16) -> io::Result<Server> {
        Server::start(work, port, |data, port| {
            let mut server = Command::new("redis-server");
            server.args(["--port", port, "--save", "", "--enable-debug-command", "yes", "--dir"]).arg(data);
            server
        })
    }

    /// Starts the program `terrace` at a port.
    fn terrace_at(program: &Path, work: &Path, port: u16) -> io::Result<Server> {
        Server::start(work, port, |data, port| {
            let mut server = Command::new(program);
            server.arg("serve").arg(data).args(["--port", port, "--no-page", "--enable-debug"]);
            server
        })
    }

    fn start(work: &Path, port: u16, command: impl FnOnce(&Path, &str) -> Command) -> io::Result<Server> {
        let data = work.join("data");
        let _ = fs::remove_dir_all(work);
        fs::create_dir_all(&data)?;
        let log = fs::File::create(work.join("server.log"))?;
        let process = command(&data, &port.to_string()).stdout(log.try_clone()?).stderr(log).spawn()?;
        let server = Server { process, port, data };
        let started = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if started.elapsed() > START_TIME {
                return Err(io::Error::other(format!("no server starts in {}", work.display())));
            }
            sleep(Duration::from_millis(20));
        }
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // These fail if the process has ended. The data of a server may be large.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.data);
    }
}

/// Returns a port that no program uses.
fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Runs a command to its end.
fn finish(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command.stdout(Stdio::null()).status().map_err(|error| format!("{name}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{name} failed: {status}")) }
}
