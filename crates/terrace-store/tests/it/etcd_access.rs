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
    let stranger = shown(&Authority::new().path("ca.pem"));
    let other = Authority::new();
    for refused in [
        format!("{place}?timeout=1"),
        format!("{place}?timeout=1&ca={}", shown(&ca)),
        format!("{place}?timeout=1&ca={}", shown(&other.path("ca.pem"))),
        format!("{place}?timeout=1&ca={stranger}"),
    ] {
        let error = open(&refused, &OpenOptions::default()).err().expect("it is refused");
        assert!(matches!(error, Error::Unavailable(_) | Error::InvalidArgument(_)), "{refused}: {error}");
    }
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
