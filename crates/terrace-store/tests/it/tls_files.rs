//! Unusable certificates and keys are errors before a connection, and name the file.

use std::net::TcpListener;
use std::path::PathBuf;

use terrace_store::{Error, OpenOptions, open};

use crate::authority::{Authority, shown};

/// Engines with TLS in this build.
const ENGINES: &[&str] = &[
    #[cfg(feature = "etcd")]
    "etcd",
    #[cfg(feature = "tikv")]
    "tikv",
];

/// Files of an authority, of its client, and unusable ones.
struct Files {
    authority: Authority,
    /// A connection to it would be a fault.
    server: TcpListener,
}

impl Files {
    fn new() -> Files {
        let authority = Authority::new();
        authority.issue("client");
        authority.issue("other");
        authority.issue_in_years("old", 2001..2002);
        authority.issue_in_years("early", 3001..3002);
        let stranger = Authority::new();
        let (certificate, key) = stranger.issue_in_years("old", 2001..2002);
        std::fs::copy(certificate, authority.path("foreign.pem")).unwrap();
        std::fs::copy(key, authority.path("foreign.key")).unwrap();
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        for (name, text) in [("text", "a secret"), ("empty", ""), ("broken", broken)] {
            std::fs::write(authority.path(name), text).unwrap();
        }
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        server.set_nonblocking(true).unwrap();
        Files { authority, server }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.authority.path(name)
    }

    /// Opens stores with the files `ca`, `cert` and `key`. The message names the file `unusable`
    /// and contains `expect`.
    #[track_caller]
    fn check(&self, [ca, cert, key]: [&str; 3], unusable: &str, expect: &str) {
        let port = self.server.local_addr().unwrap().port();
        let [ca, cert, key] = [ca, cert, key].map(|name| shown(&self.path(name)));
        for engine in ENGINES {
            let address = format!("{engine}://127.0.0.1:{port}/app?timeout=1&ca={ca}&cert={cert}&key={key}");
            let error = open(&address, &OpenOptions::default().create_if_missing(true)).err().unwrap();
            assert!(matches!(error, Error::InvalidArgument(_)), "{error:?}");
            let message = error.to_string();
            let unusable = shown(&self.path(unusable));
            assert!(message.contains(&unusable) && message.contains(expect), "{message}");
            assert!(message.lines().count() == 1 && !message.contains("secret"), "{message}");
        }
        assert!(self.server.accept().is_err(), "a client has connected");
    }
}

#[test]
fn unusable_authorities() {
    let files = Files::new();
    let check = |ca, expect| files.check([ca, "client.pem", "client.key"], ca, expect);
    check("missing", "No such file");
    check("text", "no certificate as PEM");
    check("empty", "no certificate as PEM");
    check("client.key", "no certificate as PEM");
    check("broken", "no certificate as PEM");
}

#[test]
fn unusable_certificates_of_the_client() {
    let files = Files::new();
    files.check(["ca.pem", "text", "client.key"], "text", "no certificate as PEM");
    files.check(["ca.pem", "empty", "client.key"], "empty", "no certificate as PEM");
    files.check(["ca.pem", "broken", "client.key"], "broken", "not a certificate");
    files.check(["ca.pem", "old.pem", "old.key"], "old.pem", "the certificate has expired");
    files.check(["ca.pem", "foreign.pem", "foreign.key"], "foreign.pem", "the certificate has expired");
    files.check(["ca.pem", "early.pem", "early.key"], "early.pem", "the certificate is not valid yet");
}

#[test]
fn unusable_keys_of_the_client() {
    let files = Files::new();
    files.check(["ca.pem", "client.pem", "missing"], "missing", "No such file");
    files.check(["ca.pem", "client.pem", "text"], "text", "no private key as PEM");
    files.check(["ca.pem", "client.pem", "client.pem"], "client.pem", "no private key as PEM");
    files.check(["ca.pem", "client.pem", "other.key"], "other.key", "not the private key of the certificate");
    files.check(
        ["ca.pem", "client.pem", "other.key"],
        "client.pem",
        "not the private key of the certificate",
    );
}
