//! The first operation has the sequence number of the header, and each later operation has the
//! number after its predecessor's. Operations keep their order: of two operations on the same key,
//! the later one wins. The format has no other tags.

mod batch_op;

pub use batch_op::{BatchOps, BatchRef, validate};

use std::fmt;

use crate::coding::{MAX_VARINT32_LEN, put_length_prefixed_slice, put_varint32};
use crate::decode_error::DecodeError;
use crate::key::{SequenceNumber, ValueType};

const COUNT_OFFSET: usize = 8;
/// Size of the batch header, in bytes: the first operation follows it.
pub const BATCH_HEADER_SIZE: usize = 12;

/// Operations that take effect together.
#[derive(Clone, PartialEq, Eq)]
pub struct WriteBatch {
    /// Stored form of the batch, as in the picture of the module. The count is always correct.
    rep: Vec<u8>,
    /// True if an operation was too long, or if the count does not fit 32 bits.
    oversized: bool,
    /// True if the system had no memory for an operation, which is missing in `rep`.
    out_of_memory: bool,
}

/// Size of an operation in bytes for which the batch reserves memory first. The allocator has spare
/// memory for smaller ones.
const LARGE_OPERATION: usize = 64 << 10;

/// Maximum length of a key or value, in bytes. It is a little below 4 GiB, so that the length of an
/// internal key fits 32 bits too.
pub const MAX_KEY_OR_VALUE_LEN: usize = u32::MAX as usize - 64;

/// One operation of a batch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum BatchOp<'a> {
    /// Sets the value of `key`.
    Put {
        /// User key.
        key: &'a [u8],
        /// New value of the key.
        value: &'a [u8],
    },
    /// Deletes `key`.
    Delete {
        /// User key.
        key: &'a [u8],
    },
}

impl Default for WriteBatch {
    fn default() -> WriteBatch {
        WriteBatch { rep: vec![0; BATCH_HEADER_SIZE], oversized: false, out_of_memory: false }
    }
}

impl WriteBatch {
    /// Creates an empty batch.
    ///
    /// ```
    /// use terrace_format::batch::WriteBatch;
    ///
    /// assert!(WriteBatch::new().is_empty());
    /// ```
    pub fn new() -> WriteBatch {
        WriteBatch::default()
    }

    /// Creates an empty batch with memory for `bytes` bytes of operations, as
    /// [`WriteBatch::approximate_size`] counts them.
    ///
    /// ```
    /// use terrace_format::batch::WriteBatch;
    ///
    /// assert_eq!(WriteBatch::with_capacity(1 << 10), WriteBatch::new());
    /// ```
    pub fn with_capacity(bytes: usize) -> WriteBatch {
        let mut rep = Vec::with_capacity(bytes.max(BATCH_HEADER_SIZE));
        rep.resize(BATCH_HEADER_SIZE, 0);
        WriteBatch { rep, oversized: false, out_of_memory: false }
    }

    /// Creates a batch from its stored form and checks every byte.
    ///
    /// ```
    /// use terrace_format::batch::WriteBatch;
    ///
    /// let mut batch = WriteBatch::new();
    /// batch.put(b"CH/Bern", b"46.95,7.45");
    /// let stored = batch.as_bytes().to_vec();
    /// assert_eq!(WriteBatch::from_bytes(stored)?, batch);
    /// assert!(WriteBatch::from_bytes(vec![0; 11]).is_err());
    /// # Ok::<(), terrace_format::DecodeError>(())
    /// ```
    pub fn from_bytes(rep: Vec<u8>) -> Result<WriteBatch, DecodeError> {
        validate(&rep)?;
        Ok(WriteBatch { rep, oversized: false, out_of_memory: false })
    }

    /// Returns the stored form.
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

    /// Sets the value of `key` and returns the batch, for chains of calls.
    ///
    /// A key or value longer than [`MAX_KEY_OR_VALUE_LEN`] makes the batch oversized: the database
    /// refuses it. It also refuses a batch for whose large key or value there was no memory.
    ///
    /// ```
    /// use terrace_format::batch::WriteBatch;
    ///
    /// let mut batch = WriteBatch::new();
    /// batch.put(b"CH/Bern", b"46.95,7.45");
    /// assert_eq!(batch.len(), 1);
    /// ```
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> &mut WriteBatch {
        let key = key.as_ref();
        let value = value.as_ref();
        if key.len().max(value.len()) > MAX_KEY_OR_VALUE_LEN {
            self.oversized = true;
            return self;
        }
        if !self.reserve(key.len() + value.len()) {
            return self;
        }
        self.rep.push(ValueType::Value as u8);
        put_length_prefixed_slice(&mut self.rep, key);
        put_length_prefixed_slice(&mut self.rep, value);
        self.add_count(1);
        self
    }

