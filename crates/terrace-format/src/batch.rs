//! A batch of writes, in memory as in the log.
//!
//! ```text
//!   0            8          12
//!   +------------+----------+---------------------------------------
//!   | sequence   | count    | 1 key value | 0 key | ..
//!   +------------+----------+---------------------------------------
//!    fixed64      fixed32    tag, slices (varint32 length, bytes); 1 puts, 0 deletes
//! ```
//!
//! The first operation has the sequence number in front, each next one the number behind it. Operations keep their
//! order, and of two on the same key the later one wins. There is no room for other tags.

use crate::coding::{MAX_VARINT32_LEN, SliceDecoder, get_fixed32, get_fixed64, put_length_prefixed_slice};
use crate::decode_error::{DecodeError, DecodeErrorKind};
use crate::key::{MAX_SEQUENCE_NUMBER, SequenceNumber, ValueType};

const COUNT_OFFSET: usize = 8;
/// Bytes before the first operation.
pub const BATCH_HEADER_SIZE: usize = 12;

/// Operations that take effect together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteBatch {
    /// Always the whole form of the picture above, with a count that is right.
    rep: Vec<u8>,
    /// True if an operation was too long, or one too many.
    oversized: bool,
}

/// The longest key or value, in bytes: a little less than 4 GiB, so that an internal key has a 32-bit length too.
pub const MAX_KEY_OR_VALUE_LEN: usize = u32::MAX as usize - 64;

/// One operation of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchOp<'a> {
    /// Give `key` this value.
    Put {
        /// The key.
        key: &'a [u8],
        /// Its value.
        value: &'a [u8],
    },
    /// Remove `key`.
    Delete {
        /// The key.
        key: &'a [u8],
    },
}

impl Default for WriteBatch {
    fn default() -> WriteBatch {
        WriteBatch { rep: vec![0; BATCH_HEADER_SIZE], oversized: false }
    }
}

impl WriteBatch {
    /// Without operations.
    ///
    /// ```
    /// use terrace_format::batch::WriteBatch;
    ///
    /// assert!(WriteBatch::new().is_empty());
    /// ```
    pub fn new() -> WriteBatch {
        WriteBatch::default()
    }

    /// From stored bytes, checked to the last one.
    ///
    /// ```
    /// use terrace_format::batch::WriteBatch;
    ///
    /// let mut batch = WriteBatch::new();
    /// batch.put(b"CH/Bern", b"46.95,7.45");
    /// let stored = batch.as_bytes().to_vec();
    /// assert_eq!(WriteBatch::from_bytes(stored)?, batch);
    /// assert!(WriteBatch::from_bytes(vec![0; 11]).is_err());
    /// # Ok::<(), terrace_format::Flaw>(())
    /// ```
    pub fn from_bytes(rep: Vec<u8>) -> Result<WriteBatch, DecodeError> {
        validate(&rep)?;
        Ok(WriteBatch { rep, oversized: false })
    }

    /// The stored form.
    ///
    /// ```
    /// use terrace_format::batch::WriteBatch;
    ///
    /// let mut batch = WriteBatch::new();
    /// batch.delete(b"k");
    /// assert_eq!(batch.as_bytes(), b"\0\0\0\0\0\0\0\0\x01\0\0\0\0\x01k");
    /// ```
    pub fn as_bytes(&self) -> &[u8] {
        &self.rep
    }

