//! TLS: certificates, clients that do not speak it, and a change of certificates.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use terrace_server::{ServeError, TlsConfig, TlsFiles};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, crypto::ring};

use crate::client::Client;
use crate::server::Server;

/// Authority, and certificates that it has signed.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Authority {
        let mut params = CertificateParams::new(vec!["authority".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Authority { pem, issuer: Issuer::new(params, key) }
    }

    /// Returns a certificate and its key.
    fn sign(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }
}

fn write(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// Writes the files of a server.
fn files(dir: &Path, authority: &Authority, needs_client: bool) -> TlsFiles {
    let (certificate, key) = authority.sign("localhost");
    TlsFiles {
        certificates: write(dir, "server.pem", &certificate),
        key: write(dir, "server.key", &key),
        client_authorities: needs_client.then(|| write(dir, "authority.pem", &authority.pem)),
    }
}

fn start(dir: &Path, files: TlsFiles) -> Server {
    Server::start(&dir.join("db"), |config| config.tls = Some(TlsConfig { port: 0, files }))
}

type TlsClient = StreamOwned<ClientConnection, TcpStream>;

/// Connects to `address`. The client trusts `authority` and may have a certificate.
fn connect(address: SocketAddr, authority: &Authority, own: Option<(String, String)>) -> TlsClient {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.pem.as_bytes()).unwrap()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = match own {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        }
    };
    let connection = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    StreamOwned::new(connection, stream)
}

fn call(client: &mut TlsClient, command: &[u8], reply_len: usize) -> std::io::Result<String> {
    client.write_all(command)?;
    let mut reply = vec![0; reply_len];
    client.read_exact(&mut reply)?;
    Ok(String::from_utf8(reply).unwrap())
}

#[test]
fn commands_over_tls() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let server = start(dir.path(), files(dir.path(), &authority, false));
    let mut client = connect(server.addresses.tls[0], &authority, None);
    assert_eq!(call(&mut client, b"PING\r\n", 7).unwrap(), "+PONG\r\n");
    // More than the buffers of TLS and of the socket.
    let value = vec![b'x'; 8 << 20];
    let set =
        [format!("*3\r\n$3\r\nSET\r\n$1\r\na\r\n${}\r\n", value.len()).as_bytes(), &value, b"\r\n"].concat();
    assert_eq!(call(&mut client, &set, 5).unwrap(), "+OK\r\n");
    let reply = call(&mut client, b"GET a\r\nPING\r\n", 10 + value.len() + 2 + 7).unwrap();
    assert!(reply.ends_with("xx\r\n+PONG\r\n"));
    // Both ports serve the same database.
    server.client().check(&[("STRLEN a", ":8388608")]);
}

#[test]
fn client_without_a_certificate() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let server = start(dir.path(), files(dir.path(), &authority, true));
    let address = server.addresses.tls[0];
    let mut known = connect(address, &authority, Some(authority.sign("client")));
    assert_eq!(call(&mut known, b"PING\r\n", 7).unwrap(), "+PONG\r\n");
    let mut without = connect(address, &authority, None);
    assert!(call(&mut without, b"PING\r\n", 7).is_err());
    let stranger = Authority::new().sign("client");
    let mut foreign = connect(address, &authority, Some(stranger));
    assert!(call(&mut foreign, b"PING\r\n", 7).is_err());
}

#[test]
fn other_protocols() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let server = start(dir.path(), files(dir.path(), &authority, false));
    // The beginning of a TLS handshake on the plain port.
    let mut client = server.client();
    client.send_bytes(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03");
    assert_eq!(client.rest(), "-ERR Protocol error: TLS bytes on a port without TLS\\r\\n");
    // HTTP on both ports.
    for address in [server.address, server.addresses.tls[0]] {
        let mut client = Client::connect(address);
        client.send_bytes(b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\nSET a 1\r\n");
        let reply = client.rest();
        assert!(!reply.contains("OK"), "{reply}");
    }
    // A plain client on the TLS port.
    let mut client = Client::connect(server.addresses.tls[0]);
    client.send_bytes(b"*1\r\n$4\r\nPING\r\n");
    assert!(!client.rest().contains("PONG"));
    server.client().check(&[("GET a", "nil")]);
}

#[test]
fn half_open_handshake_ends() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let server = Server::start(&dir.path().join("db"), |config| {
        config.tls = Some(TlsConfig { port: 0, files: files(dir.path(), &authority, false) });
        config.max_clients = 2;
    });
    let address = server.addresses.tls[0];
    let mut silent = [TcpStream::connect(address).unwrap(), TcpStream::connect(address).unwrap()];
    silent[1].write_all(b"\x16\x03\x01\x02\x00").unwrap();
    std::thread::sleep(Duration::from_millis(500));
    // Handshakes count as clients.
    assert_eq!(server.client().rest(), "-ERR max number of clients reached\\r\\n");
    for stream in &mut silent {
        stream.set_read_timeout(Some(Duration::from_secs(15))).unwrap();
        let ended = stream.read(&mut [0; 16]);
        assert!(matches!(ended, Ok(0)), "{ended:?}");
    }
    server.client().check(&[("PING", "PONG")]);
}

#[test]
fn unusable_certificates() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let good = files(dir.path(), &authority, false);
    let other_key = write(dir.path(), "other.key", &authority.sign("localhost").1);
    let text = write(dir.path(), "text.pem", "no certificate");
    let missing = dir.path().join("missing.pem");
    let cases = [
        (TlsFiles { key: other_key, ..good.clone() }, "server.pem: the certificate does not match the key"),
        (TlsFiles { certificates: text.clone(), ..good.clone() }, "text.pem: no certificate as PEM"),
        (TlsFiles { key: text.clone(), ..good.clone() }, "text.pem: no private key as PEM"),
        (TlsFiles { certificates: missing, ..good.clone() }, "missing.pem"),
        (TlsFiles { client_authorities: Some(text), ..good }, "text.pem: no certificate as PEM"),
    ];
    for (files, expected) in cases {
        let started = Server::try_start(&dir.path().join("db"), |config| {
            config.tls = Some(TlsConfig { port: 0, files });
        });
        let error = started.err().unwrap();
        assert!(
            matches!(error, ServeError::Certificate(_)) && error.to_string().contains(expected),
            "{error}"
        );
    }
}

#[test]
fn other_addresses_need_client_certificates() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    for (needs_client, is_ok) in [(false, false), (true, true)] {
        let started = Server::try_start(&dir.path().join("db"), |config| {
            config.port = None;
            config.bind = vec![[0, 0, 0, 0].into()];
            config.tls = Some(TlsConfig { port: 0, files: files(dir.path(), &authority, needs_client) });
        });
        assert_eq!(started.is_ok(), is_ok, "{:?}", started.err());
    }
}
