//! Address of a store.
//!
//! ```text
//!   memory:
//!   local:PATH
//!   etcd://HOST[:PORT],HOST[:PORT]/PREFIX?OPTION=VALUE&..    also tikv://
//! ```
//!
//! An address contains no secret, so that it may appear on command lines and in messages. A
//! password comes from the environment or from a file.

use crate::error::{Error, Result};

/// Parsed address of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// Name of the engine: the text before the colon.
    pub scheme: String,
    /// Servers of a distributed engine.
    pub hosts: Vec<String>,
    /// Path of a local engine, or prefix of the keys of a distributed one.
    pub path: String,
    /// Options in their order.
    pub options: Vec<(String, String)>,
}

impl Address {
    /// Parses `text`.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for a text that is no address, or that contains a user or a
    /// password. The message does not repeat the latter.
    ///
    /// ```
    /// use terrace_store::Address;
    ///
    /// let address = Address::parse("etcd://h1:2379,h2/app?tls=on")?;
    /// assert_eq!(address.hosts, ["h1:2379", "h2"]);
    /// assert_eq!((address.path.as_str(), address.option("tls")), ("app", Some("on")));
    /// assert!(Address::parse("etcd://root:secret@h1/app").is_err());
    /// # Ok::<(), terrace_store::Error>(())
    /// ```
    pub fn parse(text: &str) -> Result<Address> {
        let Some((scheme, rest)) = text.split_once(':') else {
            return Err(Error::InvalidArgument(format!("'{text}' is no address, expected ENGINE:PLACE")));
        };
        match rest.strip_prefix("//") {
            Some(rest) if scheme != "local" => Address::remote(scheme, rest),
            _ => Ok(Address {
                scheme: scheme.to_owned(),
                hosts: Vec::new(),
                path: rest.to_owned(),
                options: Vec::new(),
            }),
        }
    }

    fn remote(scheme: &str, rest: &str) -> Result<Address> {
        if rest.contains('@') {
            return Err(Error::InvalidArgument(format!(
                "a {scheme}:// address contains no user or password; use ?user=NAME, and the environment or \
                 ?password-file=FILE for the password"
            )));
        }
        let (place, options) = rest.split_once('?').unwrap_or((rest, ""));
        let (hosts, path) = place.split_once('/').unwrap_or((place, ""));
        let hosts: Vec<String> = hosts.split(',').map(str::to_owned).collect();
        if let Some(host) = hosts.iter().find(|host| !is_host(host)) {
            return Err(Error::InvalidArgument(format!("'{host}' is no host, expected HOST or HOST:PORT")));
        }
        let options = options.split('&').filter(|option| !option.is_empty()).map(parse_option);
        Ok(Address {
            scheme: scheme.to_owned(),
            hosts,
            path: path.to_owned(),
            options: options.collect::<Result<_>>()?,
        })
    }

    /// Returns the value of the option `name`.
    pub fn option(&self, name: &str) -> Option<&str> {
        self.options.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns an error if there is an option that `known` does not contain, or one that repeats.
    #[cfg(any(feature = "etcd", feature = "tikv"))]
    pub(crate) fn check_options(&self, known: &[&str]) -> Result<()> {
        for (index, (name, _)) in self.options.iter().enumerate() {
            if !known.contains(&name.as_str()) {
                let known = known.join(", ");
                return Err(Error::InvalidArgument(format!(
                    "unknown option '{name}' of {}://, expected one of {known}",
                    self.scheme
                )));
            }
            if self.options[..index].iter().any(|(earlier, _)| earlier == name) {
                return Err(Error::InvalidArgument(format!("option '{name}' appears twice")));
            }
        }
        Ok(())
    }
}

/// Returns true if `host` consists of a name or an IP address, and perhaps a port.
fn is_host(host: &str) -> bool {
    !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte))
}

fn parse_option(text: &str) -> Result<(String, String)> {
    match text.split_once('=') {
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => Err(Error::InvalidArgument(format!("option '{text}' has no value, expected NAME=VALUE"))),
    }
}