    /// Gives `key` a value. If either is longer than [`MAX_KEY_OR_VALUE_LEN`] the batch becomes one that no database takes.
    ///
    /// ```
    /// use terrace_format::batch::WriteBatch;
    ///
    /// let mut batch = WriteBatch::new();
    /// batch.put(b"CH/Bern", b"46.95,7.45");
    /// assert_eq!(batch.len(), 1);
    /// ```
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        if key.len().max(value.len()) > MAX_KEY_OR_VALUE_LEN {
            self.oversized = true;
            return;
        }
        self.rep.push(ValueType::Value as u8);
        put_length_prefixed_slice(&mut self.rep, key);
        put_length_prefixed_slice(&mut self.rep, value);
        self.add_count(1);
    }

    /// Removes `key`, be it there or not. If it is longer than [`MAX_KEY_OR_VALUE_LEN`] the batch becomes one that no database
    /// takes.
    ///
    /// ```
    /// use terrace_format::batch::WriteBatch;
    ///
    /// let mut batch = WriteBatch::new();
    /// batch.put(b"CH/Bern", b"46.95,7.45");
    /// batch.delete(b"CH/Bern"); // behind the put, so that it wins
    /// assert_eq!(batch.len(), 2);
    /// ```
    pub fn delete(&mut self, key: &[u8]) {
        if key.len() > MAX_KEY_OR_VALUE_LEN {
            self.oversized = true;
            return;
        }
        self.rep.push(ValueType::Deletion as u8);
        put_length_prefixed_slice(&mut self.rep, key);
        self.add_count(1);
    }

    /// Adds the operations of `other` behind these.
    ///
    /// ```
    /// use terrace_format::batch::WriteBatch;
    ///
    /// let (mut all, mut more) = (WriteBatch::new(), WriteBatch::new());
    /// all.put(b"CH/Bern", b"46.95,7.45");
    /// more.put(b"CH/Chur", b"46.85,9.53");
    /// all.append(&more);
    /// assert_eq!(all.len(), 2);
    /// ```
    pub fn append(&mut self, other: &WriteBatch) {
        self.rep.extend_from_slice(&other.rep[BATCH_HEADER_SIZE..]);
        self.oversized |= other.oversized;
        self.add_count(other.len());
    }

    /// True if a key or a value was too long, or there were 2^32 operations: no database takes such a batch.
    ///
    /// ```
    /// use terrace_format::batch::WriteBatch;
    ///
    /// let mut batch = WriteBatch::new();
    /// batch.put(b"CH/Bern", &[0; 1 << 20]);
    /// assert!(!batch.is_oversized(), "a mebibyte is far from 4 GiB");
    /// ```
    pub fn is_oversized(&self) -> bool {
        self.oversized
    }

    /// Drops all operations, keeps the memory.
    ///
    /// ```
    /// use terrace_format::batch::WriteBatch;
    ///
    /// let mut batch = WriteBatch::new();
    /// batch.put(b"CH/Bern", b"46.95,7.45");
    /// batch.clear();
    /// assert_eq!(batch, WriteBatch::new());
    /// ```
    pub fn clear(&mut self) {
        self.rep.truncate(BATCH_HEADER_SIZE);
        self.rep.fill(0);
        self.oversized = false;
    }

    /// How many operations.
    ///
    /// ```
    /// use terrace_format::batch::WriteBatch;
    ///
    /// let mut batch = WriteBatch::new();
    /// batch.delete(b"CH/Bern");
    /// batch.delete(b"CH/Bern");
    /// assert_eq!(batch.len(), 2, "every operation counts");
    /// ```
    pub fn len(&self) -> usize {
        self.as_batch_ref().len()
    }

    /// True without operations.
    ///
    /// ```
    /// use terrace_format::batch::WriteBatch;
    ///
    /// let mut batch = WriteBatch::new();
    /// assert!(batch.is_empty());
    /// batch.delete(b"CH/Bern");
    /// assert!(!batch.is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes that the batch takes in the log.
    ///
    /// ```
    /// use terrace_format::batch::WriteBatch;
    ///
    /// let mut batch = WriteBatch::new();
    /// while batch.approximate_size() < 1 << 16 {
    ///     batch.put(b"CH/Bern", b"46.95,7.45");
    /// }
    /// assert!(batch.len() > 3000);
    /// ```
    pub fn approximate_size(&self) -> usize {
        self.rep.len()
    }

    /// The operations in order.
    ///
    /// ```
    /// use terrace_format::batch::{BatchOp, WriteBatch};
    ///
    /// let mut batch = WriteBatch::new();
    /// batch.put(b"CH/Bern", b"46.95,7.45");
    /// batch.delete(b"CH/Berne");
    /// let keys = batch.iter().map(|op| match op {
    ///     BatchOp::Put { key, .. } | BatchOp::Delete { key } => key,
    /// });
    /// assert!(keys.eq([b"CH/Bern".as_slice(), b"CH/Berne"]));
    /// ```
    pub fn iter(&self) -> BatchOps<'_> {
        self.as_batch_ref().iter()
    }

    /// The sequence number of the first operation: 0 until the engine gave one.
    ///
    /// ```
    /// use terrace_format::batch::WriteBatch;
    ///
    /// assert_eq!(WriteBatch::new().sequence(), 0);
    /// ```
    pub fn sequence(&self) -> SequenceNumber {
        self.as_batch_ref().sequence()
    }

    /// Sets the sequence number of the first operation.
    ///
    /// ```
    /// use terrace_format::batch::WriteBatch;
    ///
    /// let mut batch = WriteBatch::new();
    /// batch.set_sequence(7);
    /// assert_eq!(batch.sequence(), 7);
    /// ```
    pub fn set_sequence(&mut self, sequence: SequenceNumber) {
        self.rep[..COUNT_OFFSET].copy_from_slice(&sequence.to_le_bytes());
    }

    fn as_batch_ref(&self) -> BatchRef<'_> {
        BatchRef { rep: &self.rep }
    }

    fn add_count(&mut self, more: usize) {
        match u32::try_from(self.len() + more) {
            Ok(count) => self.rep[COUNT_OFFSET..BATCH_HEADER_SIZE].copy_from_slice(&count.to_le_bytes()),
            Err(_) => self.oversized = true,
        }
    }
}

