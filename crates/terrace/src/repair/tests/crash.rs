//! A crash at every call of a repair: what was there before is there after the next one.

use terrace_env::mem::{Crash, PROFILES};
use terrace_testkit::fabricate::{Fabricated, Log, Table};

use super::*;

/// A kill, and a power cut of every profile.
fn crashes(seed: u64) -> Vec<(&'static str, Crash)> {
    let power = PROFILES.iter().map(|profile| (profile.name, profile.with_seed(seed)));
    std::iter::once(("kill", Crash::Kill)).chain(power).collect()
}

/// Stops a repair of `sick` before each of its calls, in every way; repairs again, and expects `healed`.
#[track_caller]
fn check(sick: &Patient, healed: &str) {
    for call in 0.. {
        let patient = Patient::on(sick.fs.crash(&Crash::Kill));
        patient.fs.freeze_at(call);
        let done = repair(DIR, &patient.options, &RepairOptions::default()).is_ok();
        for (name, crash) in crashes(call) {
            let after = Patient::on(patient.fs.crash(&crash));
            let context = format!("call {call}, {name}");
            let repaired = repair(DIR, &after.options, &RepairOptions::default());
            let report = repaired.unwrap_or_else(|error| panic!("{context}: {error}"));
            assert!(!done || !report.changed, "{context}: {report}");
            assert_eq!(after.contents(), healed, "{context}: {report}");
        }
        if done {
            assert!(call > 5, "the repair wrote something");
            return;
        }
    }
}

fn database() -> Fabricated {
    let mut truncated = Table::new().put("a", 1, "old").put("b", 2, "B").encode();
    truncated.pop();
    Fabricated::new()
        .table(0, 10, &Table::new().put("a", 1, "old").put("b", 2, "B"))
        .file("000010.ldb", truncated)
        .table(0, 11, &Table::new().put("a", 6, "new").delete("c", 7))
        .table(2, 12, &Table::new().put("c", 3, "hidden").put("d", 4, "D"))
        .table(2, 13, &Table::new().put("x", 5, "X"))
        .log(14, &Log::new().batch(8, &[("e", "E")]).record(b"not a batch").batch(9, &[("d", "DD")]))
}

const HEALED: &str = "a=new b=B d=DD e=E x=X";

#[test]
fn with_the_manifest() {
    check(&Patient::fabricated(&database()), HEALED);
}

#[test]
fn without_the_manifest() {
    let patient = Patient::fabricated(&database());
    patient.remove("MANIFEST");
    check(&patient, HEALED);
}

#[test]
fn without_current_and_manifest() {
    let patient = Patient::fabricated(&database());
    patient.remove("MANIFEST");
    patient.remove("CURRENT");
    check(&patient, HEALED);
}

#[test]
fn with_a_damaged_manifest() {
    check(&Patient::fabricated(&database().manifest_record(b"\xff damaged")), HEALED);
}

/// Every read that fails is an error, and never a reason to leave something out.
#[test]
fn failing_files() {
    use terrace_env::fault::{FaultFs, Plan};
    let sick = Patient::fabricated(&database().manifest_record(b"\xff damaged"));
    for op in ["open", "read", "create", "append", "sync", "rename", "sync-dir", "list", "stat", "close"] {
        for call in 1..60 {
            let plan: Plan = format!("{op} * #{call} once EIO").parse().unwrap();
            let fs = Arc::new(sick.fs.crash(&Crash::Kill));
            let mut patient = Patient::on(fs.fork());
            patient.options.env = Env::on(Arc::new(FaultFs::new(Arc::clone(&patient.fs) as _, plan)));
            let names = patient.names();
            let outcome = repair(DIR, &patient.options, &RepairOptions::default());
            if outcome.is_err() && ["open", "read"].contains(&op) {
                let left: Vec<String> = patient.names().into_iter().filter(|name| name != "LOCK").collect();
                assert_eq!(left, names, "{op} {call}");
            }
            patient.options.env = Env::on(Arc::clone(&patient.fs) as _);
            repair(DIR, &patient.options, &RepairOptions::default()).unwrap();
            assert_eq!(patient.contents(), HEALED, "{op} {call}");
        }
    }
}
