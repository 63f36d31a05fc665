//! Tests of the Go program: its own tests pass, it returns the expected results, and it rejects
//! wrong values.
//!
//! Without Go or its modules the tests are skipped, with a message on standard error.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "starts a program")]

use std::io::Write;
use std::process::{Command, Output};

use terrace_bench::engine::{self, EngineRunner};
use terrace_bench::report::model::{PhaseInfo, PhaseResult, Settings};
use terrace_bench::run::measuring_process::ExternalProgram;
use terrace_bench::run::protocol::{Message, RunRequest};
use terrace_bench::run::stop_signal::StopSignal;
use terrace_bench::workload::expected_values::expected_results;
use terrace_bench::workload::phase_spec::{Kind, Order, PhaseSpec};

const ENGINES: [&str; 3] = ["goleveldb", "pebble", "badger"];

fn go(arguments: &[&str]) -> std::io::Result<Output> {
    Command::new("go").args(arguments).current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/go")).output()
}

/// Returns whether Go and the modules are available. The message bypasses the test harness, which
/// captures printed text.
fn can_build() -> bool {
    let missing = match go(&["mod", "download"]) {
        Ok(output) if output.status.success() => return true,
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(error) => format!("go: {error}"),
    };
    let _ = writeln!(std::io::stderr(), "NOT TESTED: goleveldb and Pebble: {}", missing.trim());
    false
}

fn phase(kind: Kind, order: Order, num: u64) -> PhaseSpec {
    let keyspace = 2000;
    PhaseSpec { kind, order, num, keyspace, settle: false, ..PhaseSpec::default() }
}

fn mix(order: Order, shares: &[(&str, f64)]) -> PhaseSpec {
    let mix = shares.iter().map(|(name, share)| ((*name).to_owned(), *share)).collect();
    PhaseSpec { mix, ..phase(Kind::Mixed, order, 1000) }
}

fn run_engine(id: &str, settings: Settings, phases: &[PhaseSpec]) -> Result<Vec<PhaseResult>, String> {
    let row = engine::by_id(id).expect("the engine is in the table");
    let found = (row.find)(None)?;
    assert!(!found.version.is_empty(), "{id} has no version");
    let EngineRunner::External { program, arguments, build } = found.runner else {
        panic!("{id} is not a program")
    };
    build()?;
    let dir = tempfile::tempdir().expect("a directory for the test");
    let phases = phases.iter().enumerate().map(|(row, workload)| {
        let name = format!("{:?}-{row}", workload.kind);
        PhaseInfo { row, name, workload: workload.clone() }
    });
    let dir = dir.path().to_owned();
    let phases = phases.collect();
    let request = RunRequest { engine: id.into(), path: None, dir, settings, phases };
    let mut results = Vec::new();
    ExternalProgram { path: program, arguments }.run(
        &request,
        None,
        &StopSignal::never(),
        &mut |message| {
            if let Message::Result(result) = message {
                results.push(*result);
            }
        },
    )?;
    Ok(results)
}

#[test]
fn go_tests_pass() {
    if !can_build() {
        return;
    }
    for arguments in [["vet", "./..."], ["test", "./..."]] {
        let output = go(&arguments).expect("go is installed");
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "go {arguments:?}: {text}");
    }
}

/// Every kind of operation, with one thread and with several, one by one and in batches.
fn every_kind() -> Vec<PhaseSpec> {
    vec![
        PhaseSpec { fresh: true, ..phase(Kind::Put, Order::Random, 2000) },
        phase(Kind::Get, Order::Random, 1000),
        PhaseSpec { threads: 3, ..phase(Kind::Get, Order::Hot, 1000) },
        phase(Kind::Get, Order::Missing, 1000),
        phase(Kind::Scan, Order::Seq, 2000),
        PhaseSpec { threads: 2, cache_bytes: Some(1 << 20), ..phase(Kind::Scan, Order::Reverse, 2000) },
        phase(Kind::Seek, Order::Random, 100),
        phase(Kind::Open, Order::Seq, 1),
        PhaseSpec { settle: true, ..phase(Kind::Compact, Order::Seq, 1) },
        PhaseSpec { threads: 2, batch: 7, ..phase(Kind::Delete, Order::Seq, 500) },
        PhaseSpec { batch: 7, ..phase(Kind::Put, Order::Seq, 2000) },
        PhaseSpec { writers: 2, ..phase(Kind::Get, Order::Random, 1000) },
        PhaseSpec { writers: 1, write_rate: 1000, ..phase(Kind::Get, Order::Random, 1000) },
        PhaseSpec { sync_every: 50, ..phase(Kind::Put, Order::Random, 200) },
        mix(Order::Zipf, &[("get", 0.5), ("put", 0.5)]),
        mix(Order::Latest, &[("get", 0.5), ("insert", 0.2), ("scan", 0.2), ("rmw", 0.1)]),
        phase(Kind::Scan, Order::Seq, 5000),
    ]
}

#[test]
fn results_are_as_expected() {
    if !can_build() {
        return;
    }
    let phases = every_kind();
    let expected = expected_results(phases.iter());
    let explicit = Settings {
        write_buffer_bytes: Some(4 << 20),
        cache_bytes: Some(8 << 20),
        filter_bits: Some(10),
        compression: Some("snappy".into()),
    };
    for (engine, settings) in
        ENGINES.into_iter().flat_map(|id| [(id, Settings::default()), (id, explicit.clone())])
    {
        let results = run_engine(engine, settings, &phases).expect("no phase fails");
        assert_eq!(results.len(), phases.len());
        for ((result, phase), expected) in results.iter().zip(&phases).zip(&expected) {
            let context = format!("{engine}, row {}: {phase:?}", result.row);
            let expected = expected.expect("no phase has a time limit");
            assert_eq!(Some(result.found), expected.found, "{context}");
            check_complete(result, phase, &context);
        }
    }
}

