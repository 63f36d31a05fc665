//! Crashes at every file operation of a repair: the next repair still recovers everything.

use terrace_env::mem::{Crash, POWER_LOSS_PROFILES};
use terrace_testkit::crafted::{CraftedDb, CraftedLog, CraftedTable};

use super::*;

/// Returns a process kill, and a power cut of every profile.
fn crashes(seed: u64) -> Vec<(&'static str, Crash)> {
    let power = POWER_LOSS_PROFILES.iter().map(|profile| (profile.name, profile.crash_with_seed(seed)));
    std::iter::once(("kill", Crash::Kill)).chain(power).collect()
}

/// Crashes a repair of `damaged` before each of its file operations, in every way. Repairs again
/// and expects `repaired_contents`.
#[track_caller]
fn check(damaged: &TestDb, repaired_contents: &str) {
    for call in 0.. {
        let test_db = TestDb::on(damaged.fs.crash_clone(&Crash::Kill));
        test_db.fs.freeze_at(call);
        let done = repair(DIR, &test_db.options, &RepairOptions::default()).is_ok();
        for (name, crash) in crashes(call) {
            let after = TestDb::on(test_db.fs.crash_clone(&crash));
            let context = format!("call {call}, {name}");
            let repaired = repair(DIR, &after.options, &RepairOptions::default());
            let report = repaired.unwrap_or_else(|error| panic!("{context}: {error}"));
            assert!(!done || !report.changed, "{context}: {report}");
            assert_eq!(after.contents(), repaired_contents, "{context}: {report}");
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
    check(&TestDb::from_crafted(&database()), REPAIRED_CONTENTS);
}

#[test]
fn crash_without_manifest() {
    let test_db = TestDb::from_crafted(&database());
    test_db.remove("MANIFEST");
    check(&test_db, REPAIRED_CONTENTS);
}

#[test]
fn crash_without_current_and_manifest() {
    let test_db = TestDb::from_crafted(&database());
    test_db.remove("MANIFEST");
    test_db.remove("CURRENT");
    check(&test_db, REPAIRED_CONTENTS);
}

#[test]
fn crash_with_damaged_manifest() {
    check(&TestDb::from_crafted(&database().manifest_record(b"\xff damaged")), REPAIRED_CONTENTS);
}

/// A failed read is always an error, never a reason to leave entries out.
#[test]
fn io_errors_never_lose_data() {
    use terrace_env::fault::{FaultFs, FaultPlan};
    let damaged = TestDb::from_crafted(&database().manifest_record(b"\xff damaged"));
    for op in ["open", "read", "create", "append", "sync", "rename", "sync-dir", "list", "stat", "close"] {
        for call in 1..60 {
            let plan: FaultPlan = format!("{op} * #{call} once EIO").parse().unwrap();
            let fs = Arc::new(damaged.fs.crash_clone(&Crash::Kill));
            let mut test_db = TestDb::on(fs.fork());
            test_db.options.env =
                Env::with_file_system(Arc::new(FaultFs::new(Arc::clone(&test_db.fs) as _, plan)));
            let names = test_db.names();
            let outcome = repair(DIR, &test_db.options, &RepairOptions::default());
            if outcome.is_err() && ["open", "read"].contains(&op) {
                let left: Vec<String> = test_db.names().into_iter().filter(|name| name != "LOCK").collect();
                assert_eq!(left, names, "{op} {call}");
            }
            test_db.options.env = Env::with_file_system(Arc::clone(&test_db.fs) as _);
            repair(DIR, &test_db.options, &RepairOptions::default()).unwrap();
            assert_eq!(test_db.contents(), REPAIRED_CONTENTS, "{op} {call}");
        }
    }
}