    /// Deletes `key`, whether it exists or not, and returns the batch, for chains of calls.
    ///
    /// A key longer than [`MAX_KEY_OR_VALUE_LEN`] makes the batch oversized: the database refuses
    /// it.
    ///
    /// ```
    /// use terrace_format::batch::WriteBatch;
    ///
    /// let mut batch = WriteBatch::new();
    /// batch.put(b"CH/Bern", b"46.95,7.45");
    /// batch.delete(b"CH/Bern"); // wins, because it follows the put
    /// assert_eq!(batch.len(), 2);
    /// ```
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> &mut WriteBatch {
        let key = key.as_ref();
        if key.len() > MAX_KEY_OR_VALUE_LEN {
            self.oversized = true;
            return self;
        }
        if !self.reserve(key.len()) {
            return self;
        }
        self.rep.push(ValueType::Deletion as u8);
        put_length_prefixed_slice(&mut self.rep, key);
        self.add_count(1);
        self
    }

    /// Appends the operations of `other`.
    ///
    /// ```
    /// use terrace_format::batch::WriteBatch;
    ///
    /// let mut all = WriteBatch::new();
    /// let mut more = WriteBatch::new();
    /// all.put(b"CH/Bern", b"46.95,7.45");
    /// more.put(b"CH/Chur", b"46.85,9.53");
    /// all.append(&more);
    /// assert_eq!(all.len(), 2);
    /// ```
    pub fn append(&mut self, other: &WriteBatch) {
        self.oversized |= other.oversized;
        self.out_of_memory |= other.out_of_memory;
        if !self.reserve(other.rep.len()) {
            return;
        }
        self.rep.extend_from_slice(&other.rep[BATCH_HEADER_SIZE..]);
        self.add_count(other.len());
    }

    /// Returns true if a key or value was too long, or if the batch has 2^32 operations or more.
    /// The database refuses such a batch.
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

    /// Returns true if the system had no memory for an operation of 64 KiB or more. The database
    /// refuses such a batch.
    ///
    /// ```
    /// use terrace_format::batch::WriteBatch;
    ///
    /// let mut batch = WriteBatch::new();
    /// batch.put(b"CH/Bern", &[0; 1 << 20]);
    /// assert!(!batch.is_out_of_memory());
    /// ```
    pub fn is_out_of_memory(&self) -> bool {
        self.out_of_memory
    }

    /// Calls `add`, which appends operations. If one of them would make the batch oversized or out
    /// of memory, removes them all and returns false.
    ///
    /// ```
    /// use terrace_format::batch::WriteBatch;
    ///
    /// let mut batch = WriteBatch::new();
    /// assert!(batch.try_add(|batch| _ = batch.put(b"CH/Bern", b"46.95,7.45")));
    /// assert_eq!(batch.len(), 1);
    /// ```
    pub fn try_add(&mut self, add: impl FnOnce(&mut WriteBatch)) -> bool {
        let bytes = self.rep.len();
        let count = self.len();
        let was_oversized = std::mem::take(&mut self.oversized);
        let was_out_of_memory = std::mem::take(&mut self.out_of_memory);
        add(self);
        let is_added = !self.oversized && !self.out_of_memory;
        if !is_added {
            self.truncate(bytes, count);
        }
        self.oversized = was_oversized;
        self.out_of_memory = was_out_of_memory;
        is_added
    }

    /// Reserves memory for a large operation with `bytes` bytes. Returns false without memory.
    #[inline]
    fn reserve(&mut self, bytes: usize) -> bool {
        // The kind of the operation, and two lengths.
        bytes < LARGE_OPERATION || self.reserve_large(bytes.saturating_add(1 + 2 * 5))
    }

    fn reserve_large(&mut self, bytes: usize) -> bool {
        // Many operations need amortized growth. Without memory for that, the exact size may fit.
        let reserved = self.rep.try_reserve(bytes).or_else(|_| self.rep.try_reserve_exact(bytes));
        self.out_of_memory |= reserved.is_err();
        reserved.is_ok()
    }

    /// Removes all operations and keeps the allocated memory.
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
        self.out_of_memory = false;
    }

    /// Returns the number of operations.
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

    /// Returns true if the batch has no operations.
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

    /// Returns the size of the batch in the log, in bytes.
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

    /// Returns an iterator over the operations, in their order.
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

    /// Returns an iterator over the operations from `offset` on, in bytes of the stored form.
    ///
    /// `offset` is an earlier [`WriteBatch::approximate_size`], or [`BATCH_HEADER_SIZE`].
    ///
    /// ```
    /// use terrace_format::batch::{BatchOp, WriteBatch};
    ///
    /// let mut batch = WriteBatch::new();
    /// batch.delete(b"CH/Berne");
    /// let second = batch.approximate_size();
    /// batch.put(b"CH/Bern", b"46.95,7.45");
    /// let expected = BatchOp::Put { key: b"CH/Bern", value: b"46.95,7.45" };
    /// assert_eq!(batch.iter_from(second).next(), Some(expected));
    /// ```
    pub fn iter_from(&self, offset: usize) -> BatchOps<'_> {
        BatchOps::new(self.rep.get(offset..).unwrap_or_default())
    }

    /// Removes all operations from `offset` on. Keeps the first `count` operations.
    ///
    /// `offset` and `count` are an earlier [`WriteBatch::approximate_size`] and
    /// [`WriteBatch::len`].
    ///
    /// ```
    /// use terrace_format::batch::WriteBatch;
    ///
    /// let mut batch = WriteBatch::new();
    /// batch.put(b"CH/Bern", b"46.95,7.45");
    /// let earlier = batch.clone();
    /// batch.put(b"CH/Chur", b"46.85,9.53");
    /// batch.truncate(earlier.approximate_size(), earlier.len());
    /// assert_eq!(batch, earlier);
    /// ```
    pub fn truncate(&mut self, offset: usize, count: usize) {
        self.rep.truncate(offset.max(BATCH_HEADER_SIZE));
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        self.rep[COUNT_OFFSET..BATCH_HEADER_SIZE].copy_from_slice(&count.to_le_bytes());
    }

    /// Returns the sequence number of the first operation. It is 0 until the database assigns one.
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

