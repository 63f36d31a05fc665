//! Lists of operations, compared with the model.

use std::path::Path;

use terrace::Env;
use terrace_env::DeterministicScheduler;
use terrace_testkit::differential::Workload;
use terrace_testkit::model::Model;
use terrace_testkit::op::{IteratorBounds, IteratorMove, KeyPattern, Op, ValueSpec, WorkloadParams, Write};
use terrace_testkit::rng::Rng;
use terrace_testkit::settings::{ComparatorKind, Settings};

use crate::database_under_test::TerraceUnderTest;
use crate::fuzz::Target;
use crate::fuzz::input_format::InputFormat;

pub(super) const TARGET: Target = Target {
    name: "operations",
    property: "all operations are answered as by an ordered map",
    format: InputFormat::NoChecksums,
    executions_per_case: 200,
    seed_inputs: seeds,
    run,
};

/// Number of input bytes for an operation.
const BYTES_PER_OPERATION: usize = 4;
/// Maximum number of operations in a list.
const MAX_OPERATIONS: usize = 300;

fn seeds() -> Vec<Vec<u8>> {
    let random = |seed| {
        let mut rng = Rng::new(seed);
        (0..2 + 60 * BYTES_PER_OPERATION).map(|_| rng.next_u64() as u8).collect()
    };
    (0..8).map(random).collect()
}

fn run(input: &[u8]) {
    let Some((&[comparator, settings], rest)) = input.split_first_chunk::<2>() else { return };
    let comparator = if comparator % 4 == 0 { ComparatorKind::Reverse } else { ComparatorKind::Bytewise };
    let settings = Settings::draw(&mut Rng::new(settings.into()), comparator);
    let params = WorkloadParams {
        comparator,
        keys: 0,
        value_min: 0,
        value_max: 0,
        terrace_only_features: true,
        lifecycle_ops: false,
        sync_one_in: 0,
        many_versions: false,
        key_pattern: KeyPattern::Random,
    };
    let (operations, _) = rest.as_chunks::<BYTES_PER_OPERATION>();
    let ops =
        operations.iter().take(MAX_OPERATIONS).map(|bytes| decode_operation(*bytes, comparator)).collect();
    let workload = Workload { seed: 0, params, settings, ops };
    let env = Env { scheduler: DeterministicScheduler::new(0), ..Env::in_memory() };
    let mut database =
        TerraceUnderTest::open(Path::new("db"), &workload.settings, &env).expect("an empty directory opens");
    if let Err(report) = workload.run(&mut database, &mut Model::new(comparator)) {
        panic!("{report}");
    }
}

/// Decodes an operation from its kind, a key, another key or a length, and a slot.
fn decode_operation([kind, a, b, c]: [u8; BYTES_PER_OPERATION], comparator: ComparatorKind) -> Op {
    let slot = usize::from(c & 3);
    let snapshot = (c & 4 != 0).then_some(usize::from(c >> 6));
    let sync = c & 8 != 0;
    match kind % 32 {
        0..8 => Op::Put { key: decode_key(a), value: decode_value(b, c), sync },
        8..11 => Op::Delete { key: decode_key(a), sync },
        11..14 => Op::Batch { writes: decode_writes(a, b, c), sync },
        14..18 => Op::Get { key: decode_key(a), snapshot },
        18 => Op::Scan { snapshot },
        19 => Op::TakeSnapshot { slot },
        20 => Op::ReleaseSnapshot { slot },
        21 => Op::OpenIterator { slot, snapshot, range: decode_range(a, b, c, comparator) },
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

/// Decodes one of a few keys, some of them prefixes of others, so that operations often use the
/// same key.
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

fn decode_range(a: u8, b: u8, c: u8, comparator: ComparatorKind) -> IteratorBounds {
    // A prefix has a meaning only in bytewise comparator.
    let prefix = decode_bound(a, c & 128).filter(|_| comparator == ComparatorKind::Bytewise);
    IteratorBounds { lower: decode_bound(a, c & 16), upper: decode_bound(b, c & 32), prefix }
}

fn decode_bound(byte: u8, present: u8) -> Option<Vec<u8>> {
    (present != 0).then(|| decode_key(byte))
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
