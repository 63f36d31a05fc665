//! Names of the host in requests.
//!
//! A page of another site can reach a loopback address by a name that its owner points there. Its
//! requests then have this name in the header `Host`.

use std::net::IpAddr;

use hyper::header::{HeaderMap, HeaderName};

/// Value of a header that a request may have once.
pub(crate) fn single_header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

/// True if the header `Host` is a name that no other site can have: a loopback name, an IP address,
/// or `own_name`.
pub(crate) fn is_own_host(header: &str, own_name: Option<&str>) -> bool {
    let name = match header.rsplit_once(':') {
        Some((name, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => header,
    };
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost")
        || address.parse::<IpAddr>().is_ok()
        || own_name.is_some_and(|own| own.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_host() {
        for (host, expected) in [
            ("localhost:8379", true),
            ("127.0.0.1:8379", true),
            ("[::1]:8379", true),
            ("192.168.1.7", true),
            ("db.example", true),
            ("DB.EXAMPLE:443", true),
            ("evil.example:8379", false),
            ("localhost.evil.example", false),
            ("127.0.0.1.evil.example", false),
            ("", false),
            ("localhost:", false),
        ] {
            assert_eq!(is_own_host(host, Some("db.example")), expected, "{host}");
        }
        assert!(!is_own_host("db.example", None));
    }
}
