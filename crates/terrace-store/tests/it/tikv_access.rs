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
    for (ca, certificate, key) in
        [(stranger.path("ca.pem"), certificate, key), (ca, other_certificate, other_key)]
    {
        let files = format!("ca={}&cert={}&key={}", shown(&ca), shown(&certificate), shown(&key));
        let refused = open(&format!("{place}?timeout=1&{files}"), &OpenOptions::default());
        let error = refused.err().expect("it is refused");
        assert!(matches!(error, Error::Unavailable(_)), "{error}");
    }
    let plain = open(&format!("{place}?timeout=1"), &OpenOptions::default());
    assert!(matches!(plain.err(), Some(Error::Unavailable(_))));
}