impl<'a> IntoIterator for &'a WriteBatch {
    type Item = BatchOp<'a>;
    type IntoIter = BatchOps<'a>;

    fn into_iter(self) -> BatchOps<'a> {
        self.iter()
    }
}

/// Appends the stored form of a batch of one operation to `record`: gives `key` a value, or removes it. Neither is longer
/// than [`MAX_KEY_OR_VALUE_LEN`].
///
/// ```
/// use terrace_format::batch::{WriteBatch, put_single};
///
/// let (mut batch, mut record) = (WriteBatch::new(), Vec::new());
/// batch.put(b"CH/Bern", b"46.95,7.45");
/// batch.set_sequence(7);
/// put_single(&mut record, 7, b"CH/Bern", Some(b"46.95,7.45"));
/// assert_eq!(record, batch.as_bytes());
/// ```
pub fn encode_single_op(record: &mut Vec<u8>, sequence: SequenceNumber, key: &[u8], value: Option<&[u8]>) {
    let kind = if value.is_some() { ValueType::Value } else { ValueType::Deletion };
    let mut header = [0; BATCH_HEADER_SIZE + 1];
    header[..COUNT_OFFSET].copy_from_slice(&sequence.to_le_bytes());
    header[COUNT_OFFSET..BATCH_HEADER_SIZE].copy_from_slice(&1u32.to_le_bytes());
    header[BATCH_HEADER_SIZE] = kind as u8;
    let slices = key.len() + value.map_or(0, <[u8]>::len) + 2 * MAX_VARINT32_LEN;
    record.reserve(header.len() + slices);
    record.extend_from_slice(&header);
    put_length_prefixed_slice(record, key);
    if let Some(value) = value {
        put_length_prefixed_slice(record, value);
    }
}

/// A batch in memory of somebody else, checked.
#[derive(Clone, Copy, Debug)]
pub struct BatchRef<'a> {
    rep: &'a [u8],
}

/// Takes `rep` for a batch if it is one: every operation whole, as many as it says, with sequence numbers in range.
pub fn validate(rep: &[u8]) -> Result<BatchRef<'_>, DecodeError> {
    if rep.len() < BATCH_HEADER_SIZE {
        return Err(DecodeError::truncated(0, "a batch", rep.len() as u64, BATCH_HEADER_SIZE as u64));
    }
    let batch = BatchRef { rep };
    let mut ops = batch.iter().decoder;
    let mut count = 0;
    while !ops.is_empty() {
        decode_op(&mut ops).map_err(|flaw| flaw.offset_by(BATCH_HEADER_SIZE as u64))?;
        count += 1;
    }
    if count != batch.len() {
        let found = format!("{count} operations");
        return Err(DecodeError::new(
            DecodeErrorKind::Malformed,
            COUNT_OFFSET as u64,
            found,
            format!("{} as stored", batch.len()),
        ));
    }
    if batch.sequence().checked_add(count as u64).is_none_or(|next| next > MAX_SEQUENCE_NUMBER + 1) {
        let found = format!("sequence number {} for {count} operations", batch.sequence());
        return Err(DecodeError::new(
            DecodeErrorKind::OutOfBounds,
            0,
            found,
            format!("at most {MAX_SEQUENCE_NUMBER}"),
        ));
    }
    Ok(batch)
}

impl<'a> BatchRef<'a> {
    /// The sequence number of the first operation.
    pub fn sequence(&self) -> SequenceNumber {
        get_fixed64(self.rep).unwrap_or_default()
    }

    /// How many operations.
    pub fn len(&self) -> usize {
        self.rep.get(COUNT_OFFSET..).and_then(get_fixed32).unwrap_or_default() as usize
    }

    /// True without operations.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The operations in order.
    pub fn iter(&self) -> BatchOps<'a> {
        BatchOps { decoder: SliceDecoder::new(&self.rep[BATCH_HEADER_SIZE..]) }
    }

    /// The stored form.
    pub fn rep(&self) -> &'a [u8] {
        self.rep
    }
}

