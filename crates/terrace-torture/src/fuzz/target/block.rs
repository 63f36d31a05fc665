//! Blocks of a table.

use std::sync::Arc;

use terrace_format::block::{
    Block, BlockBuilder, BlockContents, BlockIter, BlockSource, RESTART_INDEX_WORDS, RestartIndex,
    SearchStart,
};
use terrace_format::comparator::bytewise;
use terrace_format::key_order::KeyOrder;
use terrace_format::{DecodeError, InternalIterator};

use crate::fuzz::Target;
use crate::fuzz::input_format::InputFormat;

pub(super) const TARGET: Target = Target {
    name: "block",
    property: "a block iterates as a simple decoder reads it, in both directions, and seeks find each key of a valid block, also with a restart index",
    format: InputFormat::NoChecksums,
    executions_per_case: 10_000,
    seed_inputs: seeds,
    run,
};

fn seeds() -> Vec<Vec<u8>> {
    let build = |interval, keys: &[&str]| {
        let mut builder = BlockBuilder::new(interval);
        for key in keys {
            builder.add(key.as_bytes(), &[b'v'; 5]);
        }
        builder.finish().to_vec()
    };
    let keys = ["apple", "apples", "apply", "banana", "band", "bandana", "candle"];
    let internal = ["apple\x01\0\0\0\0\0\0\0", "band\x01\x02\0\0\0\0\0\0", "band\x01\x01\0\0\0\0\0\0"];
    vec![build(16, &[]), build(16, &keys), build(2, &keys), build(1, &keys), build(1, &internal)]
}

/// Block with a restart index.
struct IndexedBlock<'a> {
    bytes: &'a [u8],
    index: RestartIndex,
}

impl BlockSource for IndexedBlock<'_> {
    fn block_contents(&self) -> BlockContents<'_> {
        self.index.contents(self.bytes)
    }

    fn search_start(&self, target: &[u8]) -> Result<SearchStart, DecodeError> {
        self.index.search_start(self.block_contents(), target)
    }
}

/// Entry that the test decoded with simple code.
struct DecodedEntry {
    offset: usize,
    shared: usize,
    key: Vec<u8>,
    value: Vec<u8>,
}

fn run(input: &[u8]) {
    let block = match Block::new(input.to_vec()) {
        Ok(block) => Arc::new(block),
        Err(error) => return assert!(error.offset <= input.len() as u64, "{error} offset {}", error.offset),
    };
    let (restarts, entries_end) = decode_restarts(input);
    let (decoded, complete) = decode_entries(&input[..entries_end], restarts.first().copied());
    let mut iter = BlockIter::new(block, bytewise());
    check_forward(&mut iter, &decoded, complete);
    let is_entry_start =
        |point: &usize| decoded.iter().any(|entry| entry.offset == *point && entry.shared == 0);
    let valid = complete && (decoded.is_empty() || restarts.iter().all(is_entry_start));
    check_backward(&mut iter, &decoded, valid);
    let is_sorted = decoded.windows(2).all(|pair| pair[0].key < pair[1].key);
    let targets = decoded.iter().map(|entry| entry.key.as_slice()).chain([input, b"", &[0xff; 9]]);
    for target in targets.take(100) {
        check_seeks(&mut iter, target, (valid && is_sorted).then_some(&decoded));
    }
    if valid && is_sorted {
        check_rebuilt(&decoded);
    }
    check_restart_index(input, &decoded, valid);
    check_changed_block(input, &decoded);
}

/// Checks that seeks with the restart index of the block find each key, if all keys are internal
/// keys in their order.
fn check_restart_index(input: &[u8], decoded: &[DecodedEntry], valid: bool) {
    let Some(last) = decoded.last() else { return };
    let contents = BlockContents::new(input).expect("checked before");
    let Some(index) = RestartIndex::new(contents, None, &last.key) else { return };
    let order = KeyOrder::Internal;
    let is_sorted = decoded.iter().all(|entry| entry.key.len() >= 8)
        && decoded.windows(2).all(|pair| order.compare(&pair[0].key, &pair[1].key).is_lt());
    let mut iter = BlockIter::new(IndexedBlock { bytes: input, index }, order);
    for entry in decoded.iter().take(100) {
        iter.seek(&entry.key);
        if valid && is_sorted {
            assert!(
                iter.valid() && iter.key() == entry.key && iter.value() == entry.value,
                "a seek with the restart index does not find the entry offset {}",
                entry.offset
            );
        }
    }
}

