//! TLS with certificates on both sides, users, and passwords that stay secret.

use terrace_store::{Error, OpenOptions, open};

use crate::authority::{Authority, shown};
use crate::cluster::{EtcdCluster, TlsServer, has_etcd};

#[test]
fn tls_with_a_certificate_of_the_client() {
    if !has_etcd("TLS of etcd") {
        return;
    }
    let authority = Authority::new();
    let (certificate, key) = authority.issue("server");
    let ca = authority.path("ca.pem");
    let cluster =
        EtcdCluster::start_with(1, Some(&TlsServer { certificate, key, client_authority: ca.clone() }), &[]);
    let (certificate, key) = authority.issue("client");
    let place = cluster.address("tls");
    let secure = format!("{place}?ca={}&cert={}&key={}", shown(&ca), shown(&certificate), shown(&key));
    crate::cluster::wait(&secure);
    let store = open(&secure, &OpenOptions::default()).unwrap();
    store.put(b"a", b"1").unwrap();
    assert_eq!(store.get(b"a").unwrap().unwrap(), b"1");
    let create = OpenOptions::default().create_if_missing(true);
    let other = Authority::new();
    let other_ca = shown(&other.path("ca.pem"));
    let (stranger, stranger_key) = other.issue("stranger");
    let ca = shown(&ca);
    for (options, expect) in [
        (String::new(), "the servers may use TLS, which needs ca=FILE".to_owned()),
        (format!("&ca={ca}"), "which needs cert=FILE and key=FILE".into()),
        (format!("&ca={other_ca}"), format!("; no authority in {other_ca} has issued it")),
        (
            format!("&ca={ca}&cert={}&key={}", shown(&stranger), shown(&stranger_key)),
            format!("the servers may refuse the certificate in {}", shown(&stranger)),
        ),
    ] {
        let error = open(&format!("{place}/new?timeout=2{options}"), &create).err().expect("it is refused");
        assert!(matches!(error, Error::Unavailable(_)), "{options}: {error}");
        let message = error.to_string();
        assert!(message.contains(&expect) && message.lines().count() == 1, "{options}: {message}");
    }
    let written = open(&secure.replace("/tls?", "/tls/new?"), &OpenOptions::default());
    assert!(matches!(written.err(), Some(Error::Missing(_))));
}

/// The certificate is that of the servers. The client knows its authority, and finds another fault.
#[test]
fn servers_with_an_unusable_certificate() {
    if !has_etcd("certificates of etcd") {
        return;
    }
    let authority = Authority::new();
    let ca = authority.path("ca.pem");
    let (certificate, key) = authority.issue_in_years("server", 2001..2002);
    let cluster =
        EtcdCluster::start_with(1, Some(&TlsServer { certificate, key, client_authority: ca.clone() }), &[]);
    let (certificate, key) = authority.issue("client");
    let place = cluster.address("tls");
    let address =
        format!("{place}?timeout=1&ca={}&cert={}&key={}", shown(&ca), shown(&certificate), shown(&key));
    // The server takes a moment to listen, and closes first connections before their handshake.
    let mut errors = (0..60).map(|_| open(&address, &OpenOptions::default()).err().unwrap().to_string());
    let error = errors
        .find(|error| !error.contains("tcp connect error") && !error.contains("Connection reset by peer"))
        .unwrap();
    assert!(error.ends_with("invalid peer certificate: certificate expired"), "{error}");
    let plain = EtcdCluster::start(1);
    let error = open(&plain.address(&format!("a?timeout=2&ca={}", shown(&ca))), &OpenOptions::default());
    let error = error.err().unwrap().to_string();
    assert!(
        error.ends_with(&format!("the servers may not use TLS, which ca={} turns on", shown(&ca))),
        "{error}"
    );
}

#[test]
fn user_with_a_password() {
    if !has_etcd("users of etcd") {
        return;
    }
    let cluster = EtcdCluster::start(1);
    cluster.require_password("hunter2");
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        format!("{}?user=root&password-file={}", cluster.address("users"), path.display())
    };
    let create = OpenOptions::default().create_if_missing(true);
    let store = open(&file("right", "hunter2\n"), &create).unwrap();
    store.put(b"a", b"1").unwrap();
    assert_eq!(store.get(b"a").unwrap().unwrap(), b"1");
    for refused in [file("wrong", "hunter3"), cluster.address("users")] {
        let error = open(&refused, &create).err().expect("it is refused");
        assert!(matches!(error, Error::PermissionDenied(_)), "{error}");
        assert!(!error.to_string().contains("hunter3"), "{error}");
    }
    let without = open(&format!("{}?user=root", cluster.address("users")), &create).err().unwrap();
    assert!(without.to_string().contains("TERRACE_ETCD_PASSWORD"), "{without}");
}
