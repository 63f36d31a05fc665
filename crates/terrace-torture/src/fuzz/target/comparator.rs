//! Orders of keys, asked about keys that nobody made.

use std::sync::Arc;

use terrace_format::comparator::{Comparator, IndexedDb, bytewise};
use terrace_format::key::InternalComparator;

use crate::fuzz::Target;
use crate::fuzz::input_format::InputFormat;

pub(super) const TARGET: Target = Target {
    name: "comparator",
    property: "any three keys have one order, and a separator lies between its keys",
    format: InputFormat::NoChecksums,
    executions_per_case: 20_000,
    seed_inputs: seeds,
    run,
};

fn seeds() -> Vec<Vec<u8>> {
    let three = |a: &[u8], b: &[u8], c: &[u8]| [&[a.len() as u8, b.len() as u8], a, b, c].concat();
    vec![
        three(b"abc", b"abd", b"abcd"),
        three(b"k\x01\x07\0\0\0\0\0\0", b"k\0\x07\0\0\0\0\0\0", b"m\x01\x09\0\0\0\0\0\0"),
        // Records of an object store of IndexedDB: a text, a number, an array.
        three(
            b"\0\x01\x01\x01\x01\x02\0a\0b",
            b"\0\x01\x01\x01\x03\0\0\0\0\0\0\xf0\x3f",
            b"\0\x01\x01\x01\x04\x01\x05",
        ),
        three(b"\0\x01\0\0\xc8", b"\0\0\0\0\x01", b"\0\x01\x01\x1e\x01\x01\0a\x07\x06\x02xy"),
    ]
}

fn run(input: &[u8]) {
    let Some((&[first, second], rest)) = input.split_first_chunk::<2>() else { return };
    let (a, rest) = rest.split_at(rest.len().min(first.into()));
    let (b, c) = rest.split_at(rest.len().min(second.into()));
    let internal = |user| Arc::new(InternalComparator::new(user)) as Arc<dyn Comparator>;
    let orders: [Arc<dyn Comparator>; 4] =
        [bytewise(), Arc::new(IndexedDb), internal(bytewise()), internal(Arc::new(IndexedDb))];
    for order in orders {
        for (x, y, z) in [(a, b, c), (b, c, a), (c, a, b), (a, c, b), (c, b, a), (b, a, c)] {
            check_three_keys(&*order, x, y, z);
        }
    }
}

fn check_three_keys(order: &dyn Comparator, x: &[u8], y: &[u8], z: &[u8]) {
    let name = order.name();
    assert!(order.compare(x, x).is_eq(), "{name}: a key is not itself");
    assert_eq!(order.compare(x, y), order.compare(y, x).reverse(), "{name}: there and back");
    if order.compare(x, y).is_le() && order.compare(y, z).is_le() {
        assert!(order.compare(x, z).is_le(), "{name}: x <= y <= z, and x is not <= z");
    }
    if order.compare(x, y).is_lt() {
        let mut between = x.to_vec();
        order.shortest_separator(&mut between, y);
        assert!(order.compare(x, &between).is_le(), "{name}: a separator below its start");
        assert!(order.compare(&between, y).is_lt(), "{name}: a separator at or above its limit");
        assert!(between.len() <= x.len().max(8), "{name}: a separator that is longer");
    }
    let mut behind = x.to_vec();
    order.short_successor(&mut behind);
    assert!(order.compare(x, &behind).is_le(), "{name}: a successor below its key");
}
