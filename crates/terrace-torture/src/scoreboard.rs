//! The figures of a run: JSON for a machine, a table for a person.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::counters::{Counters, FIGURES};
use crate::harness::Harness;
use crate::runner::{HarnessOutcome, Violation};

/// What a run did, and what it found.
#[derive(Debug, Serialize)]
pub struct Scoreboard {
    /// What the seeds were drawn from.
    pub base_seed: u64,
    /// The commit that was attacked, if it is known.
    pub commit: Option<String>,
    /// Seconds it took.
    pub seconds: f64,
    /// Each figure and its count.
    pub counters: Vec<CounterRow>,
    /// Each attack: cases, seconds, violations.
    pub attacks: Vec<HarnessRow>,
    /// Everything that went wrong: attack, seed, text.
    pub violations: Vec<ViolationRow>,
}

/// A figure.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "named by what they hold")]
pub struct CounterRow {
    pub name: &'static str,
    pub count: u64,
    pub goal: u64,
}

/// An attack.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "named by what they hold")]
pub struct HarnessRow {
    pub name: &'static str,
    pub property: &'static str,
    pub cases: u64,
    pub seconds: f64,
    pub violations: usize,
}

/// A violation.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "named by what they hold")]
pub struct ViolationRow {
    pub attack: &'static str,
    pub seed: String,
    pub message: String,
}

impl From<&Violation> for ViolationRow {
    fn from(violation: &Violation) -> ViolationRow {
        let Violation { harness, seed, message: what } = violation;
        ViolationRow { attack: harness, seed: seed.to_string(), message: what.clone() }
    }
}

impl Scoreboard {
    /// Empty, for a run that begins with `start`.
    pub fn new(start: u64, commit: Option<String>) -> Scoreboard {
        let (figures, attacks, violations) = (Vec::new(), Vec::new(), Vec::new());
        Scoreboard { base_seed: start, commit, seconds: 0.0, counters: figures, attacks, violations }
    }

    /// Enters what came of an attack.
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

    /// Closes it with the counts.
    pub fn finish(&mut self, tally: &Counters, took: Duration) {
        self.seconds = took.as_secs_f64();
        let row = |figure: &crate::counters::Figure| CounterRow {
            name: figure.name(),
            count: tally.get(*figure),
            goal: figure.goal(),
        };
        self.counters = FIGURES.iter().map(row).collect();
    }
}

impl fmt::Display for Scoreboard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<14} {:>10} {:>9} {:>10}  shows that", "attack", "cases", "seconds", "violations")?;
        for HarnessRow { name, property: shows, cases, seconds, violations } in &self.attacks {
            writeln!(f, "{name:<14} {cases:>10} {seconds:>9.1} {violations:>10}  {shows}")?;
        }
        writeln!(f, "\n{:<16} {:>14}", "figure", "count")?;
        for CounterRow { name, count, .. } in self.counters.iter().filter(|row| row.count > 0) {
            writeln!(f, "{name:<16} {:>14}", with_thousands_separators(*count))?;
        }
        for ViolationRow { attack, seed, message: what } in &self.violations {
            writeln!(f, "\nVIOLATION in {attack}; repeat it: cargo xtask replay --seed {seed}\n{what}")?;
        }
        let count = self.violations.len();
        write!(f, "\n{count} violations in {:.0} s, seeds from {:#x}", self.seconds, self.base_seed)
    }
}

/// With a comma between thousands.
fn with_thousands_separators(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
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
