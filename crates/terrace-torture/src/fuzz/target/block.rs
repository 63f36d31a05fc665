//! Blocks of a table.

use std::sync::Arc;

use terrace_format::InternalIterator;
use terrace_format::block::{Block, BlockBuilder, BlockIter};
use terrace_format::comparator::bytewise;

use crate::fuzz::Target;
use crate::fuzz::input_format::InputFormat;

pub(super) const TARGET: Target = Target {
    name: "block",
    property: "a block reads as a plain decoder reads it, both ways, and every key of a sound one is found",
    format: InputFormat::NoChecksums,
    executions_per_case: 10_000,
    seed_inputs: seeds,
    run,
};

fn seeds() -> Vec<Vec<u8>> {
    let built = |interval, keys: &[&str]| {
        let mut builder = BlockBuilder::new(interval);
        keys.iter().for_each(|key| builder.add(key.as_bytes(), &[b'v'; 5]));
        builder.finish().to_vec()
    };
    let keys = ["apple", "apples", "apply", "banana", "band", "bandana", "candle"];
    vec![built(16, &[]), built(16, &keys), built(2, &keys), built(1, &keys)]
}

/// An entry, decoded in the plainest way.
struct DecodedEntry {
    at: usize,
    shared: usize,
    key: Vec<u8>,
    value: Vec<u8>,
}

fn run(input: &[u8]) {
    let block = match Block::new(input.to_vec()) {
        Ok(block) => Arc::new(block),
        Err(flaw) => return assert!(flaw.offset <= input.len() as u64, "{flaw} at {}", flaw.offset),
    };
    let (restarts, entries_end) = decode_restarts(input);
    let (plain, whole) = decode_entries(&input[..entries_end], restarts.first().copied());
    let mut iter = BlockIter::new(block, bytewise());
    check_forward(&mut iter, &plain, whole);
    let at_entry = |point: &usize| plain.iter().any(|entry| entry.at == *point && entry.shared == 0);
    let sound = whole && (plain.is_empty() || restarts.iter().all(at_entry));
    check_backward(&mut iter, &plain, sound);
    let rises = plain.windows(2).all(|pair| pair[0].key < pair[1].key);
    let targets = plain.iter().map(|entry| entry.key.as_slice()).chain([input, b"", &[0xff; 9]]);
    for target in targets.take(100) {
        check_seeks(&mut iter, target, (sound && rises).then_some(&plain));
    }
    if sound && rises {
        check_rebuilt(&plain);
    }
}

/// The restart points of a block that was taken, and where its entries end.
fn decode_restarts(input: &[u8]) -> (Vec<usize>, usize) {
    let number = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| input[at + i])) as usize;
    let count_at = input.len() - 4;
    let entries_end = count_at - 4 * number(count_at);
    ((entries_end..count_at).step_by(4).map(number).collect(), entries_end)
}

/// The entries up to the first that is broken, and whether there is none.
fn decode_entries(entries: &[u8], start: Option<usize>) -> (Vec<DecodedEntry>, bool) {
    let (mut plain, mut at, mut key) = (Vec::new(), start.unwrap_or(entries.len()), Vec::new());
    while at < entries.len() {
        let mut head = at;
        let [Some(shared), Some(unshared), Some(value_len)] = [0, 1, 2].map(|_| varint(entries, &mut head))
        else {
            return (plain, false);
        };
        let (key_end, value_end) = (head as u64 + unshared, head as u64 + unshared + value_len);
        if shared > key.len() as u64 || value_end > entries.len() as u64 {
            return (plain, false);
        }
        key.truncate(shared as usize);
        key.extend_from_slice(&entries[head..key_end as usize]);
        let value = entries[key_end as usize..value_end as usize].to_vec();
        plain.push(DecodedEntry { at, shared: shared as usize, key: key.clone(), value });
        at = value_end as usize;
    }
    (plain, true)
}

/// A varint32, of which bits beyond the 32nd are lost.
fn varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut value = 0u64;
    for shift in [0, 7, 14, 21, 28] {
        let byte = *bytes.get(*at)?;
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value & u64::from(u32::MAX));
        }
    }
    None
}

fn check_forward(iter: &mut BlockIter, plain: &[DecodedEntry], whole: bool) {
    iter.seek_to_first();
    for entry in plain {
        assert!(iter.valid(), "ends before the entry at {}: {:?}", entry.at, iter.status());
        assert!(iter.key() == entry.key && iter.value() == entry.value, "another entry at {}", entry.at);
        iter.next();
    }
    assert!(!iter.valid(), "an entry behind the last");
    assert_eq!(iter.status().is_ok(), whole, "{:?}", iter.status());
}

/// Of a block whose restart points are not where entries begin, only that it comes to an end.
fn check_backward(iter: &mut BlockIter, plain: &[DecodedEntry], sound: bool) {
    iter.seek_to_last();
    if !sound {
        let mut steps = 0;
        while iter.valid() {
            iter.prev();
            steps += 1;
            assert!(steps <= 1 << 20, "no end");
        }
        return;
    }
    for entry in plain.iter().rev() {
        assert!(iter.valid(), "backwards, ends before the entry at {}", entry.at);
        assert!(
            iter.key() == entry.key && iter.value() == entry.value,
            "backwards, another entry at {}",
            entry.at
        );
        iter.prev();
    }
    assert!(
        !iter.valid() && iter.status().is_ok(),
        "backwards, something before the first: {:?}",
        iter.status()
    );
}

fn check_seeks(iter: &mut BlockIter, target: &[u8], sound: Option<&Vec<DecodedEntry>>) {
    iter.seek(target);
    let Some(plain) = sound else { return };
    match plain.iter().find(|entry| entry.key.as_slice() >= target) {
        Some(entry) => assert!(
            iter.valid() && iter.key() == entry.key,
            "a search does not find the entry at {}",
            entry.at
        ),
        None => assert!(!iter.valid(), "a search finds a key below its target"),
    }
}

fn check_rebuilt(plain: &[DecodedEntry]) {
    let mut builder = BlockBuilder::new(3);
    plain.iter().for_each(|entry| builder.add(&entry.key, &entry.value));
    let size = builder.size_estimate();
    let bytes = builder.finish().to_vec();
    assert_eq!(bytes.len(), size);
    let block = Block::new(bytes).expect("what was built is taken");
    check_forward(&mut BlockIter::new(Arc::new(block), bytewise()), plain, true);
}
