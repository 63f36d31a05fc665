//! Keys, values and operations are what `generators.txt` says. Programs in other languages read the
//! same file, so that every engine gets the same work (`go/generators_test.go`).

use terrace_bench::workload::keys::{self, SplitMix64, ValueGenerator, Zipf};
use terrace_bench::workload::ops::{Op, Ops};
use terrace_bench::workload::phase_spec::PhaseSpec;

#[test]
fn every_line_of_the_file() {
    let lines = include_str!("generators.txt").lines();
    let lines: Vec<_> = lines.filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    assert!(lines.len() >= 20, "only {} lines", lines.len());
    for line in lines {
        let (input, expect) = line.split_once(" = ").expect("a line has two sides");
        assert_eq!(generate(input), expect, "{input}");
    }
}

fn generate(input: &str) -> String {
    let (what, rest) = input.split_once(' ').expect("a name and its arguments");
    let words: Vec<&str> = rest.split(' ').collect();
    let number = |at: usize| words[at].parse::<u64>().expect("a number");
    match what {
        "splitmix" => {
            let mut random = SplitMix64(number(0));
            several(|| random.next_u64())
        }
        "key" | "missing" => key(number(0), number(1) as usize, what == "missing"),
        "value" => value(number(0), number(1) as usize, words[2].parse().expect("a share")),
        "zipf" => {
            let zipf = Zipf::new(number(0));
            let mut random = SplitMix64(number(1));
            several(|| zipf.next_rank(&mut random))
        }
        "zipf-to-scramble" => {
            let zipf = Zipf::for_scrambling();
            let mut random = SplitMix64(number(0));
            several(|| zipf.next_rank(&mut random))
        }
        "scramble" => keys::scramble(number(0), number(1)).to_string(),
        "ops" => operations(rest),
        other => panic!("{other} is nothing that can be generated"),
    }
}

fn several(mut next: impl FnMut() -> u64) -> String {
    let numbers: Vec<String> = (0..8).map(|_| next().to_string()).collect();
    numbers.join(" ")
}

fn key(n: u64, size: usize, missing: bool) -> String {
    let mut key = vec![0; size];
    keys::write_key(n, &mut key);
    if missing {
        keys::make_missing(&mut key);
    }
    String::from_utf8(key).expect("digits and a dot")
}

fn value(n: u64, size: usize, compress: f64) -> String {
    let values = ValueGenerator::new(size, compress);
    let mut value = Vec::new();
    values.write(n, &mut value);
    assert!(values.matches(n, &value));
    value.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Those of a thread: `1 {phase}` asks for those of thread 1.
fn operations(input: &str) -> String {
    let (thread, phase) = input.split_once(' ').expect("a thread and a phase");
    let mut fields =
        serde_json::json!({"num": 10, "keyspace": 1000, "threads": 2, "seed": 301, "seek_next": 10});
    let given: serde_json::Map<_, _> = serde_json::from_str(phase).expect("an object");
    fields.as_object_mut().expect("it is one").extend(given);
    let phase: PhaseSpec = serde_json::from_value(fields).expect("a phase");
    let words: Vec<String> = Ops::new(&phase, thread.parse().expect("a number")).map(word).collect();
    words.join(" ")
}

fn word(op: Op) -> String {
    match op {
        Op::Put(n) => format!("put:{n}"),
        Op::Delete(n) => format!("delete:{n}"),
        Op::Get(n) => format!("get:{n}"),
        Op::GetMissing(n) => format!("missing:{n}"),
        Op::NextEntry => "step".into(),
        Op::Seek(n, steps) => format!("seek:{n}+{steps}"),
        Op::ReadModifyWrite(n) => format!("rmw:{n}"),
        Op::TxnPut(n) => format!("txn-put:{n}"),
        Op::TxnReadModifyWrite(n) => format!("txn-rmw:{n}"),
        Op::TxnScan(n, entries) => format!("txn-scan:{n}+{entries}"),
        Op::Open => "open".into(),
        Op::Compact => "compact".into(),
        Op::Checkpoint => "checkpoint".into(),
        Op::Age => "age".into(),
    }
}
