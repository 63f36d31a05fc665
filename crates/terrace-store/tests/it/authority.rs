//! Certificates for tests of TLS.

use std::ops::Range;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use tempfile::TempDir;

/// Authority with certificates in a directory.
pub(crate) struct Authority {
    directory: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let authority = Authority { directory, issuer };
        std::fs::write(authority.path("ca.pem"), authority.issuer.pem()).unwrap();
        authority
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Issues a certificate for this machine, and returns the paths of it and of its key.
    pub(crate) fn issue(&self, name: &str) -> (PathBuf, PathBuf) {
        self.issue_in_years(name, 2000..4000)
    }

    /// Issues a certificate for this machine that is valid from the first year to the last one.
    pub(crate) fn issue_in_years(&self, name: &str, years: Range<i32>) -> (PathBuf, PathBuf) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["localhost".into(), "127.0.0.1".into()]).unwrap();
        params.not_before = date_time_ymd(years.start, 1, 1);
        params.not_after = date_time_ymd(years.end, 1, 1);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let paths = (self.path(&format!("{name}.pem")), self.path(&format!("{name}.key")));
        std::fs::write(&paths.0, certificate.pem()).unwrap();
        std::fs::write(&paths.1, key.serialize_pem()).unwrap();
        paths
    }
}

/// Path as text.
pub(crate) fn shown(path: &Path) -> String {
    path.display().to_string()
}
