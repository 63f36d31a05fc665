//! Suites of clients against redis-server and `terrace serve`.
//!
//! ```text
//!   lock files of tests/clients --> packages with suites, by version and checksum
//!   unshare --net: redis-server, suite | terrace serve, suite --> reports --> a row
//! ```
//!
//! The suites run in a network namespace of their own. Many of them use port 6379 and delete all
//! keys of the server that they find there.

mod expected;
mod go_redis;
mod python;
mod redis_rs;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use super::{Arguments, Cases, Report, Server, finish, installed, not_tested, target};

/// Port of the servers in their namespace.
const PORT: u16 = 6379;
/// Time after which a suite is stopped, in seconds.
const SUITE_SECONDS: &str = "900";
/// Argument of the process inside of the namespace.
const INSIDE: &str = "--inside";

/// Suite of a client.
struct ClientSuite {
    name: &'static str,
    /// Fetches and builds the suite in a directory.
    prepare: fn(&Path) -> Result<(), String>,
    run: fn(&Run<'_>) -> io::Result<Cases>,
}

static SUITES: &[ClientSuite] = &[
    ClientSuite { name: "go-redis", prepare: go_redis::prepare, run: go_redis::run },
    ClientSuite { name: "redis-rs", prepare: redis_rs::prepare, run: redis_rs::run },
    ClientSuite { name: "redis-py", prepare: python::prepare, run: python::run },
    ClientSuite { name: "rq", prepare: python::prepare, run: python::run },
    ClientSuite { name: "kombu", prepare: python::prepare, run: python::run },
    ClientSuite { name: "huey", prepare: python::prepare, run: python::run },
    ClientSuite { name: "walrus", prepare: python::prepare, run: python::run },
    ClientSuite { name: "fakeredis", prepare: python::prepare, run: python::run },
];

/// Run of a suite on one server.
struct Run<'a> {
    /// Directory of the prepared suite.
    dir: PathBuf,
    /// Directory of the server and of the output.
    work: PathBuf,
    /// Program under test, or None for redis-server.
    terrace: Option<&'a Path>,
}

impl Run<'_> {
    /// Starts the server at [`PORT`].
    fn start(&self) -> io::Result<Server> {
        match self.terrace {
            Some(program) => Server::terrace_at(program, &self.work, PORT),
            None => Server::redis_at(&self.work, PORT),
        }
    }

    /// Runs a command with its output in a file, and returns the path of the file.
    fn output(&self, name: &str, command: &Command) -> io::Result<PathBuf> {
        let path = self.work.join(name);
        let file = fs::File::create(&path)?;
        let mut limited = Command::new("timeout");
        limited.arg(SUITE_SECONDS).arg(command.get_program()).args(command.get_args());
        limited.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        if let Some(dir) = command.get_current_dir() {
            limited.current_dir(dir);
        }
        limited.stdout(file.try_clone()?).stderr(file).status()?;
        Ok(path)
    }
}

/// Runs the suites that the arguments name, or all. Fails if a case passes on redis-server, and
/// neither on Terrace nor in the list of expected differences.
pub(crate) fn run() -> ExitCode {
    let arguments = Arguments::parse(std::env::args().skip(2));
    if std::env::args().any(|argument| argument == INSIDE) {
        return run_inside(&arguments);
    }
    let program = match prepare(&arguments) {
        Ok(program) => program,
        Err(reason) => return not_tested("the suites of clients", &reason, &arguments),
    };
    let mut inside = Command::new("unshare");
    inside.args(["--net", "--map-root-user"]).arg(std::env::current_exe().unwrap_or_default());
    inside.args(["client-suites", INSIDE, "--program"]).arg(program).args(&arguments.filters);
    match inside.status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(1),
        Err(error) => not_tested("the suites of clients", &format!("unshare: {error}"), &arguments),
    }
}

/// Builds the program under test, and checks the programs that all suites need.
fn prepare(arguments: &Arguments) -> Result<PathBuf, String> {
    for name in ["redis-server", "unshare", "ip", "timeout"] {
        installed(name)?;
    }
    let selected = |suite: &&ClientSuite| arguments.selects(suite.name);
    if SUITES.iter().filter(selected).count() == 0 {
        return Err(format!("no suite of {:?}", arguments.filters));
    }
    for suite in SUITES.iter().filter(selected) {
        // The process in the namespace has no network, and reports suites that are not prepared.
        let ready = directory(suite).join("ready");
        let _ = fs::remove_file(&ready);
        let done = fs::create_dir_all(directory(suite)).map_err(|error| error.to_string());
        match done.and_then(|()| (suite.prepare)(&directory(suite))) {
            Ok(()) => fs::write(&ready, "").map_err(|error| error.to_string())?,
            Err(reason) => eprintln!("{}: {reason}", suite.name),
        }
    }
    arguments.program()
}

/// Directory of a suite.
fn directory(suite: &ClientSuite) -> PathBuf {
    target().join("client-suites").join(suite.name)
}

/// Runs the suites in the namespace.
fn run_inside(arguments: &Arguments) -> ExitCode {
    let terrace = match finish(Command::new("ip").args(["link", "set", "lo", "up"])) {
        Ok(()) => arguments.program.clone().unwrap_or_default(),
        Err(reason) => return not_tested("the suites of clients", &reason, arguments),
    };
    let mut report = Report::begin();
    let mut is_complete = true;
    for suite in SUITES.iter().filter(|suite| arguments.selects(suite.name)) {
        match run_on_both(suite, &terrace) {
            Ok((redis, terrace)) => report.add(suite.name, &redis, &terrace),
            Err(error) => {
                eprintln!("NOT TESTED: the suite of {}: {error}", suite.name);
                is_complete = false;
            }
        }
    }
    let code = report.end_with(expected::is_expected);
    if is_complete { code } else { ExitCode::from(1) }
}

fn run_on_both(suite: &ClientSuite, terrace: &Path) -> io::Result<(Cases, Cases)> {
    let dir = directory(suite);
    if !dir.join("ready").exists() {
        return Err(io::Error::other("it could not be fetched or built"));
    }
    let run = |name: &str, terrace| {
        let work = dir.join(name);
        let _ = fs::remove_dir_all(&work);
        fs::create_dir_all(&work)?;
        (suite.run)(&Run { dir: dir.clone(), work, terrace })
    };
    let redis = run("redis", None)?;
    if redis.passed.is_empty() {
        return Err(io::Error::other("no case passes on redis-server"));
    }
    Ok((redis, run("terrace", Some(terrace))?))
}

/// Changes files of a suite for both servers: file, old text, new text.
fn change(dir: &Path, changes: &[(&str, &str, &str)]) -> Result<(), String> {
    for (file, old, new) in changes {
        let path = dir.join(file);
        let text = fs::read_to_string(&path).map_err(|error| format!("{file}: {error}"))?;
        if !text.contains(old) {
            return Err(format!("{file}: no text {old:?}"));
        }
        fs::write(&path, text.replace(old, new)).map_err(|error| error.to_string())?;
    }
    Ok(())
}
