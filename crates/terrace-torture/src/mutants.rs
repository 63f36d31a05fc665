//! The test of the attacks: one of them must find each deliberate bug, within a time limit.
//!
//! Each bug runs in its own process: this same program with `TERRACE_MUTANT` set.

mod catalogue;

use std::process::{Command, ExitCode, Output};
use std::time::Instant;

pub use catalogue::{MUTANTS, Mutant};

/// Environment variable that names the bug of a process; `terrace_sync::mutants` reads it.
const VARIABLE: &str = "TERRACE_MUTANT";

/// The bug of that name.
pub fn by_name(name: &str) -> Result<&'static Mutant, String> {
    let names = || MUTANTS.iter().map(|mutant| mutant.name).collect::<Vec<_>>().join(", ");
    let found = MUTANTS.iter().find(|mutant| mutant.name == name);
    found.ok_or_else(|| format!("no bug has that name; there are: {}", names()))
}

/// Sees whether the attacks find the bugs `names`, or all, and prints what found each.
pub fn run_mutants(names: &[&'static Mutant]) -> ExitCode {
    if !cfg!(terrace_mutants) {
        eprintln!("this program was built without the bugs; `cargo xtask mutants` builds it with them");
        return ExitCode::from(2);
    }
    let wanted: Vec<&Mutant> = if names.is_empty() { MUTANTS.iter().collect() } else { names.to_vec() };
    println!("{:<22} {:<12} {:>7}  {:<18}  bug", "mutant", "found by", "seconds", "seed");
    let mut alive = 0;
    for mutant in &wanted {
        let began = Instant::now();
        let found =
            mutant.attacks.iter().find_map(|attack| Some((attack, find_with_harness(attack, mutant)?)));
        alive += usize::from(found.is_none());
        let (by, seed) = found.map_or(("NOTHING", String::new()), |(attack, seed)| (attack, seed));
        let seconds = began.elapsed().as_secs_f64();
        println!("{:<22} {by:<12} {seconds:>7.1}  {seed:<18}  {}", mutant.name, mutant.bug);
    }
    println!("\n{} of {} found", wanted.len() - alive, wanted.len());
    if alive == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The seed with which `attack` reports a violation in the time it has, if it does; empty where the bug took the process
/// down, which is being found out, too.
fn find_with_harness(attack: &str, mutant: &Mutant) -> Option<String> {
    let program = std::env::current_exe().ok()?;
    let budget = format!("{}s", mutant.seconds);
    let run = Command::new(program)
        .args(["torture", "--brief", "--budget", &budget, attack])
        .env(VARIABLE, mutant.name)
        .output();
    match run {
        Ok(Output { status, stdout, stderr }) => {
            let told = String::from_utf8_lossy(&stdout);
            if let Some((_, seed)) = told.split_once("--seed ").filter(|_| told.contains("VIOLATION")) {
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
