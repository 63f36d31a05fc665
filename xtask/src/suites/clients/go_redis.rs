//! Suite of the client go-redis.
//!
//! The variable `RE_CLUSTER` is the suite's mode for one external server. It skips the cases that
//! start servers of their own.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Cases, Run, finish, installed};
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

/// Fetches and compiles the suite.
pub(super) fn prepare(dir: &Path) -> Result<(), String> {
    installed("go")?;
    let module = dir.join("module");
    let _ = fs::remove_dir_all(&module);
    finish(Command::new("go").args(["mod", "download", MODULE]).current_dir(root().join(PINNED)))?;
    finish(Command::new("cp").args(["--recursive", "--no-preserve=mode"]).arg(cached()?).arg(&module))?;
    finish(Command::new("go").args(["test", "-c", "-o", "../suite", "."]).current_dir(&module))
}

pub(super) fn run(run: &Run<'_>) -> io::Result<Cases> {
    let _server = run.start()?;
    let report = run.work.join("report.xml");
    let mut suite = Command::new(run.dir.join("suite"));
    suite.args(["-test.run", "TestGinkgoSuite", "-ginkgo.seed", "1", "-ginkgo.no-color"]);
    suite.args(["-ginkgo.timeout", TIME, "-ginkgo.label-filter", "!NonRedisEnterprise"]);
    suite.arg("-ginkgo.junit-report").arg(&report);
    for file in SKIPPED_FILES {
        suite.args(["-ginkgo.skip-file", file]);
    }
    run.output("output", suite.env("RE_CLUSTER", "1").current_dir(run.dir.join("module")))?;
    Ok(parse(&fs::read_to_string(&report)?))
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
