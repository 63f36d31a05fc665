//! Wrong addresses and prefixes are errors, and nothing is written.

use terrace_store::{Error, OpenOptions, open};

#[track_caller]
fn check(address: &str, options: &OpenOptions, expect: &str) {
    let error = match open(address, options) {
        Ok(_) => panic!("{address} opens"),
        Err(error) => error.to_string(),
    };
    assert!(error.contains(expect), "{address}: {error}");
}

#[test]
fn unusable_addresses() {
    let create = OpenOptions::default().create_if_missing(true);
    check("cities", &create, "'cities' is no address");
    check("ftp://host/x", &create, "'ftp' is no engine");
    check("memory:x", &create, "expected memory:");
    check("local:", &create, "'local:' has no path");
    #[cfg(not(feature = "tikv"))]
    check("tikv://pd1/app", &create, "this build lacks the feature tikv");
    check("etcd://user:secret@host/app", &create, "no user or password");
}

#[test]
fn missing_directory() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("missing");
    let address = format!("local:{}", path.display());
    for options in [OpenOptions::default(), OpenOptions::default().read_only(true)] {
        let error = open(&address, &options).err().unwrap();
        assert!(matches!(error, Error::Missing(_)), "{error:?}");
        assert_eq!(error.to_string(), format!("no store: {}: does not exist", path.display()));
    }
    assert!(!path.exists());
}

#[test]
fn read_only_store_follows_its_writer() {
    let directory = tempfile::tempdir().unwrap();
    let address = format!("local:{}", directory.path().display());
    let writer = open(&address, &OpenOptions::default().create_if_missing(true)).unwrap();
    writer.put(b"a", b"1").unwrap();
    let reader = open(&address, &OpenOptions::default().read_only(true)).unwrap();
    writer.put(b"b", b"2").unwrap();
    assert_eq!(reader.get(b"b").unwrap().unwrap(), b"2");
    assert!(matches!(reader.put(b"c", b"3"), Err(Error::NotSupported(_))));
}

#[cfg(feature = "etcd")]
mod etcd {
    use super::*;
    use crate::cluster::{has_etcd, shared_server};

    #[test]
    fn no_server() {
        // A port without a listener.
        let reason = "etcd 127.0.0.1:1: tcp connect error: Connection refused";
        check("etcd://127.0.0.1:1/app?timeout=1", &OpenOptions::default(), reason);
    }

    #[test]
    fn server_of_another_protocol() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            use std::io::Write;
            for mut stream in listener.incoming().flatten() {
                let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
            }
        });
        check(
            &format!("etcd://127.0.0.1:{port}/app?timeout=1"),
            &OpenOptions::default(),
            "unavailable: etcd",
        );
    }

    #[test]
    fn prefixes_of_other_programs() {
        if !has_etcd("prefixes of etcd") {
            return;
        }
        let server = shared_server();
        let create = OpenOptions::default().create_if_missing(true);
        check(&server.address("unknown"), &OpenOptions::default(), "no store has the prefix 'unknown'");
        check(&server.address("unknown"), &OpenOptions::default(), "no store has the prefix 'unknown'");

        let store = open(&server.address("outer/inner"), &create).unwrap();
        store.put(b"a", b"1").unwrap();
        check(&server.address("outer"), &create, "the prefix 'outer' shares keys with another program");
        check(&server.address("outer/inner/x"), &create, "such as 'outer/inner\\x00v'");
        check(&server.address("outer"), &OpenOptions::default(), "no store has the prefix 'outer'");
        let beside = open(&server.address("outer/inner2"), &create).unwrap();
        assert_eq!(beside.get(b"a").unwrap(), None);
        assert_eq!(open(&server.address("outer/inner"), &create).unwrap().get(b"a").unwrap().unwrap(), b"1");
    }

    #[test]
    fn other_layout_version() {
        if !has_etcd("layout versions of etcd") {
            return;
        }
        let server = shared_server();
        let create = OpenOptions::default().create_if_missing(true);
        crate::cluster::put_with_http(server.servers[0].client_port, b"later\0v", b"terrace-store 2");
        check(
            &server.address("later"),
            &create,
            "has the layout 'terrace-store 2', expected 'terrace-store 1'",
        );
    }

    #[test]
    fn read_only_store_writes_nothing() {
        if !has_etcd("read-only stores of etcd") {
            return;
        }
        let server = shared_server();
        let create = OpenOptions::default().create_if_missing(true);
        check(&server.address("readers"), &create.clone().read_only(true), "no store has the prefix");
        open(&server.address("readers"), &create).unwrap().put(b"a", b"1").unwrap();
        let reader = open(&server.address("readers"), &OpenOptions::default().read_only(true)).unwrap();
        assert_eq!(reader.get(b"a").unwrap().unwrap(), b"1");
        assert!(matches!(reader.put(b"a", b"2"), Err(Error::NotSupported(_))));
        assert_eq!(reader.get(b"a").unwrap().unwrap(), b"1");
    }
}

