//! Suites in Python's source packages, all with pytest in one environment.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Cases, Run, change, finish, installed};
use crate::suites::target;
use crate::tidy::root;

/// Directory of the lists that pin versions and checksums.
const PINNED: &str = "crates/terrace-server/tests/clients/python";

/// Suite in a source package.
struct PythonSuite {
    /// Name in the table of suites.
    name: &'static str,
    package: &'static str,
    /// Arguments of pytest.
    arguments: &'static [&'static str],
    changes: &'static [(&'static str, &'static str, &'static str)],
}

static SUITES: &[PythonSuite] = &[
    PythonSuite {
        name: "redis-py",
        package: "redis",
        // The rest needs a cluster, certificates or modules of Redis.
        arguments: &[
            "tests",
            "-m",
            "not onlycluster and not redismod and not ssl",
            "--ignore=tests/test_ssl.py",
            "--ignore=tests/test_cluster.py",
            "--ignore=tests/test_asyncio/test_cluster.py",
        ],
        changes: &[],
    },
    PythonSuite {
        name: "rq",
        package: "rq",
        // Two cases fail on both servers and leave processes, if workers need 0.75 s to start.
        arguments: &[
            "tests",
            "--deselect=tests/test_worker_pool.py::TestWorkerPool::test_check_workers",
            "--deselect=tests/test_worker_pool.py::TestWorkerPool::test_reap_workers",
        ],
        changes: &[],
    },
    PythonSuite {
        name: "kombu",
        package: "kombu",
        arguments: &["-p", "no:asyncio", "t/integration/test_redis.py"],
        changes: &[],
    },
    PythonSuite { name: "huey", package: "huey", arguments: &["huey/tests"], changes: &[] },
    PythonSuite {
        name: "walrus",
        package: "walrus",
        // The others need modules of Redis.
        arguments: &[
            "walrus/tests/autocomplete.py",
            "walrus/tests/cache.py",
            "walrus/tests/containers.py",
            "walrus/tests/counter.py",
            "walrus/tests/database.py",
            "walrus/tests/lock.py",
            "walrus/tests/models.py",
            "walrus/tests/rate_limit.py",
            "walrus/tests/streams.py",
        ],
        changes: &[],
    },
    PythonSuite {
        name: "fakeredis",
        package: "fakeredis",
        // The mark `real` selects the runs against a server. A case of ACL leaves its password in
        // the server if ACL SETUSER fails. Functions are a row of the table of differences.
        arguments: &[
            "test/test_mixins",
            "test/test_async",
            "test/test_keyspace_notifications.py",
            "--ignore=test/test_mixins/test_acl_commands.py",
            "--ignore=test/test_mixins/test_function_commands.py",
            "-m",
            "real",
        ],
        changes: &[
            ("test/conftest.py", "6390", "6379"),
            ("test/test_async/test_asyncredis.py", "6390", "6379"),
        ],
    },
];

/// Fetches the environment and the suite.
pub(super) fn prepare(dir: &Path) -> Result<(), String> {
    installed("python3")?;
    let suite = suite_of(dir).ok_or("no such suite")?;
    prepare_environment()?;
    let list = fs::read_to_string(root().join(PINNED).join("suite-sources.txt"));
    let list = list.map_err(|error| error.to_string())?;
    let prefix = format!("{}==", suite.package);
    let line = list.lines().find(|line| line.starts_with(&prefix)).ok_or("no version")?;
    let requirement = dir.join("requirement.txt");
    fs::write(&requirement, line).map_err(|error| error.to_string())?;
    let _ = fs::remove_dir_all(dir.join("source"));
    fs::create_dir_all(dir.join("source")).map_err(|error| error.to_string())?;
    let mut download = Command::new(environment().join("bin/pip"));
    download.args(["download", "--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes"]);
    download.args(["--no-binary", suite.package, "--dest"]).arg(dir.join("archive"));
    finish(download.arg("--requirement").arg(&requirement))?;
    let version = line.split(['=', ' ']).nth(2).unwrap_or_default();
    let archive = dir.join(format!("archive/{}-{version}.tar.gz", suite.package));
    let mut extract = Command::new("tar");
    extract.args(["--extract", "--strip-components", "1", "--file"]).arg(archive);
    finish(extract.current_dir(dir.join("source")))?;
    change(&dir.join("source"), suite.changes)
}

