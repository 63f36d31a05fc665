//! Reader of replies in version 2 of the protocol, for commands that the server runs itself.

use memchr::memmem;

use super::parse_i64;

/// Decoded reply.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum DecodedReply {
    Status(Vec<u8>),
    Error(Vec<u8>),
    Integer(i64),
    Bulk(Vec<u8>),
    Array(Vec<DecodedReply>),
    Null,
}

/// Maximum depth of nested arrays.
const MAX_DEPTH: usize = 32;

impl DecodedReply {
    /// Decodes the first reply in `bytes`, and returns the rest. None for bytes that are no reply.
    pub(crate) fn decode(bytes: &[u8]) -> Option<(DecodedReply, &[u8])> {
        decode(bytes, MAX_DEPTH)
    }
}

fn decode(bytes: &[u8], depth: usize) -> Option<(DecodedReply, &[u8])> {
    let (kind, rest) = bytes.split_first()?;
    let end = memmem::find(rest, b"\r\n")?;
    let line = &rest[..end];
    let rest = &rest[end + 2..];
    Some(match kind {
        b'+' => (DecodedReply::Status(line.to_vec()), rest),
        b'-' => (DecodedReply::Error(line.to_vec()), rest),
        b':' => (DecodedReply::Integer(parse_i64(line)?), rest),
        b'$' | b'*' if line == b"-1" => (DecodedReply::Null, rest),
        b'$' => {
            let len = usize::try_from(parse_i64(line)?).ok()?;
            let (content, rest) = rest.split_at_checked(len)?;
            (DecodedReply::Bulk(content.to_vec()), rest.strip_prefix(b"\r\n")?)
        }
        b'*' => {
            let depth = depth.checked_sub(1)?;
            let mut rest = rest;
            let mut items = Vec::new();
            for _ in 0..parse_i64(line)? {
                let (item, after) = decode(rest, depth)?;
                items.push(item);
                rest = after;
            }
            (DecodedReply::Array(items), rest)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_reply() {
        let bytes = b"*5\r\n+OK\r\n-ERR x\r\n:-7\r\n$3\r\na\r\n\r\n*2\r\n$-1\r\n*0\r\n:1\r\n";
        let (reply, rest) = DecodedReply::decode(bytes).unwrap();
        let expected = DecodedReply::Array(vec![
            DecodedReply::Status(b"OK".to_vec()),
            DecodedReply::Error(b"ERR x".to_vec()),
            DecodedReply::Integer(-7),
            DecodedReply::Bulk(b"a\r\n".to_vec()),
            DecodedReply::Array(vec![DecodedReply::Null, DecodedReply::Array(Vec::new())]),
        ]);
        assert_eq!((reply, rest), (expected, &b":1\r\n"[..]));
        for len in 0..bytes.len() - 4 {
            assert!(DecodedReply::decode(&bytes[..len]).is_none(), "{len} bytes");
        }
    }
}
