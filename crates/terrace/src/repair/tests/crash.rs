//! A crash at every call of a repair: what was there before is there after the next one.

use terrace_env::mem::{Crash, POWER_LOSS_PROFILES};
use terrace_testkit::crafted::{CraftedDb, CraftedLog, CraftedTable};

use super::*;

/// A kill, and a power cut of every profile.
fn crashes(seed: u64) -> Vec<(&'static str, Crash)> {
    let power = POWER_LOSS_PROFILES.iter().map(|profile| (profile.name, profile.crash_with_seed(seed)));
    std::iter::once(("kill", Crash::Kill)).chain(power).collect()
}

/// Stops a repair of `sick` before each of its calls, in every way; repairs again, and expects `healed`.
#[track_caller]
fn check(sick: &TestDb, healed: &str) {
    for call in 0.. {
        let patient = TestDb::on(sick.fs.crash_clone(&Crash::Kill));
        patient.fs.freeze_at(call);
        let done = repair(DIR, &patient.options, &RepairOptions::default()).is_ok();
        for (name, crash) in crashes(call) {
            let after = TestDb::on(patient.fs.crash_clone(&crash));
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

fn database() -> CraftedDb {
    let mut truncated = CraftedTable::new().put("a", 1, "old").put("b", 2, "B").encode();
    truncated.pop();
    CraftedDb::new()
        .table(0, 10, &CraftedTable::new().put("a", 1, "old").put("b", 2, "B"))
        .file("000010.ldb", truncated)
        .table(0, 11, &CraftedTable::new().put("a", 6, "new").delete("c", 7))
        .table(2, 12, &CraftedTable::new().put("c", 3, "hidden").put("d", 4, "D"))
        .table(2, 13, &CraftedTable::new().put("x", 5, "X"))
        .log(14, &CraftedLog::new().batch(8, &[("e", "E")]).record(b"not a batch").batch(9, &[("d", "DD")]))
}

const REPAIRED_CONTENTS: &str = "a=new b=B d=DD e=E x=X";

#[test]
fn crash_with_manifest() {
    check(&TestDb::fabricated(&database()), REPAIRED_CONTENTS);
}

#[test]
fn crash_without_manifest() {
    let patient = TestDb::fabricated(&database());
    patient.remove("MANIFEST");
    check(&patient, REPAIRED_CONTENTS);
}

#[test]
fn crash_without_current_and_manifest() {
    let patient = TestDb::fabricated(&database());
    patient.remove("MANIFEST");
    patient.remove("CURRENT");
    check(&patient, REPAIRED_CONTENTS);
}

#[test]
fn crash_with_damaged_manifest() {
    check(&TestDb::fabricated(&database().manifest_record(b"\xff damaged")), REPAIRED_CONTENTS);
}

/// Every read that fails is an error, and never a reason to leave something out.
#[test]
fn io_errors_never_lose_data() {
    use terrace_env::fault::{FaultFs, FaultPlan};
    let sick = TestDb::fabricated(&database().manifest_record(b"\xff damaged"));
    for op in ["open", "read", "create", "append", "sync", "rename", "sync-dir", "list", "stat", "close"] {
        for call in 1..60 {
            let plan: FaultPlan = format!("{op} * #{call} once EIO").parse().unwrap();
            let fs = Arc::new(sick.fs.crash_clone(&Crash::Kill));
            let mut patient = TestDb::on(fs.fork());
            patient.options.env =
                Env::with_file_system(Arc::new(FaultFs::new(Arc::clone(&patient.fs) as _, plan)));
            let names = patient.names();
            let outcome = repair(DIR, &patient.options, &RepairOptions::default());
            if outcome.is_err() && ["open", "read"].contains(&op) {
                let left: Vec<String> = patient.names().into_iter().filter(|name| name != "LOCK").collect();
                assert_eq!(left, names, "{op} {call}");
            }
            patient.options.env = Env::with_file_system(Arc::clone(&patient.fs) as _);
            repair(DIR, &patient.options, &RepairOptions::default()).unwrap();
            assert_eq!(patient.contents(), REPAIRED_CONTENTS, "{op} {call}");
        }
    }
}
