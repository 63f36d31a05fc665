//! Redis' own Tcl suite against redis-server and `terrace serve`, unit by unit.
//!
//! ```text
//!   Debian's source package --checksum--> target/redis-suites/redis-7.0.15/tests
//!   for each unit: redis-server, runtest | terrace serve, runtest --> a row of the table
//! ```
//!
//! The suite runs in its external-server mode, in which it skips the cases that start servers of
//! their own. An error ends its case, not the unit. The output of each run stays below
//! `target/redis-suites`.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::tidy::root;

/// Source package with the suite.
const ARCHIVE: &str = "redis_7.0.15.orig.tar.gz";
const ARCHIVE_SHA256: &str = "4b1dc4ee6d622a09fff9c6777191209750fb5e5a725ef78ea012d6eef4c22982";
const SOURCE: &str = "redis-7.0.15";
/// Time after which a unit is stopped.
const UNIT_TIME: Duration = Duration::from_secs(180);
/// Time until a server accepts connections.
const START_TIME: Duration = Duration::from_secs(10);

/// Units that make sense with an external server. The others test replication, the cluster,
/// persistence files, modules, TLS files, functions, client-side caching or the memory of Redis.
static UNITS: &[&str] = &[
    "unit/printver",
    "unit/protocol",
    "unit/keyspace",
    "unit/scan",
    "unit/expire",
    "unit/multi",
    "unit/quit",
    "unit/auth",
    "unit/type/string",
    "unit/type/incr",
    "unit/type/hash",
    "unit/type/list",
    "unit/type/list-2",
    "unit/type/list-3",
    "unit/type/set",
    "unit/type/zset",
    "unit/type/stream",
    "unit/type/stream-cgroups",
    "unit/bitops",
    "unit/bitfield",
    "unit/geo",
    "unit/hyperloglog",
    "unit/sort",
    "unit/dump",
    "unit/pubsub",
    "unit/pubsubshard",
    "unit/scripting",
    "unit/info",
    "unit/info-command",
    "unit/introspection",
    "unit/introspection-2",
    "unit/slowlog",
    "unit/latency-monitor",
    "unit/acl",
    "unit/acl-v2",
    "unit/lazyfree",
    "unit/limits",
    "unit/networking",
    "unit/obuf-limits",
    "unit/other",
    "unit/pause",
    "unit/querybuf",
    "unit/violations",
    "unit/wait",
];

/// Changes of the suite for both servers, so that a missing command fails its own cases only: path,
/// old text, new text.
static CHANGES: &[(&str, &str, &str)] = &[
    ("tests/support/server.tcl", "    r function flush\n", "    catch {r function flush}\n"),
    (
        "tests/support/server.tcl",
        "        r config set $param $val\n\n",
        "        catch {r config set $param $val}\n\n",
    ),
    // The unit runs its cases as functions, too, under the same names.
    ("tests/unit/scripting.tcl", "foreach is_eval {0 1} {\n", "foreach is_eval {1} {\n"),
];

/// Arguments of the command line.
#[derive(Debug)]
struct Arguments {
    /// Parts of names of units; all units if empty.
    filters: Vec<String>,
    /// Program under test, or None for a release build.
    program: Option<PathBuf>,
    /// Uses the results of redis-server from an earlier run.
    reuses_redis: bool,
}

impl Arguments {
    fn parse(mut args: impl Iterator<Item = String>) -> Arguments {
        let mut parsed = Arguments { filters: Vec::new(), program: None, reuses_redis: false };
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--program" => parsed.program = args.next().map(PathBuf::from),
                "--reuse-redis" => parsed.reuses_redis = true,
                _ => parsed.filters.push(arg),
            }
        }
        parsed
    }

    fn selects(&self, unit: &str) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|name| unit.contains(name.as_str()))
    }
}

/// Tags of cases that both servers skip: replication, limits on memory, PFDEBUG. The table of
/// differences in `docs/guide/server.md` names these subjects.
const SKIPPED_TAGS: &str = "-needs:repl -needs:config-maxmemory -needs:pfdebug";