/// The program itself checks the sum of all counts after each phase.
#[test]
fn transactions_lose_no_update() {
    if !can_build() {
        return;
    }
    let phases = [
        PhaseSpec { fresh: true, ..phase(Kind::Put, Order::Seq, 2000) },
        PhaseSpec { threads: 4, keyspace: 16, ..phase(Kind::TxnReadModifyWrite, Order::Random, 4000) },
        PhaseSpec { threads: 2, seek_next: 100, ..phase(Kind::TxnScan, Order::Random, 200) },
        phase(Kind::Scan, Order::Seq, 2000),
        phase(Kind::TxnPut, Order::Random, 1000),
        phase(Kind::TxnReadModifyWrite, Order::Random, 1000),
        phase(Kind::Get, Order::Random, 1000),
    ];
    let results = run_engine("badger", Settings::default(), &phases).expect("no phase fails");
    let found: Vec<u64> = results.iter().map(|result| result.found).collect();
    assert_eq!(found, [0, 4000, 200, 2000, 0, 1000, 1000]);
    let refused = run_engine("pebble", Settings::default(), &phases[..2]).expect_err("there are none");
    assert_eq!(refused, "the engine has no transactions");
}

/// Regression: the reads after a load with a time limit found fewer entries in slow engines.
#[test]
fn load_is_completed_after_its_time_limit() {
    if !can_build() {
        return;
    }
    let num = 2_000_000;
    let load = PhaseSpec { fresh: true, keyspace: num, ..phase(Kind::Put, Order::Seq, num) };
    let phases = [
        PhaseSpec { duration_limit_s: 1, completes: true, ..load.clone() },
        PhaseSpec { keyspace: num, ..phase(Kind::Scan, Order::Seq, num) },
        PhaseSpec { keyspace: num, duration_min_s: 2, ..phase(Kind::Get, Order::Random, 10) },
        PhaseSpec { duration_min_s: 1, ..phase(Kind::Open, Order::Seq, 1) },
    ];
    // Badger puts each key in a transaction, and would need a minute.
    for engine in ["goleveldb", "pebble"] {
        let results = run_engine(engine, Settings::default(), &phases).expect("no phase fails");
        assert!(results[0].ops < num && results[0].seconds >= 1.0, "{engine}: {} puts", results[0].ops);
        assert_eq!(results[1].found, num, "{engine}");
        assert!(results[2].seconds >= 2.0 && results[2].found == results[2].ops, "{engine}");
        assert!(results[3].seconds >= 1.0 && results[3].ops > 1, "{engine}");
    }
}

/// Checks that a result has all its measurements, and that they are consistent.
fn check_complete(result: &PhaseResult, phase: &PhaseSpec, context: &str) {
    let ops = if phase.kind == Kind::Scan { result.found } else { phase.num };
    assert_eq!(result.ops, ops, "{context}");
    assert_eq!(result.latency_ns.histogram.iter().map(|(_, count)| count).sum::<u64>(), ops, "{context}");
    assert_eq!(result.windows_100ms.iter().sum::<u64>(), ops, "{context}");
    assert_eq!(result.windows_1s.iter().sum::<u64>(), ops, "{context}");
    assert!(result.latency_ns.max >= result.latency_ns.p50 && result.latency_ns.mean > 0, "{context}");
    assert!(result.seconds > 0.0 && result.ops_per_second > 0.0, "{context}");
    assert!(result.peak_rss_bytes > Some(1 << 20) && result.space_bytes > Some(0), "{context}");
    assert!(result.cpu_seconds.is_some() && result.device_bytes_written.is_some(), "{context}");
    let puts = matches!(phase.kind, Kind::Put | Kind::Delete | Kind::Mixed) || phase.writers > 0;
    assert_eq!(
        (result.write_amplification.is_some(), result.quiet_seconds.is_some()),
        (puts, phase.settle),
        "{context}"
    );
}

#[test]
fn wrong_value_is_rejected() {
    if !can_build() {
        return;
    }
    // The values that are put differ from the expected values.
    let put = PhaseSpec { fresh: true, value_compress: 0.2, ..phase(Kind::Put, Order::Seq, 2000) };
    for (engine, kind) in
        ENGINES.into_iter().flat_map(|id| [(id, Kind::Get), (id, Kind::Scan), (id, Kind::Seek)])
    {
        let phases = [put.clone(), phase(kind, Order::Seq, 10)];
        let error = run_engine(engine, Settings::default(), &phases).expect_err("every value is wrong");
        assert!(error.starts_with("wrong value at key 0: found "), "{engine}, {kind:?}: {error}");
    }
}

#[test]
fn invalid_request_is_rejected() {
    if !can_build() {
        return;
    }
    let none = PhaseSpec { threads: 0, ..phase(Kind::Put, Order::Seq, 10) };
    for engine in ENGINES {
        let error =
            run_engine(engine, Settings::default(), std::slice::from_ref(&none)).expect_err("no thread");
        assert_eq!(error, "a phase needs threads, a keyspace and a key_size");
    }
}
