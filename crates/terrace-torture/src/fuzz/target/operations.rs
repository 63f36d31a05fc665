//! Lists of operations, against the model.

use std::path::Path;

use terrace::Env;
use terrace_env::DeterministicScheduler;
use terrace_testkit::differential::Workload;
use terrace_testkit::model::Model;
use terrace_testkit::op::{IteratorBounds, IteratorMove, Op, ValueSpec, WorkloadParams, Write};
use terrace_testkit::rng::Rng;
use terrace_testkit::settings::{ComparatorKind, Settings};

use crate::database_under_test::TerraceUnderTest;
use crate::fuzz::Target;
use crate::fuzz::input_format::InputFormat;

pub(super) const TARGET: Target = Target {
    name: "operations",
    property: "any list of operations is answered as by an ordered map",
    format: InputFormat::NoChecksums,
    executions_per_case: 200,
    seed_inputs: seeds,
    run,
};

/// What an operation takes of the input, and the most of them in a list.
const BYTES_PER_OPERATION: usize = 4;
const MAX_OPERATIONS: usize = 300;

fn seeds() -> Vec<Vec<u8>> {
    let random = |seed| {
        let mut rng = Rng::new(seed);
        (0..2 + 60 * BYTES_PER_OPERATION).map(|_| rng.next_u64() as u8).collect()
    };
    (0..8).map(random).collect()
}

fn run(input: &[u8]) {
    let Some((&[order, settings], rest)) = input.split_first_chunk::<2>() else { return };
    let order = if order % 4 == 0 { ComparatorKind::Reverse } else { ComparatorKind::Bytewise };
    let settings = Settings::draw(&mut Rng::new(settings.into()), order);
    let shape = WorkloadParams {
        comparator: order,
        keys: 0,
        value_min: 0,
        value_max: 0,
        terrace_only_features: true,
        lifecycle_ops: false,
        sync_one_in: 0,
        many_versions: false,
    };
    let (operations, _) = rest.as_chunks::<BYTES_PER_OPERATION>();
    let ops = operations.iter().take(MAX_OPERATIONS).map(|bytes| decode_operation(*bytes, order)).collect();
    let plan = Workload { seed: 0, params: shape, settings, ops };
    let env = Env { scheduler: DeterministicScheduler::new(0), ..Env::in_memory() };
    let mut engine =
        TerraceUnderTest::open(Path::new("db"), &plan.settings, &env).expect("an empty directory opens");
    if let Err(report) = plan.run(&mut engine, &mut Model::new(order)) {
        panic!("{report}");
    }
}

/// Kind, key, another key or a length, a slot.
fn decode_operation([kind, a, b, c]: [u8; BYTES_PER_OPERATION], order: ComparatorKind) -> Op {
    let (slot, at, sync) = (usize::from(c & 3), (c & 4 != 0).then_some(usize::from(c >> 6)), c & 8 != 0);
    match kind % 32 {
        0..8 => Op::Put { key: decode_key(a), value: decode_value(b, c), sync },
        8..11 => Op::Delete { key: decode_key(a), sync },
        11..14 => Op::Batch { writes: decode_writes(a, b, c), sync },
        14..18 => Op::Get { key: decode_key(a), snapshot: at },
        18 => Op::Scan { snapshot: at },
        19 => Op::TakeSnapshot { slot },
        20 => Op::ReleaseSnapshot { slot },
        21 => Op::OpenIterator { slot, snapshot: at, range: decode_range(a, b, c, order) },
        22..26 => Op::MoveIterator { slot, movement: decode_move(a, b) },
        26 => Op::CloseIterator { slot },
        27 if c & 64 != 0 => Op::DeleteRange { begin: decode_bound(a, c & 16), end: decode_bound(b, c & 32) },
        27 => Op::Flush,
        28 => Op::CompactRange { begin: decode_bound(a, c & 16), end: decode_bound(b, c & 32) },
        29 => Op::Reopen,
        30 => Op::ReopenWith { seed: u64::from(a) },
        _ => Op::ApproximateSize { begin: decode_key(a), end: decode_key(b) },
    }
}

/// Few keys, some of which begin others: chances are that operations meet.
fn decode_key(byte: u8) -> Vec<u8> {
    let letter = [b'a', b'b', 0, 0xff][usize::from(byte & 3)];
    vec![letter; usize::from(byte >> 2 & 7)].into_iter().chain((byte >= 128).then_some(byte)).collect()
}

fn decode_value(len: u8, seed: u8) -> ValueSpec {
    let len = match len {
        0..128 => u32::from(len) / 4,
        128..250 => u32::from(len) * 8,
        _ => u32::from(len) * 200,
    };
    ValueSpec { len, seed: seed.into() }
}

fn decode_writes(a: u8, b: u8, c: u8) -> Vec<Write> {
    let write = |i: u8| {
        let key = decode_key(a.wrapping_add(i.wrapping_mul(b)));
        if (c >> (i % 8)) & 1 == 0 {
            Write::Put { key, value: decode_value(i, b) }
        } else {
            Write::Delete { key }
        }
    };
    (0..c % 12).map(write).collect()
}

fn decode_range(a: u8, b: u8, c: u8, order: ComparatorKind) -> IteratorBounds {
    // A prefix means something only in the order of the bytes.
    let prefix = decode_bound(a, c & 128).filter(|_| order == ComparatorKind::Bytewise);
    IteratorBounds { lower: decode_bound(a, c & 16), upper: decode_bound(b, c & 32), prefix }
}

fn decode_bound(byte: u8, given: u8) -> Option<Vec<u8>> {
    (given != 0).then(|| decode_key(byte))
}

fn decode_move(a: u8, b: u8) -> IteratorMove {
    match b % 8 {
        0 => IteratorMove::SeekToFirst,
        1 => IteratorMove::SeekToLast,
        2 => IteratorMove::Seek(decode_key(a)),
        3..6 => IteratorMove::Next,
        _ => IteratorMove::Prev,
    }
}
