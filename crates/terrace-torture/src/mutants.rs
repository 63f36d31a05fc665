//! The test of the attacks: one of them must find each deliberate bug, within a time limit.
//!
//! Each bug runs in its own process: this same program with `TERRACE_MUTANT` set.

mod catalogue;

use std::process::{Command, ExitCode, Output};
use std::time::Instant;

pub use catalogue::{MUTANTS, Mutant};

/// Environment variable that names the bug of a process; `terrace_sync::mutants` reads it.
const MUTANT_ENV_VAR: &str = "TERRACE_MUTANT";

/// Returns the mutant with a name.
pub fn by_name(name: &str) -> Result<&'static Mutant, String> {
    MUTANTS.iter().find(|mutant| mutant.name == name).ok_or_else(|| {
        let names: Vec<_> = MUTANTS.iter().map(|mutant| mutant.name).collect();
        format!("unknown mutant; known mutants: {}", names.join(", "))
    })
}

/// Checks that attacks find the given mutants, or all mutants, and prints a table of the results.
pub fn run_mutants(names: &[&'static Mutant]) -> ExitCode {
    if !cfg!(terrace_mutants) {
        eprintln!("this program was built without mutants; use `cargo xtask mutants`");
        return ExitCode::from(2);
    }
    let wanted: Vec<&Mutant> = if names.is_empty() { MUTANTS.iter().collect() } else { names.to_vec() };
    println!("{:<32} {:<18} {:>7}  {:<18}  bug", "mutant", "found by", "seconds", "seed");
    let mut survivors = 0;
    for mutant in &wanted {
        let began = Instant::now();
        let found =
            mutant.harnesses.iter().find_map(|attack| Some((attack, find_with_harness(attack, mutant)?)));
        survivors += usize::from(found.is_none());
        let (by, seed) = found.map_or(("NOTHING", String::new()), |(attack, seed)| (attack, seed));
        let seconds = began.elapsed().as_secs_f64();
        println!("{:<32} {by:<18} {seconds:>7.1}  {seed:<18}  {}", mutant.name, mutant.description);
    }
    println!("\n{} of {} found", wanted.len() - survivors, wanted.len());
    if survivors == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns the seed of the violation that `attack` reports within its time limit.
///
/// The seed is empty if the mutant killed the process, which also counts as found.
fn find_with_harness(attack: &str, mutant: &Mutant) -> Option<String> {
    let program = std::env::current_exe().ok()?;
    let budget = format!("{}s", mutant.time_limit_s);
    let run = Command::new(program)
        .args(["torture", "--fail-fast", "--budget", &budget, attack])
        .env(MUTANT_ENV_VAR, mutant.name)
        .output();
    match run {
        Ok(Output { status, stdout, stderr }) => {
            let output = String::from_utf8_lossy(&stdout);
            if let Some((_, seed)) = output.split_once("--seed ").filter(|_| output.contains("VIOLATION")) {
                return seed.split_whitespace().next().map(str::to_owned);
            }
            if !status.success() && status.code().is_some() {
                eprintln!("{attack}: {status}: {}", String::from_utf8_lossy(&stderr).trim_end());
            }
            status.code().is_none().then(String::new)
        }
        Err(error) => {
            eprintln!("{attack}: {error}");
            None
        }
    }
}
