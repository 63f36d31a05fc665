//! Test suite of the client go-redis against redis-server and `terrace serve`.
//!
//! ```text
//!   go.sum of tests/clients/go --> module in Go's cache --copy--> target/go-redis-suite/module
//!   go test -c --> suite; redis-server, suite | terrace serve, suite --> reports --> a row
//! ```
//!
//! The variable `RE_CLUSTER` is the suite's mode for one external server. It skips the cases that
//! start servers of their own.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use super::{Arguments, Cases, Report, Server, finish, installed, not_tested, target};
use crate::tidy::root;

const MODULE: &str = "github.com/redis/go-redis/v9";
/// Directory whose `go.mod` and `go.sum` pin the version and the checksum of the module.
const PINNED: &str = "crates/terrace-server/tests/clients/go";
/// Time after which the suite is stopped.
const TIME: &str = "300s";

/// Files of the suite that need a cluster, Sentinel, several servers, or modules of Redis.
static SKIPPED_FILES: &[&str] = &[
    "gears_commands_test.go",
    "json_test.go",
    "osscluster_test.go",
    "probabilistic_test.go",
    "ring_test.go",
    "search_test.go",
    "sentinel_test.go",
    "timeseries_commands_test.go",
    "universal_test.go",
];

/// Changes of the suite for both servers: file, old text, new text.
static CHANGES: &[(&str, &str, &str)] = &[
    // The port of the external server.
    ("main_test.go", "rediStackPort = \"6379\"", "rediStackPort = os.Getenv(\"SERVER_PORT\")"),
];

/// Runs the suite. Fails if a case that passes on redis-server fails on Terrace.
pub(crate) fn run() -> ExitCode {
    let arguments = Arguments::parse(std::env::args().skip(2));
    let suite = match Suite::prepare(&arguments) {
        Ok(suite) => suite,
        Err(reason) => return not_tested("the suite of go-redis", &reason, &arguments),
    };
    match suite.run_on_both() {
        Ok((redis, terrace)) => {
            let mut report = Report::begin();
            report.add("go-redis", &redis, &terrace);
            report.end()
        }
        Err(error) => {
            eprintln!("the suite of go-redis: {error}");
            ExitCode::from(1)
        }
    }
}

/// Compiled suite.
struct Suite {
    dir: PathBuf,
    terrace: PathBuf,
}

impl Suite {
    /// Fetches and compiles the suite, and builds the program.
    fn prepare(arguments: &Arguments) -> Result<Suite, String> {
        installed("go")?;
        installed("redis-server")?;
        let dir = target().join("go-redis-suite");
        let module = dir.join("module");
        let _ = fs::remove_dir_all(&module);
        fs::create_dir_all(&dir).map_err(|error| error.to_string())?;
        finish(Command::new("go").args(["mod", "download", MODULE]).current_dir(root().join(PINNED)))?;
        finish(Command::new("cp").args(["--recursive", "--no-preserve=mode"]).arg(cached()?).arg(&module))?;
        for (file, old, new) in CHANGES {
            let path = module.join(file);
            let text = fs::read_to_string(&path).map_err(|error| error.to_string())?;
            if !text.contains(old) {
                return Err(format!("{file}: no text {old:?}"));
            }
            fs::write(&path, text.replace(old, new)).map_err(|error| error.to_string())?;
        }
        finish(Command::new("go").args(["test", "-c", "-o", "../suite", "."]).current_dir(&module))?;
        Ok(Suite { dir, terrace: arguments.program()? })
    }

    fn run_on_both(&self) -> io::Result<(Cases, Cases)> {
        let [redis, terrace] = ["redis", "terrace"].map(|name| self.dir.join(name));
        let on_redis = self.run(&redis, &Server::redis(&redis)?)?;
        Ok((on_redis, self.run(&terrace, &Server::terrace(&self.terrace, &terrace)?)?))
    }

    fn run(&self, work: &Path, server: &Server) -> io::Result<Cases> {
        let report = work.join("report.xml");
        let mut suite = Command::new(self.dir.join("suite"));
        suite.args(["-test.run", "TestGinkgoSuite", "-ginkgo.seed", "1", "-ginkgo.no-color"]);
        suite.args(["-ginkgo.timeout", TIME, "-ginkgo.label-filter", "!NonRedisEnterprise"]);
        suite.arg("-ginkgo.junit-report").arg(&report);
        for file in SKIPPED_FILES {
            suite.args(["-ginkgo.skip-file", file]);
        }
        suite.env("RE_CLUSTER", "1").env("SERVER_PORT", server.port.to_string());
        let output = fs::File::create(work.join("output"))?;
        suite.current_dir(self.dir.join("module")).stdout(output.try_clone()?).stderr(output).status()?;
        Ok(parse(&fs::read_to_string(&report)?))
    }
}

/// Directory of the module in Go's cache.
fn cached() -> Result<PathBuf, String> {
    let mut list = Command::new("go");
    list.args(["list", "-m", "-f", "{{.Dir}}", MODULE]).current_dir(root().join(PINNED));
    let output = list.output().map_err(|error| error.to_string())?;
    let dir = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if dir.is_empty() { Err(format!("no directory of {MODULE}")) } else { Ok(dir.into()) }
}

/// Parses a report in the format of JUnit.
fn parse(report: &str) -> Cases {
    let mut cases = Cases::default();
    for element in report.split("<testcase ").skip(1) {
        let attribute =
            |name: &str| element.split_once(&format!("{name}=\""))?.1.split_once('"').map(|it| it.0);
        let name = attribute("name").unwrap_or_default();
        let Some(name) = name.strip_prefix("[It] ") else { continue };
        match attribute("status") {
            Some("passed") => cases.passed.insert(name.to_owned()),
            Some("skipped" | "pending") => false,
            _ => cases.failed.insert(name.to_owned()),
        };
    }
    cases
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_of_the_suite() {
        let cases = parse(
            "<testsuite name=\"x\"><testcase name=\"[It] Commands should Auth\" classname=\"go-redis\" \
             status=\"passed\" time=\"0.1\"></testcase><testcase name=\"[BeforeSuite]\" status=\"passed\">\
             <testcase name=\"[It] Tx should Watch\" status=\"failed\"><failure/></testcase>\
             <testcase name=\"[It] Ring\" status=\"skipped\"/></testsuite>",
        );
        assert_eq!(cases.passed.iter().collect::<Vec<_>>(), ["Commands should Auth"]);
        assert_eq!(cases.failed.iter().collect::<Vec<_>>(), ["Tx should Watch"]);
    }
}
