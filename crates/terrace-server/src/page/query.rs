//! Arguments of a request: percent-encoded bytes of its query.

use super::api_result::{ApiError, ApiResult};

/// Arguments of a request, in their order.
#[derive(Debug, Default)]
pub(super) struct Query(Vec<(String, Vec<u8>)>);

impl Query {
    /// Parses `name=value&..`. None for a wrong percent-encoding.
    pub(super) fn parse(text: &str) -> Option<Query> {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        let pairs = pairs.map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((String::from_utf8(decode(name)?).ok()?, decode(value)?))
        });
        pairs.collect::<Option<Vec<_>>>().map(Query)
    }

    /// Bytes of an argument.
    pub(super) fn get(&self, name: &str) -> Option<&[u8]> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_slice())
    }

    /// Bytes of an argument, or none of them.
    pub(super) fn bytes(&self, name: &str) -> &[u8] {
        self.get(name).unwrap_or_default()
    }

    /// Text of an argument.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(|value| std::str::from_utf8(value).ok())
    }

    /// Number of an argument, or `default` without it.
    pub(super) fn number(&self, name: &str, default: u64) -> ApiResult<u64> {
        match self.get(name) {
            None => Ok(default),
            Some(value) => crate::resp::parse_u64(value)
                .ok_or_else(|| ApiError::bad_request(format!("The argument \"{name}\" is not a number."))),
        }
    }
}

fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'%' => {
                let (digits, after) = rest.split_at_checked(2)?;
                bytes.push(data_encoding::HEXLOWER_PERMISSIVE.decode(digits).ok()?.pop()?);
                rest = after;
            }
            b'+' => bytes.push(b' '),
            byte => bytes.push(*byte),
        }
    }
    Some(bytes)
}

/// Encodes bytes, so that a query can contain them.
pub(super) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                text.push(char::from(*byte))
            }
            byte => text += &format!("%{byte:02X}"),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_survive() {
        let all: Vec<u8> = (0..=255).collect();
        let query = Query::parse(&format!("key={}&count=7", encode(&all))).unwrap();
        assert_eq!(query.bytes("key"), all);
        assert_eq!(query.number("count", 1).unwrap(), 7);
        assert_eq!(query.number("db", 3).unwrap(), 3);
        assert!(query.number("key", 0).is_err());
    }

    #[test]
    fn wrong_encodings() {
        for text in ["key=%", "key=%0", "key=%zz", "%ff=1"] {
            assert!(Query::parse(text).is_none(), "{text}");
        }
        assert_eq!(Query::parse("a=b+c&d").unwrap().bytes("a"), b"b c");
    }
}