impl fmt::Debug for BatchOp<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BatchOp::Put { key, value } => write!(f, "Put({} ({} bytes))", key.escape_ascii(), value.len()),
            BatchOp::Delete { key } => write!(f, "Delete({})", key.escape_ascii()),
        }
    }
}

impl fmt::Debug for WriteBatch {
    /// Lists the operations with escaped keys, and the lengths of the values.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.iter().map(|operation| match operation {
                BatchOp::Put { key, value } => format!("put {} ({} bytes)", key.escape_ascii(), value.len()),
                BatchOp::Delete { key } => format!("delete {}", key.escape_ascii()),
            }))
            .finish()
    }
}

/// Appends a put of each pair of a key and a value.
///
/// ```
/// use terrace_format::batch::WriteBatch;
///
/// let cities = [("CH/Bern", "46.95,7.45"), ("CH/Chur", "46.85,9.53")];
/// let batch: WriteBatch = cities.into_iter().collect();
/// assert_eq!(format!("{batch:?}"), r#"["put CH/Bern (10 bytes)", "put CH/Chur (10 bytes)"]"#);
/// ```
impl<K: AsRef<[u8]>, V: AsRef<[u8]>> Extend<(K, V)> for WriteBatch {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        for (key, value) in entries {
            self.put(key, value);
        }
    }
}

impl<K: AsRef<[u8]>, V: AsRef<[u8]>> FromIterator<(K, V)> for WriteBatch {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> WriteBatch {
        let mut batch = WriteBatch::new();
        batch.extend(entries);
        batch
    }
}

impl<'a> IntoIterator for &'a WriteBatch {
    type Item = BatchOp<'a>;
    type IntoIter = BatchOps<'a>;

    fn into_iter(self) -> BatchOps<'a> {
        self.iter()
    }
}

/// Appends the stored form of a batch with one operation to `record`: a put if `value` is some,
/// otherwise a tombstone.
///
/// Key and value are not longer than [`MAX_KEY_OR_VALUE_LEN`].
///
/// ```
/// use terrace_format::batch::{WriteBatch, encode_single_op};
///
/// let mut batch = WriteBatch::new();
/// batch.put(b"CH/Bern", b"46.95,7.45");
/// batch.set_sequence(7);
/// let mut record = Vec::new();
/// encode_single_op(&mut record, 7, b"CH/Bern", Some(b"46.95,7.45"));
/// assert_eq!(record, batch.as_bytes());
/// ```
pub fn encode_single_op(record: &mut Vec<u8>, sequence: SequenceNumber, key: &[u8], value: Option<&[u8]>) {
    record.reserve(MAX_SINGLE_OP_OVERHEAD + key.len() + value.map_or(0, <[u8]>::len));
    encode_single_op_head(record, sequence, key, value);
    record.extend_from_slice(value.unwrap_or_default());
}

/// Maximum number of bytes of a record of one operation besides its key and its value.
const MAX_SINGLE_OP_OVERHEAD: usize = BATCH_HEADER_SIZE + 1 + 2 * MAX_VARINT32_LEN;

/// Appends the record of [`encode_single_op`] without the bytes of the value, which are its end.
#[inline]
pub fn encode_single_op_head(
    record: &mut Vec<u8>,
    sequence: SequenceNumber,
    key: &[u8],
    value: Option<&[u8]>,
) {
    let kind = if value.is_some() { ValueType::Value } else { ValueType::Deletion };
    let mut header = [0; BATCH_HEADER_SIZE + 1];
    header[..COUNT_OFFSET].copy_from_slice(&sequence.to_le_bytes());
    header[COUNT_OFFSET..BATCH_HEADER_SIZE].copy_from_slice(&1u32.to_le_bytes());
    header[BATCH_HEADER_SIZE] = kind as u8;
    record.reserve(MAX_SINGLE_OP_OVERHEAD + key.len());
    record.extend_from_slice(&header);
    put_length_prefixed_slice(record, key);
    if let Some(value) = value {
        // Batches accept only shorter values.
        put_varint32(record, u32::try_from(value.len()).expect("values are shorter than 4 GiB"));
    }
}

#[cfg(test)]
mod tests;