pub(super) fn run(run: &Run<'_>) -> io::Result<Cases> {
    let suite = suite_of(&run.dir).ok_or(io::Error::other("no such suite"))?;
    let _server = run.start()?;
    let bin = environment().join("bin");
    let report = run.work.join("report.xml");
    let mut tests = Command::new(bin.join("python"));
    tests.args(["-m", "pytest", "--quiet", "--timeout", "120", "-p", "no:cacheprovider", "-W", "ignore"]);
    // The suite of redis-py has a configuration of pytest that its package lacks.
    tests.args(["--override-ini", "asyncio_mode=auto"]).args(suite.arguments);
    tests.arg(format!("--junit-xml={}", report.display())).current_dir(run.dir.join("source"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let paths = [bin].into_iter().chain(std::env::split_paths(&path));
    let path = std::env::join_paths(paths.collect::<Vec<_>>()).map_err(io::Error::other)?;
    run.output("output", tests.env("PATH", path))?;
    Ok(parse(&fs::read_to_string(report)?))
}

fn suite_of(dir: &Path) -> Option<&'static PythonSuite> {
    SUITES.iter().find(|suite| dir.ends_with(suite.name))
}

/// Directory of the environment.
fn environment() -> PathBuf {
    target().join("client-suites/python")
}

/// Installs the packages, unless they are those of the list.
fn prepare_environment() -> Result<(), String> {
    let list = root().join(PINNED).join("suites.txt");
    let installed = environment().join("suites.txt");
    let expected = fs::read(&list).map_err(|error| error.to_string())?;
    if fs::read(&installed).is_ok_and(|found| found == expected) {
        return Ok(());
    }
    let _ = fs::remove_dir_all(environment());
    finish(Command::new("python3").args(["-m", "venv"]).arg(environment()))?;
    let mut install = Command::new(environment().join("bin/pip"));
    install.args(["install", "--quiet", "--disable-pip-version-check", "--require-hashes", "--requirement"]);
    finish(install.arg(&list))?;
    fs::write(installed, expected).map_err(|error| error.to_string())
}

/// Parses a report of pytest in the format of JUnit.
fn parse(report: &str) -> Cases {
    let mut cases = Cases::default();
    for element in report.split("<testcase ").skip(1) {
        let element = format!(" {}", element.split("</testcase>").next().unwrap_or_default());
        let attribute = |name: &str| {
            let value = element.split_once(&format!(" {name}=\""))?.1;
            value.split_once('"').map(|(value, _)| value)
        };
        let name = format!(
            "{}::{}",
            attribute("classname").unwrap_or_default(),
            attribute("name").unwrap_or_default()
        );
        if element.contains("<failure") || element.contains("<error") {
            cases.failed.insert(name);
        } else if !element.contains("<skipped") {
            cases.passed.insert(name);
        }
    }
    // A case has a second element for an error of its end.
    cases.passed.retain(|name| !cases.failed.contains(name));
    cases
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_of_pytest() {
        let cases = parse(
            "<testsuite name=\"pytest\"><testcase classname=\"t.a\" name=\"x\" time=\"0.1\" />\
             <testcase classname=\"t.a\" name=\"y\"><failure message=\"m\">a &lt;skipped</failure></testcase>\
             <testcase classname=\"t.a\" name=\"z\"><skipped /></testcase>\
             <testcase classname=\"t.a\" name=\"w\" /><testcase classname=\"t.a\" name=\"w\">\
             <error message=\"e\" /></testcase></testsuite>",
        );
        assert_eq!(cases.passed.iter().collect::<Vec<_>>(), ["t.a::x"]);
        assert_eq!(cases.failed.iter().collect::<Vec<_>>(), ["t.a::w", "t.a::y"]);
    }
}
