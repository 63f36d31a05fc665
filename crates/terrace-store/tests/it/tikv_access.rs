//! TLS with certificates on both sides.

use terrace_store::{Error, KeyRange, OpenOptions, open};

use crate::authority::{Authority, shown};
use crate::tikv_double::{Double, has_double};

#[test]
fn tls_with_a_certificate_of_the_client() {
    if !has_double() {
        return;
    }
    let authority = Authority::new();
    let (certificate, key) = authority.issue("server");
    let ca = authority.path("ca.pem");
    let arguments =
        ["-ca".into(), shown(&ca), "-cert".into(), shown(&certificate), "-key".into(), shown(&key)];
    let double = Double::start_with(&arguments);
    let (certificate, key) = authority.issue("client");
    let place = double.address("tls");
    let secure = format!("{place}?ca={}&cert={}&key={}", shown(&ca), shown(&certificate), shown(&key));
    let store = open(&secure, &OpenOptions::default().create_if_missing(true)).unwrap();
    store.put(b"a", b"1").unwrap();
    let mut iter = store.iter(&KeyRange::all()).unwrap();
    iter.seek_to_first();
    assert_eq!(iter.value(), b"1");
    // The scan has found the borders of regions over the same TLS.
    assert!(double.counts()["GetRegion"] > 1);

    let stranger = Authority::new();
    let (other_certificate, other_key) = stranger.issue("client");
    let other_ca = stranger.path("ca.pem");
    let unknown_issuer = format!("no authority in {} has issued it", shown(&other_ca));
    let refused_client = format!("the servers may refuse the certificate in {}", shown(&other_certificate));
    for (ca, certificate, key, expect) in
        [(other_ca, certificate, key, unknown_issuer), (ca, other_certificate, other_key, refused_client)]
    {
        let files = format!("&ca={}&cert={}&key={}", shown(&ca), shown(&certificate), shown(&key));
        check_refused(&format!("{place}?timeout=2{files}"), &expect);
    }
    check_refused(&format!("{place}?timeout=2"), "the servers may use TLS, which needs ca=FILE");
}

#[track_caller]
fn check_refused(address: &str, expect: &str) {
    let error = open(address, &OpenOptions::default()).err().expect("it is refused");
    assert!(matches!(error, Error::Unavailable(_)), "{error}");
    let message = error.to_string();
    assert!(message.contains(expect) && message.lines().count() == 1, "{message}");
}
