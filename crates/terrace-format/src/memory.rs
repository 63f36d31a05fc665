//! Memory for large contents. A request that the system refuses is an error, not the end of the
//! process.

use crate::decode_error::{DecodeError, DecodeErrorKind};

/// Reserves memory for exactly `more` further bytes.
pub(crate) fn reserve(buffer: &mut Vec<u8>, more: usize) -> Result<(), DecodeError> {
    buffer.try_reserve_exact(more).map_err(|_| out_of_memory(more))
}

/// Returns the error of a request for `bytes` bytes that the system refused.
#[cold]
pub(crate) fn out_of_memory(bytes: usize) -> DecodeError {
    DecodeError::new(DecodeErrorKind::OutOfMemory, 0, format!("no memory for {bytes} bytes"), "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_request_is_an_error() {
        let mut buffer = vec![1, 2, 3];
        let error = reserve(&mut buffer, isize::MAX as usize).unwrap_err();
        assert_eq!(error.kind, DecodeErrorKind::OutOfMemory);
        assert_eq!(error.to_string(), "no memory for 9223372036854775807 bytes");
        assert_eq!((reserve(&mut buffer, 100), buffer), (Ok(()), vec![1, 2, 3]));
    }
}