#[cfg(feature = "tikv")]
mod tikv {
    use super::*;
    use crate::tikv_double::{has_double, shared};

    #[test]
    fn no_server() {
        let reason = "tikv 127.0.0.1:1: error trying to connect: tcp connect error: Connection refused";
        check("tikv://127.0.0.1:1/app?timeout=1", &OpenOptions::default(), reason);
    }

    #[test]
    fn server_that_is_silent() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let address = format!("tikv://127.0.0.1:{port}/app?timeout=1");
        check(&address, &OpenOptions::default(), "unavailable: tikv");
    }

    #[test]
    fn prefixes_of_other_programs() {
        if !has_double() {
            return;
        }
        let double = shared();
        let create = OpenOptions::default().create_if_missing(true);
        check(&double.address("unknown"), &OpenOptions::default(), "no store has the prefix 'unknown'");
        check(&double.address("unknown"), &OpenOptions::default(), "no store has the prefix 'unknown'");

        let store = open(&double.address("outer/inner"), &create).unwrap();
        store.put(b"a", b"1").unwrap();
        check(&double.address("outer"), &create, "the prefix 'outer' shares keys with another program");
        check(&double.address("outer/inner/x"), &create, "such as 'outer/inner\\x00v'");
        check(&double.address("outer"), &OpenOptions::default(), "no store has the prefix 'outer'");
        let beside = open(&double.address("outer/inner2"), &create).unwrap();
        assert_eq!(beside.get(b"a").unwrap(), None);
        assert_eq!(open(&double.address("outer/inner"), &create).unwrap().get(b"a").unwrap().unwrap(), b"1");
    }

    #[test]
    fn concurrent_creations_of_nested_prefixes() {
        if !has_double() {
            return;
        }
        let create = OpenOptions::default().create_if_missing(true);
        for round in 0..10 {
            let names = [format!("nest{round}"), format!("nest{round}/x"), format!("nest{round}/x/y")];
            let opened = std::thread::scope(|scope| {
                let threads: Vec<_> = names
                    .iter()
                    .map(|name| scope.spawn(|| open(&shared().address(name), &create).is_ok()))
                    .collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).filter(|is_open| *is_open).count()
            });
            assert_eq!(opened, 1, "round {round}");
        }
    }

    #[test]
    fn other_layout_version() {
        if !has_double() {
            return;
        }
        let double = shared();
        double.put(b"later\0v", b"terrace-store 2");
        let create = OpenOptions::default().create_if_missing(true);
        let expect = "has the layout 'terrace-store 2', expected 'terrace-store 1'";
        check(&double.address("later"), &create, expect);
    }

    #[test]
    fn read_only_store_writes_nothing() {
        if !has_double() {
            return;
        }
        let double = shared();
        let create = OpenOptions::default().create_if_missing(true);
        check(&double.address("readers"), &create.clone().read_only(true), "no store has the prefix");
        open(&double.address("readers"), &create).unwrap().put(b"a", b"1").unwrap();
        let reader = open(&double.address("readers"), &OpenOptions::default().read_only(true)).unwrap();
        assert_eq!(reader.get(b"a").unwrap().unwrap(), b"1");
        assert!(matches!(reader.put(b"a", b"2"), Err(Error::NotSupported(_))));
        assert_eq!(reader.get(b"a").unwrap().unwrap(), b"1");
    }
}