/// The operations of a batch, in order.
#[derive(Clone, Debug)]
pub struct BatchOps<'a> {
    decoder: SliceDecoder<'a>,
}

impl<'a> Iterator for BatchOps<'a> {
    type Item = BatchOp<'a>;

    fn next(&mut self) -> Option<BatchOp<'a>> {
        // Checked when the batch was made, so the only flaw left is the end.
        decode_op(&mut self.decoder).ok()
    }
}

fn decode_op<'a>(from: &mut SliceDecoder<'a>) -> Result<BatchOp<'a>, DecodeError> {
    let at = from.offset();
    let tag = from.byte("a tag")?;
    match ValueType::from_byte(tag) {
        Some(ValueType::Value) => Ok(BatchOp::Put {
            key: from.length_prefixed_slice("a put's key")?,
            value: from.length_prefixed_slice("a put's value")?,
        }),
        Some(ValueType::Deletion) => {
            Ok(BatchOp::Delete { key: from.length_prefixed_slice("a delete's key")? })
        }
        None => Err(DecodeError::new(DecodeErrorKind::Unknown, at, format!("batch tag {tag}"), "0 or 1")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PUT: BatchOp<'_> = BatchOp::Put { key: b"apple", value: b"red" };
    const DELETE: BatchOp<'_> = BatchOp::Delete { key: b"banana" };

    /// The bytes that LevelDB 1.23 has for the two.
    const REP: &[u8] = b"\0\0\0\0\0\0\0\0\x02\0\0\0\x01\x05apple\x03red\x00\x06banana";

    fn batch(ops: &[BatchOp<'_>]) -> WriteBatch {
        let mut batch = WriteBatch::new();
        for op in ops {
            match op {
                BatchOp::Put { key, value } => batch.put(key, value),
                BatchOp::Delete { key } => batch.delete(key),
            }
        }
        batch
    }

    /// `REP` with these bytes at `at`.
    fn changed(at: usize, bytes: &[u8]) -> Vec<u8> {
        let mut rep = REP.to_vec();
        rep[at..at + bytes.len()].copy_from_slice(bytes);
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
        for batch in [WriteBatch::new(), WriteBatch::default(), WriteBatch::from_bytes(vec![0; 12]).unwrap()]
        {
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
    fn check_flaw(rep: &[u8], at: u64, expect: &str) {
        let flaw = validate(rep).unwrap_err();
        assert_eq!((flaw.offset, flaw.to_string().as_str()), (at, expect));
        assert_eq!(WriteBatch::from_bytes(rep.to_vec()), Err(flaw));
    }

    #[test]
    fn hostile_batches() {
        check_flaw(&REP[..11], 0, "11 bytes, expected 12 for a batch");
        check_flaw(&changed(8, &[1]), 8, "2 operations, expected 1 as stored");
        check_flaw(&changed(8, &[255, 255, 255, 255]), 8, "2 operations, expected 4294967295 as stored");
        check_flaw(&changed(12, &[2]), 12, "batch tag 2, expected 0 or 1");
        check_flaw(&changed(13, &[200, 1]), 15, "16 bytes, expected 200 for a put's key");
        check_flaw(&changed(13, &[0xff; 5]), 13, "an integer of more than 5 bytes, expected a put's key");
        check_flaw(&changed(24, &[7]), 25, "6 bytes, expected 7 for a delete's key");
        check_flaw(&changed(24, &[5]), 30, "batch tag 97, expected 0 or 1");
    }

    #[test]
    fn sequence_numbers_at_the_end_of_their_range() {
        let starting = |sequence: u64| changed(0, &sequence.to_le_bytes());
        assert!(validate(&starting(MAX_SEQUENCE_NUMBER - 1)).is_ok());
        let expect = "sequence number 72057594037927935 for 2 operations, expected at most 72057594037927935";
        check_flaw(&starting(MAX_SEQUENCE_NUMBER), 0, expect);
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
        fn arbitrary_bytes_are_survived(
            count in 0u8..4,
            records in proptest::collection::vec(prop_oneof![0u8..4, any::<u8>()], 0..20),
        ) {
            let rep = [&[0, 0, 0, 0, 0, 0, 0, 0, count, 0, 0, 0], &records[..]].concat();
            if let Ok(batch) = validate(&rep) {
                prop_assert_eq!(batch.iter().count(), batch.len());
            }
        }
    }
}
