//! Comparators on arbitrary keys.

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
    let keys = |a: &[u8], b: &[u8], c: &[u8]| [&[a.len() as u8, b.len() as u8], a, b, c].concat();
    vec![
        keys(b"abc", b"abd", b"abcd"),
        keys(b"k\x01\x07\0\0\0\0\0\0", b"k\0\x07\0\0\0\0\0\0", b"m\x01\x09\0\0\0\0\0\0"),
        // Records of an IndexedDB object store: a string, a number, an array.
        keys(
            b"\0\x01\x01\x01\x01\x02\0a\0b",
            b"\0\x01\x01\x01\x03\0\0\0\0\0\0\xf0\x3f",
            b"\0\x01\x01\x01\x04\x01\x05",
        ),
        keys(b"\0\x01\0\0\xc8", b"\0\0\0\0\x01", b"\0\x01\x01\x1e\x01\x01\0a\x07\x06\x02xy"),
    ]
}

fn run(input: &[u8]) {
    let Some((&[first, second], rest)) = input.split_first_chunk::<2>() else { return };
    let (a, rest) = rest.split_at(rest.len().min(first.into()));
    let (b, c) = rest.split_at(rest.len().min(second.into()));
    let internal = |user| Arc::new(InternalComparator::new(user)) as Arc<dyn Comparator>;
    let comparators: [Arc<dyn Comparator>; 4] =
        [bytewise(), Arc::new(IndexedDb), internal(bytewise()), internal(Arc::new(IndexedDb))];
    for comparator in comparators {
        for (x, y, z) in [(a, b, c), (b, c, a), (c, a, b), (a, c, b), (c, b, a), (b, a, c)] {
            check_three_keys(&*comparator, x, y, z);
        }
    }
}

fn check_three_keys(comparator: &dyn Comparator, x: &[u8], y: &[u8], z: &[u8]) {
    let name = comparator.name();
    assert!(comparator.compare(x, x).is_eq(), "{name}: a key is not equal to itself");
    assert_eq!(
        comparator.compare(x, y),
        comparator.compare(y, x).reverse(),
        "{name}: the order is not antisymmetric"
    );
    if comparator.compare(x, y).is_le() && comparator.compare(y, z).is_le() {
        assert!(comparator.compare(x, z).is_le(), "{name}: x <= y <= z, and x is not <= z");
    }
    if comparator.compare(x, y).is_lt() {
        let mut between = x.to_vec();
        comparator.shortest_separator(&mut between, y);
        assert!(comparator.compare(x, &between).is_le(), "{name}: a separator below its start");
        assert!(comparator.compare(&between, y).is_lt(), "{name}: a separator at or above its limit");
        assert!(between.len() <= x.len().max(8), "{name}: a separator that is longer");
    }
    let mut successor = x.to_vec();
    comparator.short_successor(&mut successor);
    assert!(comparator.compare(x, &successor).is_le(), "{name}: a successor below its key");
}
