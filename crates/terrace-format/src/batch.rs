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

use crate::coding::{Cursor, get_fixed32, get_fixed64, put_slice};
use crate::flaw::{Flaw, FlawKind};
use crate::key::{Kind, MAX_SEQUENCE, Sequence};

const COUNT_AT: usize = 8;
const HEADER_SIZE: usize = 12;

/// Operations that take effect together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteBatch {
    /// Always the whole form of the picture above, with a count that is right.
    rep: Vec<u8>,
}

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
        WriteBatch { rep: vec![0; HEADER_SIZE] }
    }
}

impl WriteBatch {
    /// Without operations.
    pub fn new() -> WriteBatch {
        WriteBatch::default()
    }

    /// From stored bytes, checked to the last one.
    pub fn from_bytes(rep: Vec<u8>) -> Result<WriteBatch, Flaw> {
        check(&rep)?;
        Ok(WriteBatch { rep })
    }

    /// The stored form.
    pub fn as_bytes(&self) -> &[u8] {
        &self.rep
    }

    /// Gives `key` a value. Panics if either is 4 GiB or longer: the format has no room for it.
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        self.rep.push(Kind::Put as u8);
        put_slice(&mut self.rep, key);
        put_slice(&mut self.rep, value);
        self.count_more(1);
    }

    /// Removes `key`, be it there or not. Panics if it is 4 GiB or longer.
    pub fn delete(&mut self, key: &[u8]) {
        self.rep.push(Kind::Delete as u8);
        put_slice(&mut self.rep, key);
        self.count_more(1);
    }

    /// Adds the operations of `other` behind these.
    pub fn append(&mut self, other: &WriteBatch) {
        self.rep.extend_from_slice(&other.rep[HEADER_SIZE..]);
        self.count_more(other.len());
    }

    /// Drops all operations, keeps the memory.
    pub fn clear(&mut self) {
        self.rep.truncate(HEADER_SIZE);
        self.rep.fill(0);
    }

    /// How many operations.
    pub fn len(&self) -> usize {
        self.borrow().len()
    }

    /// True without operations.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes that the batch takes in the log.
    pub fn approximate_size(&self) -> usize {
        self.rep.len()
    }

    /// The operations in order.
    pub fn iter(&self) -> Ops<'_> {
        self.borrow().iter()
    }

    /// The sequence number of the first operation: 0 until the engine gave one.
    pub fn sequence(&self) -> Sequence {
        self.borrow().sequence()
    }

    /// Sets the sequence number of the first operation.
    pub fn set_sequence(&mut self, sequence: Sequence) {
        self.rep[..COUNT_AT].copy_from_slice(&sequence.to_le_bytes());
    }

    fn borrow(&self) -> BatchRef<'_> {
        BatchRef { rep: &self.rep }
    }

    fn count_more(&mut self, more: usize) {
        // An operation takes two bytes, so this many would be 8 GiB of batch.
        let count = u32::try_from(self.len() + more).expect("a batch has less than 2^32 operations");
        self.rep[COUNT_AT..HEADER_SIZE].copy_from_slice(&count.to_le_bytes());
    }
}

impl<'a> IntoIterator for &'a WriteBatch {
    type Item = BatchOp<'a>;
    type IntoIter = Ops<'a>;

    fn into_iter(self) -> Ops<'a> {
        self.iter()
    }
}

/// A batch in memory of somebody else, checked.
#[derive(Clone, Copy, Debug)]
pub struct BatchRef<'a> {
    rep: &'a [u8],
}

/// Takes `rep` for a batch if it is one: every operation whole, as many as it says, with sequence numbers in range.
pub fn check(rep: &[u8]) -> Result<BatchRef<'_>, Flaw> {
    if rep.len() < HEADER_SIZE {
        return Err(Flaw::truncated(0, "a batch", rep.len() as u64, HEADER_SIZE as u64));
    }
    let batch = BatchRef { rep };
    let mut ops = batch.iter().from;
    let mut count = 0;
    while !ops.is_empty() {
        next_op(&mut ops).map_err(|flaw| flaw.moved(HEADER_SIZE as u64))?;
        count += 1;
    }
    if count != batch.len() {
        let found = format!("{count} operations");
        return Err(Flaw::new(
            FlawKind::Malformed,
            COUNT_AT as u64,
            found,
            format!("{} as stored", batch.len()),
        ));
    }
    if batch.sequence().checked_add(count as u64).is_none_or(|next| next > MAX_SEQUENCE + 1) {
        let found = format!("sequence number {} for {count} operations", batch.sequence());
        return Err(Flaw::new(FlawKind::OutOfBounds, 0, found, format!("at most {MAX_SEQUENCE}")));
    }
    Ok(batch)
}

impl<'a> BatchRef<'a> {
    /// The sequence number of the first operation.
    pub fn sequence(&self) -> Sequence {
        get_fixed64(self.rep).unwrap_or_default()
    }

    /// How many operations.
    pub fn len(&self) -> usize {
        self.rep.get(COUNT_AT..).and_then(get_fixed32).unwrap_or_default() as usize
    }

    /// True without operations.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The operations in order.
    pub fn iter(&self) -> Ops<'a> {
        Ops { from: Cursor::new(&self.rep[HEADER_SIZE..]) }
    }

    /// The stored form.
    pub fn rep(&self) -> &'a [u8] {
        self.rep
    }
}

/// The operations of a batch, in order.
#[derive(Clone, Debug)]
pub struct Ops<'a> {
    from: Cursor<'a>,
}

impl<'a> Iterator for Ops<'a> {
    type Item = BatchOp<'a>;

    fn next(&mut self) -> Option<BatchOp<'a>> {
        // Checked when the batch was made, so the only flaw left is the end.
        next_op(&mut self.from).ok()
    }
}

fn next_op<'a>(from: &mut Cursor<'a>) -> Result<BatchOp<'a>, Flaw> {
    let at = from.at();
    let tag = from.byte("a tag")?;
    match Kind::from_byte(tag) {
        Some(Kind::Put) => {
            Ok(BatchOp::Put { key: from.slice("a put's key")?, value: from.slice("a put's value")? })
        }
        Some(Kind::Delete) => Ok(BatchOp::Delete { key: from.slice("a delete's key")? }),
        None => Err(Flaw::new(FlawKind::Unknown, at, format!("batch tag {tag}"), "0 or 1")),
    }
}