/// Searches the input with a restart index of arbitrary words, as if another program had changed
/// the block after the index was built. Only the end of each step is checked.
fn check_changed_block(input: &[u8], decoded: &[DecodedEntry]) {
    let word = |i: usize| {
        input.get(4 * i..).and_then(<[u8]>::first_chunk).map_or(u32::MAX, |b| u32::from_le_bytes(*b))
    };
    let words: [u32; RESTART_INDEX_WORDS] = std::array::from_fn(word);
    let mut header = words;
    // A plausible header: the entries end within the input.
    header[1] %= input.len() as u32 + 1;
    for words in [words, header] {
        let index = RestartIndex::from_words(words);
        let mut iter = BlockIter::new(IndexedBlock { bytes: input, index }, KeyOrder::Internal);
        for target in decoded.iter().map(|entry| entry.key.as_slice()).chain([input, b""]).take(8) {
            if let Ok(start) = index.search_start(iter.contents(), target) {
                let _ = iter.contents().seek_for_get(start, target);
            }
            iter.seek(target);
            for _ in 0..8 {
                if iter.valid() && !iter.prev_visible_fast(|_| true) {
                    iter.prev();
                }
            }
            iter.seek_to_last();
            while iter.valid() {
                iter.prev();
            }
        }
    }
}

/// Returns the restart points of a valid block, and the end of its entries.
fn decode_restarts(input: &[u8]) -> (Vec<usize>, usize) {
    let read_u32 = |offset: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| input[offset + i])) as usize;
    let count_at = input.len() - 4;
    let entries_end = count_at - 4 * read_u32(count_at);
    ((entries_end..count_at).step_by(4).map(read_u32).collect(), entries_end)
}

/// Returns the entries before the first invalid one, and true if all are valid.
fn decode_entries(entries: &[u8], start: Option<usize>) -> (Vec<DecodedEntry>, bool) {
    let mut decoded = Vec::new();
    let mut offset = start.unwrap_or(entries.len());
    let mut key = Vec::new();
    while offset < entries.len() {
        let mut head = offset;
        let [Some(shared), Some(unshared), Some(value_len)] = [0, 1, 2].map(|_| varint(entries, &mut head))
        else {
            return (decoded, false);
        };
        let key_end = head as u64 + unshared;
        let value_end = key_end + value_len;
        if shared > key.len() as u64 || value_end > entries.len() as u64 {
            return (decoded, false);
        }
        key.truncate(shared as usize);
        key.extend_from_slice(&entries[head..key_end as usize]);
        let value = entries[key_end as usize..value_end as usize].to_vec();
        decoded.push(DecodedEntry { offset, shared: shared as usize, key: key.clone(), value });
        offset = value_end as usize;
    }
    (decoded, true)
}

/// Decodes a varint32 and drops bits after the 32nd.
fn varint(bytes: &[u8], offset: &mut usize) -> Option<u64> {
    let mut value = 0u64;
    for shift in [0, 7, 14, 21, 28] {
        let byte = *bytes.get(*offset)?;
        *offset += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value & u64::from(u32::MAX));
        }
    }
    None
}

fn check_forward(iter: &mut BlockIter, decoded: &[DecodedEntry], complete: bool) {
    iter.seek_to_first();
    for entry in decoded {
        assert!(iter.valid(), "ends before the entry offset {}: {:?}", entry.offset, iter.status());
        assert!(
            iter.key() == entry.key && iter.value() == entry.value,
            "wrong entry offset {}",
            entry.offset
        );
        iter.next();
    }
    assert!(!iter.valid(), "an entry after the last");
    assert_eq!(iter.status().is_ok(), complete, "{:?}", iter.status());
}

/// Checks that backward iteration shows the same entries. For a block with wrong restart points, it
/// only checks that the iteration ends.
fn check_backward(iter: &mut BlockIter, decoded: &[DecodedEntry], valid: bool) {
    iter.seek_to_last();
    if !valid {
        let mut steps = 0;
        while iter.valid() {
            iter.prev();
            steps += 1;
            assert!(steps <= 1 << 20, "backward iteration does not end");
        }
        return;
    }
    for entry in decoded.iter().rev() {
        assert!(iter.valid(), "backward iteration ends before the entry offset {}", entry.offset);
        assert!(
            iter.key() == entry.key && iter.value() == entry.value,
            "backward iteration: wrong entry offset {}",
            entry.offset
        );
        iter.prev();
    }
    assert!(
        !iter.valid() && iter.status().is_ok(),
        "backward iteration: an entry or error before the first: {:?}",
        iter.status()
    );
}

fn check_seeks(iter: &mut BlockIter, target: &[u8], valid: Option<&Vec<DecodedEntry>>) {
    iter.seek(target);
    let Some(decoded) = valid else { return };
    match decoded.iter().find(|entry| entry.key.as_slice() >= target) {
        Some(entry) => assert!(
            iter.valid() && iter.key() == entry.key,
            "a seek does not find the entry offset {}",
            entry.offset
        ),
        None => assert!(!iter.valid(), "a seek finds a key below its target"),
    }
}

fn check_rebuilt(decoded: &[DecodedEntry]) {
    let mut builder = BlockBuilder::new(3);
    for entry in decoded {
        builder.add(&entry.key, &entry.value);
    }
    let size = builder.size_estimate();
    let bytes = builder.finish().to_vec();
    assert_eq!(bytes.len(), size);
    let block = Block::new(bytes).expect("a built block is valid");
    check_forward(&mut BlockIter::new(Arc::new(block), bytewise()), decoded, true);
}
