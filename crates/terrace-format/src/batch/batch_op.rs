//! Stored form of a batch: its check, and its operations.

use super::{BATCH_HEADER_SIZE, BatchOp, COUNT_OFFSET};
use crate::coding::{SliceDecoder, get_fixed32, get_fixed64};
use crate::decode_error::{DecodeError, DecodeErrorKind};
use crate::key::{MAX_SEQUENCE_NUMBER, SequenceNumber, ValueType};

/// Borrowed stored form of a batch, already checked.
#[derive(Clone, Copy, Debug)]
pub struct BatchRef<'a> {
    pub(super) rep: &'a [u8],
}

/// Checks the stored form of a batch: every operation is complete, the count is correct, and all
/// sequence numbers are in range.
pub fn validate(rep: &[u8]) -> Result<BatchRef<'_>, DecodeError> {
    if rep.len() < BATCH_HEADER_SIZE {
        return Err(DecodeError::truncated(0, "a batch", rep.len() as u64, BATCH_HEADER_SIZE as u64));
    }
    let batch = BatchRef { rep };
    let mut ops = batch.iter().decoder;
    let mut count = 0;
    while !ops.is_empty() {
        decode_op(&mut ops).map_err(|error| error.offset_by(BATCH_HEADER_SIZE as u64))?;
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
    /// Returns the sequence number of the first operation.
    pub fn sequence(&self) -> SequenceNumber {
        get_fixed64(self.rep).unwrap_or_default()
    }

    /// Returns the number of operations.
    pub fn len(&self) -> usize {
        self.rep.get(COUNT_OFFSET..).and_then(get_fixed32).unwrap_or_default() as usize
    }

    /// Returns true if the batch has no operations.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns an iterator over the operations, in their order.
    pub fn iter(&self) -> BatchOps<'a> {
        BatchOps::new(&self.rep[BATCH_HEADER_SIZE..])
    }

    /// Returns the stored form.
    pub fn rep(&self) -> &'a [u8] {
        self.rep
    }
}

/// Iterator over the operations of a batch, in their order.
#[derive(Clone, Debug)]
pub struct BatchOps<'a> {
    decoder: SliceDecoder<'a>,
}

impl<'a> BatchOps<'a> {
    pub(super) fn new(operations: &'a [u8]) -> BatchOps<'a> {
        BatchOps { decoder: SliceDecoder::new(operations) }
    }

    /// Returns the size of the remaining operations, in bytes of the stored form.
    pub fn remaining_bytes(&self) -> usize {
        self.decoder.remaining().len()
    }
}

impl<'a> Iterator for BatchOps<'a> {
    type Item = BatchOp<'a>;

    fn next(&mut self) -> Option<BatchOp<'a>> {
        // `validate` checked the operations, so the only possible error is the end of the input.
        // Its message would take longer than the operation.
        if self.decoder.is_empty() {
            return None;
        }
        decode_op(&mut self.decoder).ok()
    }
}

fn decode_op<'a>(decoder: &mut SliceDecoder<'a>) -> Result<BatchOp<'a>, DecodeError> {
    let offset = decoder.offset();
    let tag = decoder.byte("a tag")?;
    match ValueType::from_byte(tag) {
        Some(ValueType::Value) => Ok(BatchOp::Put {
            key: decoder.length_prefixed_slice("a put's key")?,
            value: decoder.length_prefixed_slice("a put's value")?,
        }),
        Some(ValueType::Deletion) => {
            Ok(BatchOp::Delete { key: decoder.length_prefixed_slice("a delete's key")? })
        }
        None => Err(DecodeError::new(DecodeErrorKind::Unknown, offset, format!("batch tag {tag}"), "0 or 1")),
    }
}
