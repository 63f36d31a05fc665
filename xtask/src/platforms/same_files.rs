//! Databases of all platforms: `crates/terrace/tests/it/other_platforms.rs`.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};

use super::build::TestProgram;
use super::table::Platform;
use super::{directory, run};
use crate::tidy::root;

const TEST: &str = "other_platforms::same_tables_and_entries";
/// Name of the platform that runs this program.
const NATIVE: &str = "x86_64-unknown-linux-gnu";

/// Runs the test on this machine and on each tested platform, twice: the second run finds the
/// databases of all.
pub(super) fn check(tested: &[(&Platform, Vec<TestProgram>)]) -> Result<(), ()> {
    let with_engine: Vec<_> =
        tested.iter().filter_map(|(row, programs)| Some((*row, engine(programs)?))).collect();
    if with_engine.is_empty() {
        println!("same files                  NOT TESTED: no platform with tests of the engine");
        return Ok(());
    }
    let databases = directory().join("databases");
    let _ = fs::remove_dir_all(&databases);
    fs::create_dir_all(&databases).map_err(|error| println!("same files  FAILED: {error}"))?;
    let mut opened = BTreeSet::new();
    for _ in 0..2 {
        opened.extend(run_test(NATIVE, native(), &databases)?);
        for (row, program) in &with_engine {
            let mut command = run::command(row, program);
            command.args(["--exact", TEST, "--nocapture"]);
            opened.extend(run_test(row.target, command, &databases)?);
        }
    }
    println!(
        "same files                  {} platforms wrote equal tables; {} databases opened by others, and by LevelDB",
        1 + with_engine.len(),
        opened.len()
    );
    Ok(())
}

/// Returns the integration tests of the engine.
fn engine(programs: &[TestProgram]) -> Option<&TestProgram> {
    programs.iter().find(|program| {
        let name = program.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        program.package_name() == "terrace" && name.starts_with("it-")
    })
}

/// Returns the command of the test on this machine. The system's LevelDB must take part.
fn native() -> Command {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(root()).env("TERRACE_REQUIRE_STOCK", "1");
    cargo.args(["test", "--quiet", "--profile", "ci", "--package", "terrace", "--test", "it", "--"]);
    cargo.args(["--exact", TEST, "--nocapture"]);
    cargo
}

/// Returns the pairs of platforms and databases that the test opened.
fn run_test(platform: &str, mut command: Command, databases: &std::path::Path) -> Result<Vec<String>, ()> {
    command.env("TERRACE_PLATFORMS_DIRECTORY", databases).env("TERRACE_PLATFORM", platform);
    let output =
        command.stdin(Stdio::null()).output().map_err(|error| println!("same files  FAILED: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() || !text.contains("1 passed") {
        print!("{text}{}", String::from_utf8_lossy(&output.stderr));
        println!("same files                  FAILED: {platform}");
        return Err(());
    }
    let opened = text.lines().filter_map(|line| line.split_once("opened: ")).map(|(_, database)| database);
    let by_others = opened.filter(|database| !database.starts_with(platform));
    Ok(by_others.map(|database| format!("{database} by {platform}")).collect())
}
