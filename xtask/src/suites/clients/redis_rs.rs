//! Suite of the crate `redis`. Its cases start a server each, with the name `redis-server`.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

use super::{Cases, Run, finish, installed};
use crate::tidy::root;

/// Directory of the manifest and the lock file that pin the crate and its checksum.
const PINNED: &str = "crates/terrace-server/tests/clients/rust";
const FEATURES: &str = "tokio-comp,connection-manager";
/// Programs of the suite. The others test clusters, Sentinel and modules.
static PROGRAMS: &[&str] = &[
    "parser",
    "test_acl",
    "test_async",
    "test_basic",
    "test_bignum",
    "test_geospatial",
    "test_script",
    "test_streams",
    "test_types",
];

/// Fetches and compiles the suite.
pub(super) fn prepare(dir: &Path) -> Result<(), String> {
    installed("cargo")?;
    let lock = dir.join("lock");
    let io = |error: io::Error| error.to_string();
    fs::create_dir_all(lock.join("src")).map_err(io)?;
    let pinned = root().join(PINNED);
    for (from, to) in
        [("package.toml", "Cargo.toml"), ("package.lock", "Cargo.lock"), ("main.rs", "src/main.rs")]
    {
        fs::copy(pinned.join(from), lock.join(to)).map_err(io)?;
    }
    let _ = fs::remove_dir_all(dir.join("vendor"));
    finish(Command::new("cargo").args(["vendor", "--quiet", "--locked", "../vendor"]).current_dir(&lock))?;
    let manifest = dir.join("vendor/redis/Cargo.toml");
    // The package is no member of this workspace.
    let text = fs::read_to_string(&manifest).map_err(io)? + "\n[workspace]\n";
    fs::write(&manifest, text).map_err(io)?;
    finish(
        cargo(dir)
            .args(["--quiet", "--jobs", "1", "--no-run"])
            .args(PROGRAMS.iter().flat_map(|it| ["--test", it])),
    )
}

/// Runs the programs. A program in front of `PATH` takes the place of redis-server.
pub(super) fn run(run: &Run<'_>) -> io::Result<Cases> {
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    if let Some(terrace) = run.terrace {
        let programs = run.work.join("programs");
        fs::create_dir_all(&programs)?;
        let program = programs.join("redis-server");
        fs::write(&program, launcher(terrace, &run.work))?;
        finish(Command::new("chmod").arg("+x").arg(&program)).map_err(io::Error::other)?;
        let paths = [programs].into_iter().chain(std::env::split_paths(&path));
        path = std::env::join_paths(paths.collect::<Vec<_>>()).map_err(io::Error::other)?;
    }
    let mut cases = Cases::default();
    for program in PROGRAMS {
        let mut test = cargo(&run.dir);
        test.args(["--offline", "--test", program, "--", "--test-threads", "1"]).env("PATH", &path);
        let output = run.output(program, &test)?;
        parse(program, &String::from_utf8_lossy(&fs::read(output)?), &mut cases);
    }
    let _ = fs::remove_dir_all(run.work.join("data"));
    Ok(cases)
}

/// Command that compiles and runs programs of the suite.
fn cargo(dir: &Path) -> Command {
    let mut cargo = Command::new("cargo");
    cargo.args(["test", "--locked", "--features", FEATURES, "--target-dir", "../../build"]);
    cargo.env("RUSTFLAGS", "--cap-lints allow").current_dir(dir.join("vendor/redis"));
    cargo
}

/// Script that starts `terrace serve` with the options of redis-server that the suite uses.
fn launcher(terrace: &Path, work: &Path) -> String {
    let terrace = terrace.display();
    let work = work.display();
    format!(
        "#!/usr/bin/env bash\n\
         options=()\n\
         while (($#)); do\n\
         \x20   case $1 in\n\
         \x20   --port) options+=(--port \"$2\") port=$2 ;;\n\
         \x20   --bind) options+=(--bind \"$2\") ;;\n\
         \x20   esac\n\
         \x20   shift\n\
         done\n\
         mkdir -p '{work}/data'\n\
         exec '{terrace}' serve \"{work}/data/$port\" --no-page \"${{options[@]}}\"\n"
    )
}

/// Adds the cases of a program.
fn parse(program: &str, output: &str, cases: &mut Cases) {
    for line in output.lines() {
        let Some((name, result)) = line.strip_prefix("test ").and_then(|line| line.split_once(" ... "))
        else {
            continue;
        };
        let name = format!("{program} {name}");
        match result {
            "ok" => cases.passed.insert(name),
            "ignored" => false,
            _ => cases.failed.insert(name),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_a_program() {
        let mut cases = Cases::default();
        let output = "running 3 tests\ntest basic::a ... ok\ntest b ... FAILED\ntest c ... ignored\n";
        parse("test_basic", output, &mut cases);
        assert_eq!(cases.passed.iter().collect::<Vec<_>>(), ["test_basic basic::a"]);
        assert_eq!(cases.failed.iter().collect::<Vec<_>>(), ["test_basic b"]);
    }
}