/// Runs the units whose names the arguments contain, or all. Fails if a case that passes on
/// redis-server fails on Terrace.
pub(crate) fn run() -> ExitCode {
    let arguments = Arguments::parse(std::env::args().skip(2));
    let suite = match Suite::prepare(&arguments) {
        Ok(suite) => suite,
        Err(reason) => {
            eprintln!("NOT TESTED: Redis' suite: {reason}");
            return ExitCode::from(1);
        }
    };
    println!("| unit | Redis passed | Redis failed | Terrace passed | Terrace failed | share |");
    println!("|---|---:|---:|---:|---:|---:|");
    let mut total = Row::default();
    for unit in UNITS.iter().filter(|unit| arguments.selects(unit)) {
        match suite.compare(unit) {
            Ok(row) => {
                row.print(unit);
                total.add(row);
            }
            Err(error) => eprintln!("{unit}: {error}"),
        }
    }
    total.print("all");
    println!("\nCases that pass on redis-server and not on Terrace:\n");
    total.differences.iter().for_each(|case| println!("- {case}"));
    if total.differences.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

/// Results of a unit on one server.
#[derive(Debug, Default)]
struct Cases {
    passed: BTreeSet<String>,
    failed: BTreeSet<String>,
}

impl Cases {
    /// Parses the output of the suite. A case with the name of another one counts once.
    fn parse(output: &str) -> Cases {
        let mut cases = Cases::default();
        for line in output.lines().map(without_colours) {
            if let Some(name) = line.strip_prefix("[ok]: ") {
                let name = name.rsplit_once(" (").map_or(name, |(name, _)| name);
                cases.passed.insert(name.to_owned());
            } else if let Some(name) = line.strip_prefix("[err]: ") {
                let name = name.split_once(" in tests/").map_or(name, |(name, _)| name);
                cases.failed.insert(name.to_owned());
            }
        }
        cases.passed.retain(|name| !cases.failed.contains(name));
        cases
    }
}

/// Removes the escape sequences of colours.
fn without_colours(line: &str) -> String {
    let mut parts = line.split('\x1b');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once('m').map_or(part, |(_, rest)| rest))
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

/// Extracted suite.
struct Suite {
    dir: PathBuf,
    terrace: PathBuf,
    reuses_redis: bool,
}

impl Suite {
    /// Fetches and extracts the suite, and builds the program.
    fn prepare(arguments: &Arguments) -> Result<Suite, String> {
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root().join("target"), PathBuf::from);
        let work = target.join("redis-suites");
        fs::create_dir_all(&work).map_err(|error| error.to_string())?;
        let terrace = match &arguments.program {
            Some(program) => std::path::absolute(program).map_err(|error| error.to_string())?,
            None => {
                let mut build = Command::new("cargo");
                build.args(["build", "--quiet", "--release", "--package", "terrace-cli"]);
                finish(build.current_dir(root()))?;
                target.join("release/terrace")
            }
        };
        let archive = work.join(ARCHIVE);
        if !archive.exists() {
            finish(Command::new(root().join(".ci/redis-source")).arg(&work))?;
        }
        check_sum(&archive)?;
        finish(Command::new("tar").args(["--extract", "--file", ARCHIVE]).current_dir(&work))?;
        let suite = Suite { dir: work.join(SOURCE), terrace, reuses_redis: arguments.reuses_redis };
        suite.adapt().map_err(|error| error.to_string())?;
        Ok(suite)
    }

    /// Links the programs that the suite calls, and applies the changes.
    fn adapt(&self) -> io::Result<()> {
        for name in ["redis-cli", "redis-benchmark"] {
            let path = std::env::var_os("PATH").unwrap_or_default();
            let program = std::env::split_paths(&path).map(|dir| dir.join(name)).find(|path| path.exists());
            if let Some(program) = program {
                let _ = fs::remove_file(self.dir.join("src").join(name));
                std::os::unix::fs::symlink(program, self.dir.join("src").join(name))?;
            }
        }
        for (path, old, new) in CHANGES {
            let path = self.dir.join(path);
            let text = fs::read_to_string(&path)?;
            if !text.contains(old) {
                return Err(io::Error::other(format!("{}: no line {old:?}", path.display())));
            }
            fs::write(&path, text.replace(old, new))?;
        }
        Ok(())
    }

    /// Runs `unit` on both servers.
    fn compare(&self, unit: &str) -> io::Result<Row> {
        let earlier =
            fs::read(self.work_dir(unit, "redis").join("output")).ok().filter(|_| self.reuses_redis);
        let redis = match earlier {
            Some(output) => Cases::parse(&String::from_utf8_lossy(&output)),
            None => self.run_on_redis(unit)?,
        };
        let terrace = self.run_unit(unit, "terrace", |dir, port| {
            let mut server = Command::new(&self.terrace);
            server.arg("serve").arg(dir).args(["--port", &port.to_string(), "--enable-debug"]);
            server
        })?;
        Ok(Row::new(unit, &redis, &terrace))
    }

    /// Directory with the output of a unit.
    fn work_dir(&self, unit: &str, name: &str) -> PathBuf {
        self.dir.with_file_name(format!("{name}-{}", unit.replace('/', "-")))
    }

    fn run_on_redis(&self, unit: &str) -> io::Result<Cases> {
        self.run_unit(unit, "redis", |dir, port| {
            let mut server = Command::new("redis-server");
            server.args([
                "--port",
                &port.to_string(),
                "--save",
                "",
                "--enable-debug-command",
                "yes",
                "--dir",
            ]);
            server.arg(dir);
            server
        })
    }

    fn run_unit(
        &self,
        unit: &str,
        name: &str,
        server: impl FnOnce(&Path, u16) -> Command,
    ) -> io::Result<Cases> {
        let work = self.work_dir(unit, name);
        let data = work.join("data");
        let _ = fs::remove_dir_all(&work);
        fs::create_dir_all(&data)?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let log = fs::File::create(work.join("server.log"))?;
        let mut server = server(&data, port);
        let server = Process(server.stdout(log.try_clone()?).stderr(log).spawn()?);
        let started = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if started.elapsed() > START_TIME {
                return Err(io::Error::other(format!("{name} does not start")));
            }
            sleep(Duration::from_millis(20));
        }
        let output = work.join("output");
        let mut suite = Command::new("timeout");
        suite.args([&UNIT_TIME.as_secs().to_string(), "./runtest", "--host", "127.0.0.1", "--port"]);
        suite.args([&port.to_string(), "--single", unit, "--durable", "--clients", "1"]);
        // The encodings depend on settings of Redis' memory. Terrace has no such encodings.
        suite.args(["--ignore-encoding", "--tags", SKIPPED_TAGS]);
        let file = fs::File::create(&output)?;
        suite.current_dir(&self.dir).stdout(file.try_clone()?).stderr(file).status()?;
        drop(server);
        let text = String::from_utf8_lossy(&fs::read(&output)?).into_owned();
        // The data of a server may be large.
        fs::remove_dir_all(&data)?;
        Ok(Cases::parse(&text))
    }
}

/// Process that ends with this value.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail if the process has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn finish(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command.stdout(Stdio::null()).status().map_err(|error| format!("{name}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{name} failed: {status}")) }
}

fn check_sum(archive: &Path) -> Result<(), String> {
    let output = Command::new("sha256sum").arg(archive).output().map_err(|error| error.to_string())?;
    if String::from_utf8_lossy(&output.stdout).starts_with(ARCHIVE_SHA256) {
        return Ok(());
    }
    Err(format!("{}: the SHA-256 is not {ARCHIVE_SHA256}", archive.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_the_suite() {
        let cases = Cases::parse(
            "[\x1b[0;32;49mok\x1b[0m]: SET and GET (a) (1 ms)\n\
             [\x1b[0;31;49merr\x1b[0m]: DEL in tests/unit/keyspace.tcl\n[ok]: DEL (0 ms)\n[ignore]: x: y\n",
        );
        assert_eq!(cases.passed, BTreeSet::from(["SET and GET (a)".to_owned()]));
        assert_eq!(cases.failed, BTreeSet::from(["DEL".to_owned()]));
    }
}
