//! Stored form of batches, compared with LevelDB's, and damaged batches.

use super::*;
use crate::key::MAX_SEQUENCE_NUMBER;
use proptest::prelude::*;

const PUT: BatchOp<'_> = BatchOp::Put { key: b"apple", value: b"red" };
const DELETE: BatchOp<'_> = BatchOp::Delete { key: b"banana" };

/// Stored form of a batch of `PUT` and `DELETE`, as LevelDB 1.23 writes it.
const REP: &[u8] = b"\0\0\0\0\0\0\0\0\x02\0\0\0\x01\x05apple\x03red\x00\x06banana";

fn batch(ops: &[BatchOp<'_>]) -> WriteBatch {
    let mut batch = WriteBatch::new();
    for op in ops {
        match op {
            BatchOp::Put { key, value } => batch.put(key, value),
            BatchOp::Delete { key } => batch.delete(key),
        };
    }
    batch
}

/// Returns `REP` with `bytes` at `offset`.
fn changed(offset: usize, bytes: &[u8]) -> Vec<u8> {
    let mut rep = REP.to_vec();
    rep[offset..offset + bytes.len()].copy_from_slice(bytes);
    rep
}

#[test]
fn leveldb_encoding() {
    let batch = batch(&[PUT, DELETE]);
    assert_eq!(batch.as_bytes(), REP);
    assert_eq!((batch.len(), batch.is_empty(), batch.approximate_size()), (2, false, REP.len()));
    assert_eq!(batch.iter().collect::<Vec<_>>(), [PUT, DELETE]);
}

#[test]
fn empty() {
    for batch in [WriteBatch::new(), WriteBatch::default(), WriteBatch::from_bytes(vec![0; 12]).unwrap()] {
        assert_eq!(batch.as_bytes(), [0; 12]);
        assert!(batch.is_empty() && batch.iter().next().is_none());
    }
}

#[test]
fn cleared() {
    let mut batch = batch(&[PUT, DELETE]);
    batch.set_sequence(9);
    batch.clear();
    assert_eq!(batch, WriteBatch::new());
}

#[test]
fn appended() {
    let mut whole = batch(&[PUT]);
    whole.set_sequence(7);
    let mut other = batch(&[DELETE, PUT]);
    other.set_sequence(100);
    whole.append(&other);
    whole.append(&WriteBatch::new());
    assert_eq!(whole.iter().collect::<Vec<_>>(), [PUT, DELETE, PUT]);
    assert_eq!((whole.len(), whole.sequence()), (3, 7));
}

#[test]
fn borrowed() {
    let rep = changed(0, &[9]);
    let batch = validate(&rep).unwrap();
    assert_eq!((batch.sequence(), batch.len(), batch.is_empty()), (9, 2, false));
    assert_eq!(batch.iter().collect::<Vec<_>>(), [PUT, DELETE]);
    assert_eq!(batch.rep(), rep);
}

#[track_caller]
fn check_error(rep: &[u8], offset: u64, expect: &str) {
    let error = validate(rep).unwrap_err();
    assert_eq!((error.offset, error.to_string().as_str()), (offset, expect));
    assert_eq!(WriteBatch::from_bytes(rep.to_vec()), Err(error));
}

#[test]
fn hostile_batches() {
    check_error(&REP[..11], 0, "11 bytes, expected 12 for a batch");
    check_error(&changed(8, &[1]), 8, "2 operations, expected 1 as stored");
    check_error(&changed(8, &[255, 255, 255, 255]), 8, "2 operations, expected 4294967295 as stored");
    check_error(&changed(12, &[2]), 12, "batch tag 2, expected 0 or 1");
    check_error(&changed(13, &[200, 1]), 15, "16 bytes, expected 200 for a put's key");
    check_error(&changed(13, &[0xff; 5]), 13, "an integer of more than 5 bytes, expected a put's key");
    check_error(&changed(24, &[7]), 25, "6 bytes, expected 7 for a delete's key");
    check_error(&changed(24, &[5]), 30, "batch tag 97, expected 0 or 1");
}

#[test]
fn sequence_numbers_at_the_end_of_their_range() {
    let starting = |sequence: u64| changed(0, &sequence.to_le_bytes());
    assert!(validate(&starting(MAX_SEQUENCE_NUMBER - 1)).is_ok());
    let expect = "sequence number 72057594037927935 for 2 operations, expected at most 72057594037927935";
    check_error(&starting(MAX_SEQUENCE_NUMBER), 0, expect);
    assert!(validate(&starting(u64::MAX)).is_err());
}

#[test]
fn truncated_at_every_byte() {
    for cut in 0..REP.len() {
        assert!(validate(&REP[..cut]).is_err(), "{cut} bytes");
    }
}

proptest! {
    #[test]
    fn round_trips(
        ops in proptest::collection::vec(any::<(Vec<u8>, Option<Vec<u8>>)>(), 0..20),
        sequence in 0..MAX_SEQUENCE_NUMBER / 2,
    ) {
        let ops: Vec<BatchOp<'_>> = ops.iter().map(|(key, value)| match value {
            Some(value) => BatchOp::Put { key, value },
            None => BatchOp::Delete { key },
        }).collect();
        let mut batch = batch(&ops);
        batch.set_sequence(sequence);
        let back = WriteBatch::from_bytes(batch.as_bytes().to_vec()).unwrap();
        prop_assert_eq!(back.iter().collect::<Vec<_>>(), ops);
        prop_assert_eq!(back.sequence(), sequence);
    }

    #[test]
    fn arbitrary_bytes_never_panic(
        count in 0u8..4,
        records in proptest::collection::vec(prop_oneof![0u8..4, any::<u8>()], 0..20),
    ) {
        let rep = [&[0, 0, 0, 0, 0, 0, 0, 0, count, 0, 0, 0], &records[..]].concat();
        if let Ok(batch) = validate(&rep) {
            prop_assert_eq!(batch.iter().count(), batch.len());
        }
    }
}

#[test]
fn batch_without_a_refused_operation() {
    // Its pages are never touched, so it takes no memory.
    let large = vec![0; MAX_KEY_OR_VALUE_LEN + 1];
    let mut batch = WriteBatch::new();
    batch.put("a", "1");
    let earlier = batch.clone();
    assert!(!batch.try_add(|batch| _ = batch.put("b", "2").put("c", &large)));
    assert!(!batch.try_add(|batch| _ = batch.delete(&large)));
    assert!(batch == earlier && !batch.is_oversized());
    assert!(batch.try_add(|batch| _ = batch.put("b", "2").delete("a")));
    assert_eq!(batch.len(), 3);
    batch.put("c", &large);
    assert!(batch.try_add(|batch| _ = batch.delete("c")));
    assert!(batch.is_oversized(), "an earlier refusal stays");
}
