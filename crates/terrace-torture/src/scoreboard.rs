//! The scoreboard of a run: JSON for programs, a table for people.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::counters::{COUNTERS, Counters};
use crate::harness::Harness;
use crate::runner::{HarnessOutcome, Violation};

/// Counters and violations of one run.
#[derive(Debug, Serialize)]
pub struct Scoreboard {
    /// Number from which all seeds are drawn.
    pub base_seed: u64,
    /// Commit of the tested code, if git knows it.
    pub commit: Option<String>,
    /// Duration of the run in seconds.
    pub seconds: f64,
    /// All counters.
    pub counters: Vec<CounterRow>,
    /// All attacks of the run.
    pub attacks: Vec<HarnessRow>,
    /// All violations, with the seeds that repeat them.
    pub violations: Vec<ViolationRow>,
}

/// Scoreboard row of a counter.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the field names describe the fields")]
pub struct CounterRow {
    pub name: &'static str,
    pub count: u64,
    pub goal: u64,
}

/// Scoreboard row of an attack.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the field names describe the fields")]
pub struct HarnessRow {
    pub name: &'static str,
    pub property: &'static str,
    pub cases: u64,
    pub seconds: f64,
    pub violations: usize,
}

/// Scoreboard row of a violation.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the field names describe the fields")]
pub struct ViolationRow {
    pub attack: &'static str,
    pub seed: String,
    pub message: String,
}

impl From<&Violation> for ViolationRow {
    fn from(violation: &Violation) -> ViolationRow {
        let Violation { harness, seed, message } = violation;
        ViolationRow { attack: harness, seed: seed.to_string(), message: message.clone() }
    }
}

impl Scoreboard {
    /// Creates an empty scoreboard.
    pub fn new(base_seed: u64, commit: Option<String>) -> Scoreboard {
        Scoreboard {
            base_seed,
            commit,
            seconds: 0.0,
            counters: Vec::new(),
            attacks: Vec::new(),
            violations: Vec::new(),
        }
    }

    /// Adds the outcome of an attack.
    pub fn add_outcome(&mut self, harness: &Harness, outcome: &HarnessOutcome) {
        self.attacks.push(HarnessRow {
            name: harness.name,
            property: harness.property,
            cases: outcome.cases,
            seconds: outcome.elapsed.as_secs_f64(),
            violations: outcome.violations.len(),
        });
        self.violations.extend(outcome.violations.iter().map(ViolationRow::from));
    }

    /// Adds the counters and the duration at the end of the run.
    pub fn finish(&mut self, counters: &Counters, elapsed: Duration) {
        self.seconds = elapsed.as_secs_f64();
        let rows = COUNTERS.iter().map(|&counter| CounterRow {
            name: counter.name(),
            count: counters.get(counter),
            goal: counter.goal(),
        });
        self.counters = rows.collect();
    }
}

impl fmt::Display for Scoreboard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<24} {:>10} {:>9} {:>10}  property", "attack", "cases", "seconds", "violations")?;
        for HarnessRow { name, property, cases, seconds, violations } in &self.attacks {
            writeln!(f, "{name:<24} {cases:>10} {seconds:>9.1} {violations:>10}  {property}")?;
        }
        writeln!(f, "\n{:<26} {:>14}", "counter", "count")?;
        for CounterRow { name, count, .. } in self.counters.iter().filter(|row| row.count > 0) {
            writeln!(f, "{name:<26} {:>14}", with_thousands_separators(*count))?;
        }
        for ViolationRow { attack, seed, message } in &self.violations {
            writeln!(f, "\nVIOLATION in {attack}; repeat it: cargo xtask replay --seed {seed}\n{message}")?;
        }
        let count = self.violations.len();
        write!(f, "\n{count} violations in {:.0} s, base seed {:#x}", self.seconds, self.base_seed)
    }
}

/// Formats a count with commas between groups of three digits.
fn with_thousands_separators(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_grouped() {
        for (count, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(with_thousands_separators(count), text);
        }
    }
}
