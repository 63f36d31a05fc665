//! The attacks' own examination: each deliberate bug of `terrace-mutants` must be found by one of them, in time.
//!
//! A bug runs in a process of its own, this same program with `TERRACE_MUTANT` set.

use std::process::{Command, ExitCode, Output};
use std::time::Instant;

use terrace_mutants::{MUTANTS, Mutant, VARIABLE};

/// The bug of that name.
pub fn named(name: &str) -> Result<&'static Mutant, String> {
    let names = || MUTANTS.iter().map(|mutant| mutant.name).collect::<Vec<_>>().join(", ");
    let found = MUTANTS.iter().find(|mutant| mutant.name == name);
    found.ok_or_else(|| format!("no bug has that name; there are: {}", names()))
}

/// Sees whether the attacks find the bugs `names`, or all, and prints what found each.
pub fn hunt(names: &[&'static Mutant]) -> ExitCode {
    if !cfg!(terrace_mutants) {
        eprintln!("this program was built without the bugs; `cargo xtask mutants` builds it with them");
        return ExitCode::from(2);
    }
    let wanted: Vec<&Mutant> = if names.is_empty() { MUTANTS.iter().collect() } else { names.to_vec() };
    println!("{:<22} {:<12} {:>7}  bug", "mutant", "found by", "seconds");
    let mut alive = 0;
    for mutant in &wanted {
        let began = Instant::now();
        let found = mutant.attacks.iter().find(|attack| finds(attack, mutant));
        alive += usize::from(found.is_none());
        let by = found.copied().unwrap_or("NOTHING");
        println!("{:<22} {by:<12} {:>7.1}  {}", mutant.name, began.elapsed().as_secs_f64(), mutant.bug);
    }
    println!("\n{} of {} found", wanted.len() - alive, wanted.len());
    if alive == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Whether `attack` reports a violation, in the time it has.
fn finds(attack: &str, mutant: &Mutant) -> bool {
    let Ok(program) = std::env::current_exe() else { return false };
    let budget = format!("{}s", mutant.seconds);
    let run = Command::new(program)
        .args(["torture", "--budget", &budget, attack])
        .env(VARIABLE, mutant.name)
        .output();
    match run {
        Ok(Output { status, stdout, stderr, .. }) => {
            let told = String::from_utf8_lossy(&stdout).contains("VIOLATION");
            // A process that its bug took down was found out, too; one that never started was not.
            let found = told || status.code().is_none();
            if !found && !status.success() {
                eprintln!("{attack}: {status}: {}", String::from_utf8_lossy(&stderr).trim_end());
            }
            found
        }
        Err(error) => {
            eprintln!("{attack}: {error}");
            false
        }
    }
}
