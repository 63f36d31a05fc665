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

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use super::{Arguments, Cases, Report, Server, finish, installed, not_tested, target};
use crate::tidy::root;

/// Source package with the suite.
const ARCHIVE: &str = "redis_7.0.15.orig.tar.gz";
const ARCHIVE_SHA256: &str = "4b1dc4ee6d622a09fff9c6777191209750fb5e5a725ef78ea012d6eef4c22982";
const SOURCE: &str = "redis-7.0.15";
/// Time after which a unit is stopped.
const UNIT_SECONDS: u32 = 180;

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

/// Fast units without differences, for `make test`.
static SHARE: &[&str] = &["unit/protocol", "unit/keyspace", "unit/multi", "unit/geo", "unit/pubsub"];

/// Changes of the suite for both servers, so that a missing command fails its own cases only: path,
/// old text, new text.
static CHANGES: &[(&str, &str, &str)] = &[
    ("tests/support/server.tcl", "    r function flush\n", "    catch {r function flush}\n"),
    (
        "tests/support/server.tcl",
        "        r config set $param $val\n\n",
        "        catch {r config set $param $val}\n\n",
    ),
    // An external server can run these cases. The suite skips them because they change settings.
    ("tests/unit/info.tcl", "\"info\" \"external:skip\"", "\"info\""),
    ("tests/unit/limits.tcl", "limits network external:skip", "limits network"),
    ("tests/unit/obuf-limits.tcl", "obuf-limits external:skip", "obuf-limits"),
    (
        "tests/unit/pubsubshard.tcl",
        "{tags {\"pubsubshard external:skip\"}} {\n    test",
        "{tags {\"pubsubshard\"}} {\n    test",
    ),
    ("tests/unit/acl.tcl", "{tags {\"acl external:skip\"}}", "{tags {\"acl\"}}"),
    ("tests/unit/acl-v2.tcl", "{tags {\"acl external:skip\"}}", "{tags {\"acl\"}}"),
    // A case that fails during CLIENT PAUSE leaves the next ones waiting.
    ("tests/unit/pause.tcl", "\n    test ", "\n    r client unpause\n    test "),
    // The unit runs its cases as functions, too, under the same names.
    ("tests/unit/scripting.tcl", "foreach is_eval {0 1} {\n", "foreach is_eval {1} {\n"),
];

/// Tags of cases that both servers skip: replication, limits on memory, PFDEBUG. The table of
/// differences in `docs/guide/server.md` names these subjects.
const SKIPPED_TAGS: &str = "-needs:repl -needs:config-maxmemory -needs:pfdebug";

/// Runs the units whose names the arguments contain, or all. Fails if a case that passes on
/// redis-server fails on Terrace.
pub(crate) fn run() -> ExitCode {
    let arguments = Arguments::parse(std::env::args().skip(2));
    let suite = match Suite::prepare(&arguments) {
        Ok(suite) => suite,
        Err(reason) => return not_tested("Redis' own suite", &reason, &arguments),
    };
    let units = if arguments.is_share { SHARE } else { UNITS };
    let mut report = Report::begin();
    for unit in units.iter().filter(|unit| arguments.selects(unit)) {
        match suite.run_on_both(unit) {
            Ok((redis, terrace)) => report.add(unit, &redis, &terrace),
            Err(error) => {
                eprintln!("{unit}: {error}");
                return ExitCode::from(1);
            }
        }
    }
    report.end()
}

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

/// Removes the escape sequences of colours.
fn without_colours(line: &str) -> String {
    let mut parts = line.split('\x1b');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once('m').map_or(part, |(_, rest)| rest))
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
        installed("tclsh")?;
        installed("redis-server")?;
        let work = target().join("redis-suites");
        fs::create_dir_all(&work).map_err(|error| error.to_string())?;
        let archive = work.join(ARCHIVE);
        if !archive.exists() {
            finish(Command::new(root().join(".ci/redis-source")).arg(&work))?;
        }
        check_sum(&archive)?;
        finish(Command::new("tar").args(["--extract", "--file", ARCHIVE]).current_dir(&work))?;
        let terrace = arguments.program()?;
        let suite = Suite { dir: work.join(SOURCE), terrace, reuses_redis: arguments.reuses_redis };
        suite.adapt().map_err(|error| error.to_string())?;
        Ok(suite)
    }

    /// Links the programs that the suite calls, and applies the changes.
    fn adapt(&self) -> io::Result<()> {
        for name in ["redis-cli", "redis-benchmark"] {
            if let Ok(program) = installed(name) {
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

    /// Runs `unit` on redis-server and on Terrace.
    fn run_on_both(&self, unit: &str) -> io::Result<(Cases, Cases)> {
        let work = |server: &str| self.dir.with_file_name(format!("{server}-{}", unit.replace('/', "-")));
        let earlier = fs::read(work("redis").join("output")).ok().filter(|_| self.reuses_redis);
        let redis = match earlier {
            Some(output) => parse(&String::from_utf8_lossy(&output)),
            None => self.run_unit(unit, &work("redis"), Server::redis(&work("redis"))?)?,
        };
        let terrace = Server::terrace(&self.terrace, &work("terrace"))?;
        Ok((redis, self.run_unit(unit, &work("terrace"), terrace)?))
    }

    fn run_unit(&self, unit: &str, work: &Path, server: Server) -> io::Result<Cases> {
        let output = work.join("output");
        let mut suite = Command::new("timeout");
        suite.args([&UNIT_SECONDS.to_string(), "./runtest", "--host", "127.0.0.1", "--port"]);
        suite.args([&server.port.to_string(), "--single", unit, "--durable", "--clients", "1"]);
        // The encodings depend on settings of Redis' memory. Terrace has no such encodings.
        suite.args(["--ignore-encoding", "--tags", SKIPPED_TAGS]);
        let file = fs::File::create(&output)?;
        suite.current_dir(&self.dir).stdout(file.try_clone()?).stderr(file).status()?;
        Ok(parse(&String::from_utf8_lossy(&fs::read(&output)?)))
    }
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
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn output_of_the_suite() {
        let cases = parse(
            "[\x1b[0;32;49mok\x1b[0m]: SET and GET (a) (1 ms)\n\
             [\x1b[0;31;49merr\x1b[0m]: DEL in tests/unit/keyspace.tcl\n[ok]: DEL (0 ms)\n[ignore]: x: y\n",
        );
        assert_eq!(cases.passed, BTreeSet::from(["SET and GET (a)".to_owned()]));
        assert_eq!(cases.failed, BTreeSet::from(["DEL".to_owned()]));
    }
}
