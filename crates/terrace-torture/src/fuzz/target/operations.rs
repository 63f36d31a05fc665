//! Lists of operations, against the model.

use std::path::Path;

use terrace::Env;
use terrace_env::Deterministic;
use terrace_testkit::model::Model;
use terrace_testkit::op::{Op, Range, Shape, Step, Value, Write};
use terrace_testkit::rng::Rng;
use terrace_testkit::run::Plan;
use terrace_testkit::settings::{Order, Settings};

use crate::fuzz::Target;
use crate::fuzz::form::Form;
use crate::subject::Engine;

pub(super) const TARGET: Target = Target {
    name: "operations",
    shows: "any list of operations is answered as by an ordered map",
    form: Form::Plain,
    runs: 200,
    seeds,
    run,
};

/// What an operation takes of the input, and the most of them in a list.
const OPERATION: usize = 4;
const OPERATIONS_MAX: usize = 300;

fn seeds() -> Vec<Vec<u8>> {
    let random = |seed| {
        let mut rng = Rng::new(seed);
        (0..2 + 60 * OPERATION).map(|_| rng.next_u64() as u8).collect()
    };
    (0..8).map(random).collect()
}

fn run(input: &[u8]) {
    let Some((&[order, settings], rest)) = input.split_first_chunk::<2>() else { return };
    let order = if order % 4 == 0 { Order::Reverse } else { Order::Bytewise };
    let settings = Settings::draw(&mut Rng::new(settings.into()), order);
    let shape = Shape {
        order,
        keys: 0,
        value_min: 0,
        value_max: 0,
        own: true,
        upheavals: false,
        sync_one_in: 0,
        strata: false,
    };
    let (operations, _) = rest.as_chunks::<OPERATION>();
    let ops = operations.iter().take(OPERATIONS_MAX).map(|bytes| operation(*bytes, order)).collect();
    let plan = Plan { seed: 0, shape, settings, ops };
    let env = Env { scheduler: Deterministic::new(0), ..Env::memory() };
    let mut engine = Engine::open(Path::new("db"), &plan.settings, &env).expect("an empty directory opens");
    if let Err(report) = plan.run(&mut engine, &mut Model::new(order)) {
        panic!("{report}");
    }
}

/// Kind, key, another key or a length, a slot.
fn operation([kind, a, b, c]: [u8; OPERATION], order: Order) -> Op {
    let (slot, at, sync) = (usize::from(c & 3), (c & 4 != 0).then_some(usize::from(c >> 6)), c & 8 != 0);
    match kind % 32 {
        0..8 => Op::Put { key: key(a), value: value(b, c), sync },
        8..11 => Op::Delete { key: key(a), sync },
        11..14 => Op::Batch { writes: writes(a, b, c), sync },
        14..18 => Op::Get { key: key(a), at },
        18 => Op::Scan { at },
        19 => Op::Take { slot },
        20 => Op::Release { slot },
        21 => Op::Open { slot, at, range: range(a, b, c, order) },
        22..26 => Op::Step { slot, step: step(a, b) },
        26 => Op::Close { slot },
        27 if c & 64 != 0 => Op::Erase { begin: bound(a, c & 16), end: bound(b, c & 32) },
        27 => Op::Flush,
        28 => Op::Compact { begin: bound(a, c & 16), end: bound(b, c & 32) },
        29 => Op::Reopen,
        30 => Op::ReopenWith { seed: u64::from(a) },
        _ => Op::Size { begin: key(a), end: key(b) },
    }
}

/// Few keys, some of which begin others: chances are that operations meet.
fn key(byte: u8) -> Vec<u8> {
    let letter = [b'a', b'b', 0, 0xff][usize::from(byte & 3)];
    vec![letter; usize::from(byte >> 2 & 7)].into_iter().chain((byte >= 128).then_some(byte)).collect()
}

fn value(len: u8, seed: u8) -> Value {
    let len = match len {
        0..128 => u32::from(len) / 4,
        128..250 => u32::from(len) * 8,
        _ => u32::from(len) * 200,
    };
    Value { len, seed: seed.into() }
}

fn writes(a: u8, b: u8, c: u8) -> Vec<Write> {
    let write = |i: u8| {
        let key = key(a.wrapping_add(i.wrapping_mul(b)));
        if (c >> (i % 8)) & 1 == 0 { Write::Put { key, value: value(i, b) } } else { Write::Delete { key } }
    };
    (0..c % 12).map(write).collect()
}

fn range(a: u8, b: u8, c: u8, order: Order) -> Range {
    // A prefix means something only in the order of the bytes.
    let prefix = bound(a, c & 128).filter(|_| order == Order::Bytewise);
    Range { lower: bound(a, c & 16), upper: bound(b, c & 32), prefix }
}

fn bound(byte: u8, given: u8) -> Option<Vec<u8>> {
    (given != 0).then(|| key(byte))
}

fn step(a: u8, b: u8) -> Step {
    match b % 8 {
        0 => Step::First,
        1 => Step::Last,
        2 => Step::Seek(key(a)),
        3..6 => Step::Next,
        _ => Step::Prev,
    }
}
