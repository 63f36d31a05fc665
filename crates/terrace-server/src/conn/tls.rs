//! TLS: certificates of the server and of clients, and their reload.
//!
//! ```text
//!   files   certificate chain, private key, [authorities of client certificates]
//!   SIGHUP  reads them again; new connections use them, open ones continue
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_env::FileSystem;
use terrace_sync::native_locks::Mutex;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

/// Maximum size of a file, in bytes.
const MAX_FILE: usize = 4 << 20;

/// Files of certificates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// Certificate of the server, followed by those of its authorities, as PEM.
    pub certificates: PathBuf,
    /// Private key of the certificate, as PEM.
    pub key: PathBuf,
    /// Authorities of client certificates, as PEM. With them, each client needs a certificate.
    pub client_authorities: Option<PathBuf>,
}

/// Current certificates.
pub(crate) struct Tls {
    files: TlsFiles,
    fs: Arc<dyn FileSystem>,
    current: Mutex<Arc<ServerConfig>>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Tls").field(&self.files).finish()
    }
}

impl Tls {
    /// Reads the files. The error names the file.
    pub(crate) fn new(files: &TlsFiles, fs: &Arc<dyn FileSystem>) -> Result<Tls, String> {
        let config = load(files, &**fs)?;
        Ok(Tls { files: files.clone(), fs: Arc::clone(fs), current: Mutex::new(Arc::new(config)) })
    }

    /// Reads the files again. After an error, the old certificates remain.
    pub(crate) fn reload(&self) -> Result<(), String> {
        *self.current.lock() = Arc::new(load(&self.files, &*self.fs)?);
        Ok(())
    }

    /// Acceptor with the current certificates.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&*self.current.lock()))
    }
}

fn load(files: &TlsFiles, fs: &dyn FileSystem) -> Result<ServerConfig, String> {
    let chain = certificates(fs, &files.certificates)?;
    let key = PrivateKeyDer::from_pem_slice(&read(fs, &files.key)?)
        .map_err(|error| format!("{}: no private key as PEM: {error}", files.key.display()))?;
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let builder = match &files.client_authorities {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for authority in certificates(fs, path)? {
                roots.add(authority).map_err(|error| format!("{}: {error}", path.display()))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder
                .with_client_cert_verifier(verifier.map_err(|error| format!("{}: {error}", path.display()))?)
        }
    };
    builder.with_single_cert(chain, key).map_err(|error| {
        let TlsFiles { certificates, key, .. } = files;
        format!(
            "{}: the certificate does not match the key {}: {error}",
            certificates.display(),
            key.display()
        )
    })
}

fn certificates(fs: &dyn FileSystem, path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let bytes = read(fs, path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let found = found.map_err(|error| format!("{}: {error}", path.display()))?;
    if found.is_empty() {
        return Err(format!("{}: no certificate as PEM", path.display()));
    }
    Ok(found)
}

/// Reads a whole file.
fn read(fs: &dyn FileSystem, path: &Path) -> Result<Vec<u8>, String> {
    let mut file = fs.open_sequential(path).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    let mut buffer = vec![0; 16 << 10];
    loop {
        let len = file.read(&mut buffer).map_err(|error| error.to_string())?;
        if len == 0 {
            return Ok(bytes);
        }
        bytes.extend_from_slice(&buffer[..len]);
        if bytes.len() > MAX_FILE {
            return Err(format!("{}: more than 4 MiB, expected certificates as PEM", path.display()));
        }
    }
}
