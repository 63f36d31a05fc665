//! Hosts, prefix, TLS and user of an `etcd://` address.

use std::time::Duration;

use etcd_client::{Certificate, ConnectOptions, Identity, TlsOptions};

use super::super::server_address::{hosts, number, prefix, read_file, timeout};
use super::super::tls_files::check_tls_files;
use super::cluster::{ATTEMPT_TIME, CONNECT_TIME};
use crate::address::Address;
use crate::error::{Error, Result};

/// Options of an address.
const OPTIONS: &[&str] = &["ca", "cert", "key", "user", "password-file", "timeout", MAX_TXN_OPS];
/// Name of the option with the cluster's `--max-txn-ops`.
const MAX_TXN_OPS: &str = "max-txn-ops";
/// Default of etcd's `--max-txn-ops`.
const DEFAULT_TXN_OPS: u64 = 128;
/// Environment variable with the password of the user.
const PASSWORD_VARIABLE: &str = "TERRACE_ETCD_PASSWORD";

/// Parsed and checked address.
pub(super) struct Settings {
    /// Servers, each as HOST:PORT.
    pub(super) hosts: Vec<String>,
    pub(super) prefix: String,
    pub(super) connect: ConnectOptions,
    pub(super) is_encrypted: bool,
    /// Maximum time of a call.
    pub(super) timeout: Duration,
    /// Maximum number of operations of a transaction.
    pub(super) max_txn_ops: usize,
}

impl Settings {
    /// Checks `address`, and reads its files.
    pub(super) fn parse(address: &Address) -> Result<Settings> {
        let hosts = hosts(address)?;
        address.check_options(OPTIONS)?;
        let prefix = prefix(address)?;
        let mut connect = ConnectOptions::new()
            .with_connect_timeout(CONNECT_TIME)
            .with_keep_alive(ATTEMPT_TIME, ATTEMPT_TIME)
            .with_auto_token_refresh(true);
        let tls = tls(address)?;
        let is_encrypted = tls.is_some();
        if let Some(tls) = tls {
            connect = connect.with_tls(tls);
        }
        if let Some(user) = address.option("user") {
            connect = connect.with_user(user, password(address)?);
        }
        let max_txn_ops = number(address, MAX_TXN_OPS, DEFAULT_TXN_OPS, 16..=1_000_000, "operations")?;
        Ok(Settings {
            hosts,
            prefix,
            connect,
            is_encrypted,
            timeout: timeout(address)?,
            max_txn_ops: max_txn_ops as usize,
        })
    }
}

/// Returns the options of TLS if the address names the authority of the servers.
fn tls(address: &Address) -> Result<Option<TlsOptions>> {
    let Some(authority) = address.option("ca") else {
        return match address.option("cert").or(address.option("key")) {
            Some(_) => {
                Err(Error::InvalidArgument("cert and key need ca, the authority of the servers".into()))
            }
            None => Ok(None),
        };
    };
    let identity = match (address.option("cert"), address.option("key")) {
        (Some(cert), Some(key)) => Some((cert, key)),
        (None, None) => None,
        _ => return Err(Error::InvalidArgument("cert and key are needed together".into())),
    };
    check_tls_files(authority, identity)?;
    let tls = TlsOptions::new().ca_certificate(Certificate::from_pem(read_file(authority)?));
    match identity {
        Some((cert, key)) => Ok(Some(tls.identity(Identity::from_pem(read_file(cert)?, read_file(key)?)))),
        None => Ok(Some(tls)),
    }
}

/// Reads the password from the file of the address, or from the environment.
fn password(address: &Address) -> Result<String> {
    let bytes = match address.option("password-file") {
        Some(file) => read_file(file)?,
        None => {
            let found = std::env::var_os(PASSWORD_VARIABLE).ok_or_else(|| {
                Error::InvalidArgument(format!("user needs password-file=FILE or {PASSWORD_VARIABLE}"))
            })?;
            found.into_encoded_bytes()
        }
    };
    let text =
        String::from_utf8(bytes).map_err(|_| Error::InvalidArgument("the password is not UTF-8".into()))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
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
        #[test] fn one_host()        { check("etcd://h1/app", "h1:2379 app"); }
        #[test] fn ports()           { check("etcd://h1:1,[::1]:2,[::1]/a/b", "h1:1,[::1]:2,[::1]:2379 a/b"); }
        #[test] fn no_prefix()       { check("etcd://h1", "'' is no prefix"); }
        #[test] fn empty_name()      { check("etcd://h1/a//b", "is no prefix"); }
        #[test] fn no_host()         { check("etcd:///app", "'' is no host"); }
        #[test] fn no_slashes()      { check("etcd:app", "'etcd:' is followed by no host"); }
        #[test] fn unknown_option()  { check("etcd://h1/app?tsl=on", "unknown option 'tsl'"); }
        #[test] fn repeated_option() { check("etcd://h1/app?user=a&user=b", "appears twice"); }
        #[test] fn bad_timeout()     { check("etcd://h1/app?timeout=0", "expected seconds"); }
        #[test] fn bad_txn_ops()     { check("etcd://h1/app?max-txn-ops=9", "expected operations from 16"); }
        #[test] fn key_without_ca()  { check("etcd://h1/app?key=k", "need ca"); }
        #[test] fn missing_file()    { check("etcd://h1/app?ca=/nowhere/ca.pem", "/nowhere/ca.pem"); }
    }

    #[test]
    fn messages_hide_the_password() {
        let error = Address::parse("etcd://root:secret@h1/app").unwrap_err().to_string();
        assert!(!error.contains("secret") && error.contains("password-file"), "{error}");
        let one_slash = Address::parse("etcd:/root:secret@h1/app").unwrap();
        let error = Settings::parse(&one_slash).err().unwrap().to_string();
        assert!(!error.contains("secret"), "{error}");
    }
}
