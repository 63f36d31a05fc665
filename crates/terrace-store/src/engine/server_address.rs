//! Parts of the addresses of distributed engines: hosts, prefix, time of a call, files.

use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use crate::address::Address;
use crate::error::{Error, Result};

/// Port of a host without a port: both etcd and PD use it for clients.
const DEFAULT_PORT: &str = "2379";
/// Maximum length of a prefix. The keys of the store have room for it in a request.
pub(super) const MAX_PREFIX: usize = 96;
/// Maximum size of a file with a certificate, a key or a password, in bytes.
const MAX_FILE: usize = 1 << 20;
/// Default of the option `timeout` in seconds.
const DEFAULT_TIMEOUT: u64 = 15;
/// Maximum of the option `timeout` in seconds.
const MAX_TIMEOUT: u64 = 3600;

/// Returns true if `name` is a part of a prefix.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

/// Returns the prefix of `address`, which consists of names with slashes between them.
pub(super) fn prefix(address: &Address) -> Result<String> {
    let Address { scheme, path, .. } = address;
    if path.len() <= MAX_PREFIX && path.split('/').all(is_name) {
        return Ok(path.clone());
    }
    Err(Error::InvalidArgument(format!(
        "'{path}' is no prefix, expected {scheme}://HOSTS/NAME or NAME/NAME: letters, digits, '.', '_' and '-', \
         at most {MAX_PREFIX} bytes"
    )))
}

/// Returns the hosts of `address`, each as HOST:PORT. There is at least one.
pub(super) fn hosts(address: &Address) -> Result<Vec<String>> {
    let Address { scheme, hosts, .. } = address;
    if hosts.is_empty() {
        // The text of the address was not checked for a password.
        return Err(Error::InvalidArgument(format!(
            "'{scheme}:' is followed by no host, expected {scheme}://HOST[:PORT],../PREFIX"
        )));
    }
    Ok(hosts.iter().map(|host| with_port(host)).collect())
}

fn with_port(host: &str) -> String {
    let has_port = host.rsplit_once(':').is_some_and(|(name, _)| !name.contains(':') || name.ends_with(']'));
    if has_port { host.to_owned() } else { format!("{host}:{DEFAULT_PORT}") }
}

/// Returns the maximum time of a call.
pub(super) fn timeout(address: &Address) -> Result<Duration> {
    seconds(address, "timeout", DEFAULT_TIMEOUT, MAX_TIMEOUT)
}

/// Returns the time of the option `name`: 1 to `max` seconds, or `default` seconds without the
/// option.
pub(super) fn seconds(address: &Address, name: &str, default: u64, max: u64) -> Result<Duration> {
    number(address, name, default, 1..=max, "seconds").map(Duration::from_secs)
}

/// Returns the number of the option `name`, which is in `range`, or `default` without the option.
pub(super) fn number(
    address: &Address,
    name: &str,
    default: u64,
    range: RangeInclusive<u64>,
    unit: &str,
) -> Result<u64> {
    let Some(text) = address.option(name) else { return Ok(default) };
    let number = text.parse().ok().filter(|number| range.contains(number));
    let min = range.start();
    let max = range.end();
    number
        .ok_or_else(|| Error::InvalidArgument(format!("{name}={text}: expected {unit} from {min} to {max}")))
}

/// Reads a whole file.
pub(super) fn read_file(path: &str) -> Result<Vec<u8>> {
    let error = |reason: String| Error::InvalidArgument(reason);
    let fs = terrace_env::Env::system().fs;
    let mut file = fs.open_sequential(Path::new(path)).map_err(|found| error(found.to_string()))?;
    let mut bytes = Vec::new();
    let mut buffer = vec![0; 16 << 10];
    loop {
        let len = file.read(&mut buffer).map_err(|found| error(found.to_string()))?;
        if len == 0 {
            return Ok(bytes);
        }
        bytes.extend_from_slice(&buffer[..len]);
        if bytes.len() > MAX_FILE {
            return Err(error(format!("{path}: more than 1 MiB")));
        }
    }
}
