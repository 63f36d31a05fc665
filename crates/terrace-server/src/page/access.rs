//! Access to the page: names of the host, one-time tokens, cookies.
//!
//! ```text
//!   link with a token ──GET /──> cookie          the token is used up
//!   cookie            ──any request──> allowed
//! ```
//!
//! The server prints a link at its start, and `TERRACE.PAGE` returns another one.

use std::collections::VecDeque;
use std::net::SocketAddr;

use data_encoding::HEXLOWER;
use subtle::ConstantTimeEq;
use terrace_sync::native_locks::Mutex;
use tokio_rustls::rustls::crypto::ring;

use crate::http::is_own_host;

/// Size of a token or a cookie, in bytes.
const SECRET_LEN: usize = 16;
/// Maximum number of tokens that wait for their use. The oldest is discarded.
const MAX_TOKENS: usize = 16;
/// Maximum number of browsers with access. The oldest loses it.
const MAX_COOKIES: usize = 64;

/// Secret as text.
type Secret = String;

/// Access to the page of a server.
#[derive(Debug)]
pub(crate) struct PageAccess {
    address: SocketAddr,
    /// Name under which a proxy serves the page.
    host: Option<String>,
    tokens: Mutex<VecDeque<Secret>>,
    cookies: Mutex<VecDeque<Secret>>,
}

impl PageAccess {
    pub(super) fn new(address: SocketAddr, host: Option<String>) -> PageAccess {
        PageAccess { address, host, tokens: Mutex::default(), cookies: Mutex::default() }
    }

    /// Returns a link that gives access once. None if the system has no randomness.
    pub(crate) fn new_link(&self) -> Option<String> {
        let token = new_secret()?;
        let mut tokens = self.tokens.lock();
        if tokens.len() == MAX_TOKENS {
            tokens.pop_front();
        }
        tokens.push_back(token.clone());
        Some(format!("http://{}/?token={token}", self.address))
    }

    /// Exchanges a token for the value of a cookie. A token works once.
    pub(super) fn exchange(&self, token: &str) -> Option<Secret> {
        let mut tokens = self.tokens.lock();
        let index = find(&tokens, token)?;
        tokens.remove(index);
        drop(tokens);
        let cookie = new_secret()?;
        let mut cookies = self.cookies.lock();
        if cookies.len() == MAX_COOKIES {
            cookies.pop_front();
        }
        cookies.push_back(cookie.clone());
        Some(cookie)
    }

    /// Name of the cookie. Two servers of one machine share the host, so the port is in the name.
    pub(super) fn cookie_name(&self) -> String {
        format!("terrace-{}", self.address.port())
    }

    /// True if the header `Cookie` has a cookie with access.
    pub(super) fn has_access(&self, header: &str) -> bool {
        let name = self.cookie_name();
        let mut pairs = header.split(';').filter_map(|pair| pair.trim().split_once('='));
        pairs.any(|(key, value)| key == name && find(&self.cookies.lock(), value).is_some())
    }

    /// True if the header `Host` is the loopback address or the configured name.
    pub(super) fn is_own_host(&self, header: &str) -> bool {
        is_own_host(header, self.host.as_deref())
    }
}

/// True if the header `Origin` names the host of the header `Host`.
pub(super) fn is_same_origin(origin: &str, host: &str) -> bool {
    let name = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    name.is_some_and(|name| name.eq_ignore_ascii_case(host))
}

/// Index of a secret. The time tells nothing about the bytes.
fn find(secrets: &VecDeque<Secret>, wanted: &str) -> Option<usize> {
    secrets.iter().position(|secret| secret.as_bytes().ct_eq(wanted.as_bytes()).into())
}

fn new_secret() -> Option<Secret> {
    let mut bytes = [0; SECRET_LEN];
    ring::default_provider().secure_random.fill(&mut bytes).ok()?;
    Some(HEXLOWER.encode(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access() -> PageAccess {
        PageAccess::new(SocketAddr::from(([127, 0, 0, 1], 8379)), Some("db.example".into()))
    }

    #[test]
    fn token_works_once() {
        let access = access();
        let link = access.new_link().unwrap();
        let token = link.strip_prefix("http://127.0.0.1:8379/?token=").unwrap();
        assert_eq!(access.exchange("0123"), None);
        let cookie = access.exchange(token).unwrap();
        assert_eq!(access.exchange(token), None);
        assert!(access.has_access(&format!("a=b; terrace-8379={cookie}")));
        for header in ["", "terrace-8379=", &format!("terrace-8380={cookie}"), &cookie] {
            assert!(!access.has_access(header), "{header}");
        }
    }

    #[test]
    fn number_of_secrets_is_limited() {
        let access = access();
        let links: Vec<String> = (0..=MAX_TOKENS).map(|_| access.new_link().unwrap()).collect();
        let token = |link: &str| link.split_once('=').unwrap().1.to_owned();
        assert!(access.exchange(&token(&links[0])).is_none());
        assert!(access.exchange(&token(&links[1])).is_some());
    }

    #[test]
    fn origins() {
        for (origin, expected) in [
            ("http://127.0.0.1:8379", true),
            ("http://evil.example", false),
            ("http://127.0.0.1:8380", false),
            ("null", false),
            ("", false),
        ] {
            assert_eq!(is_same_origin(origin, "127.0.0.1:8379"), expected, "{origin}");
        }
    }
}
