//! Checks of the files for TLS in an address, before the first connection.
//!
//! The client libraries read a file without a certificate as an empty list, and one of them then
//! connects without TLS. They also report an unusable client certificate as a closed connection.

use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, Error as TlsError};

use super::server_address::read_file;
use crate::error::{Error, Result};

const NO_CERTIFICATE: &str = "no certificate as PEM";

/// Checks the file of the authorities `ca`, and those of a certificate and its key.
///
/// # Errors
///
/// [`Error::InvalidArgument`] names the file.
pub(super) fn check_tls_files(ca: &str, identity: Option<(&str, &str)>) -> Result<()> {
    let mut authorities = RootCertStore::empty();
    // The libraries ignore the unusable ones among others, too.
    if authorities.add_parsable_certificates(certificates(ca)?).0 == 0 {
        return Err(refused(ca, NO_CERTIFICATE));
    }
    match identity {
        None => Ok(()),
        Some((cert, key)) => check_identity(authorities, cert, key),
    }
}

fn refused(path: &str, reason: &str) -> Error {
    Error::InvalidArgument(format!("{path}: {reason}"))
}

/// Returns the certificates in a file. There is at least one.
fn certificates(path: &str) -> Result<Vec<CertificateDer<'static>>> {
    let bytes = read_file(path)?;
    let found: std::result::Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => Err(refused(path, NO_CERTIFICATE)),
    }
}

fn check_identity(authorities: RootCertStore, cert: &str, key: &str) -> Result<()> {
    let chain = certificates(cert)?;
    let secret = PrivateKeyDer::from_pem_slice(&read_file(key)?)
        .map_err(|_| refused(key, "no private key as PEM, or one with a password"))?;
    let provider = default_provider();
    match CertifiedKey::from_der(chain.clone(), secret, &provider) {
        Ok(_) => {}
        Err(TlsError::InconsistentKeys(_)) => {
            return Err(refused(key, &format!("not the private key of the certificate in {cert}")));
        }
        Err(TlsError::InvalidCertificate(_)) => return Err(refused(cert, "not a certificate")),
        Err(error) => return Err(refused(key, &error.to_string())),
    }
    check_validity(authorities, cert, &chain)
}

/// Fails if the first certificate of `chain` is not valid at this time. Its authority need not be
/// that of the servers.
fn check_validity(authorities: RootCertStore, cert: &str, chain: &[CertificateDer<'static>]) -> Result<()> {
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(authorities), Arc::new(default_provider()))
            .build();
    let (Some((first, others)), Ok(verifier)) = (chain.split_first(), verifier) else { return Ok(()) };
    match verifier.verify_client_cert(first, others, UnixTime::now()) {
        Err(TlsError::InvalidCertificate(
            CertificateError::Expired | CertificateError::ExpiredContext { .. },
        )) => Err(refused(cert, "the certificate has expired")),
        Err(TlsError::InvalidCertificate(
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. },
        )) => Err(refused(cert, "the certificate is not valid yet")),
        _ => Ok(()),
    }
}
