//! Hosts, prefix, TLS and times of a `tikv://` address.

use std::time::Duration;

use super::super::server_address::{hosts, prefix, seconds, timeout};
use super::super::tls_files::check_tls_files;
use crate::address::Address;
use crate::error::{Error, Result};

/// Options of an address.
const OPTIONS: &[&str] = &["ca", "cert", "key", "timeout", "snapshots", "gc"];
/// Default of the maximum age of a snapshot in seconds. It is below TiDB's default
/// `tidb_gc_life_time` of 10 minutes.
const DEFAULT_SNAPSHOT_AGE: u64 = 570;
/// Greatest value of the maximum age of a snapshot in seconds.
const MAX_SNAPSHOT_AGE: u64 = 7 * 24 * 3600;
/// Maximum age of the safe point in seconds.
const MAX_GC_AGE: u64 = 30 * 24 * 3600;

/// Parsed and checked address.
#[derive(Debug)]
pub(super) struct Settings {
    /// Placement drivers, each as HOST:PORT.
    pub(super) hosts: Vec<String>,
    pub(super) prefix: String,
    pub(super) tls: Option<TlsFiles>,
    /// Maximum time of a call.
    pub(super) timeout: Duration,
    pub(super) max_snapshot_age: Duration,
    /// Age of the safe point that this program moves, if it does.
    pub(super) gc_age: Option<Duration>,
}

/// Files for TLS, as PEM.
#[derive(Debug, Clone)]
pub(super) struct TlsFiles {
    pub(super) ca: String,
    pub(super) cert: String,
    pub(super) key: String,
}

impl Settings {
    /// Checks `address` and its files.
    pub(super) fn parse(address: &Address) -> Result<Settings> {
        let hosts = hosts(address)?;
        address.check_options(OPTIONS)?;
        let timeout = timeout(address)?;
        let max_snapshot_age = seconds(address, "snapshots", DEFAULT_SNAPSHOT_AGE, MAX_SNAPSHOT_AGE)?;
        Ok(Settings {
            hosts,
            prefix: prefix(address)?,
            tls: tls(address)?,
            timeout,
            max_snapshot_age,
            gc_age: gc_age(address, max_snapshot_age + timeout)?,
        })
    }
}

/// Returns the files for TLS, which are needed together: TiKV checks the certificates of clients.
fn tls(address: &Address) -> Result<Option<TlsFiles>> {
    match ["ca", "cert", "key"].map(|name| address.option(name)) {
        [None, None, None] => Ok(None),
        [Some(ca), Some(cert), Some(key)] => {
            check_tls_files(ca, Some((cert, key)))?;
            Ok(Some(TlsFiles { ca: ca.into(), cert: cert.into(), key: key.into() }))
        }
        _ => Err(Error::InvalidArgument("ca, cert and key are needed together".into())),
    }
}

/// Returns the age of the safe point. A read of a snapshot of the maximum age may take the whole
/// time of a call, and must see all versions until then.
fn gc_age(address: &Address, least: Duration) -> Result<Option<Duration>> {
    if address.option("gc").is_none() {
        return Ok(None);
    }
    let age = seconds(address, "gc", 0, MAX_GC_AGE)?;
    match age >= least {
        true => Ok(Some(age)),
        false => Err(Error::InvalidArgument(format!(
            "gc={} is below the sum of snapshots and timeout, {} seconds",
            age.as_secs(),
            least.as_secs()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: &str) {
        let parsed = Address::parse(text).and_then(|address| Settings::parse(&address));
        let shown = parsed.map_or_else(|e| e.to_string(), |s| format!("{} {}", s.hosts.join(","), s.prefix));
        assert!(shown.contains(expect), "{shown}");
    }

    #[rustfmt::skip]
    mod addresses {
        use super::check;
        #[test] fn default_port()   { check("tikv://pd1,pd2:1/app", "pd1:2379,pd2:1 app"); }
        #[test] fn no_slashes()     { check("tikv:/pd1/app", "'tikv:' is followed by no host"); }
        #[test] fn no_prefix()      { check("tikv://pd1", "'' is no prefix, expected tikv://"); }
        #[test] fn unknown_option() { check("tikv://pd1/app?user=root", "unknown option 'user'"); }
        #[test] fn ca_alone()       { check("tikv://pd1/app?ca=ca.pem", "needed together"); }
        #[test] fn missing_file()   { check("tikv://pd1/app?ca=/nowhere/c&cert=c&key=k", "/nowhere/c"); }
        #[test] fn gc_too_young()   { check("tikv://pd1/app?gc=584", "below the sum of snapshots and timeout, 585"); }
        #[test] fn gc_at_least()    { check("tikv://pd1/app?gc=585", "pd1:2379 app"); }
        #[test] fn bad_age()        { check("tikv://pd1/app?snapshots=0", "expected seconds"); }
    }
}
