//! Table of the engines. A new engine is one file and one row of [`ENGINES`].

#[cfg(any(feature = "etcd", feature = "tikv"))]
mod call_threads;
#[cfg(any(feature = "etcd", feature = "tikv"))]
mod connection_error;
#[cfg(feature = "etcd")]
mod etcd;
#[cfg(any(feature = "etcd", feature = "tikv"))]
mod group_commit;
#[cfg(any(feature = "etcd", feature = "tikv"))]
mod lanes;
mod local;
mod memory;
#[cfg(any(feature = "etcd", feature = "tikv"))]
mod prefix_layout;
#[cfg(any(feature = "etcd", feature = "tikv"))]
mod server_address;
#[cfg(feature = "tikv")]
mod tikv;
#[cfg(any(feature = "etcd", feature = "tikv"))]
mod tls_files;

use std::sync::Arc;

use crate::address::Address;
use crate::error::{Error, Result};
use crate::store::Store;

/// Function that opens a store at an address.
type OpenStore = fn(&Address, &OpenOptions) -> Result<Arc<dyn Store>>;

/// An engine of stores.
pub struct Engine {
    /// Text before the colon of an address.
    pub scheme: &'static str,
    /// Form of the addresses.
    pub form: &'static str,
    /// One line about the engine.
    pub about: &'static str,
    /// Function that opens a store. None: this build does not contain the engine.
    open: Option<OpenStore>,
    /// Reason for which this build does not contain the engine.
    missing: &'static str,
}

impl Engine {
    /// Returns true if this build contains the engine.
    pub fn is_built_in(&self) -> bool {
        self.open.is_some()
    }
}

#[cfg(feature = "etcd")]
const OPEN_ETCD: Option<OpenStore> = Some(etcd::open);
#[cfg(not(feature = "etcd"))]
const OPEN_ETCD: Option<OpenStore> = None;

#[cfg(feature = "tikv")]
const OPEN_TIKV: Option<OpenStore> = Some(tikv::open);
#[cfg(not(feature = "tikv"))]
const OPEN_TIKV: Option<OpenStore> = None;

/// All engines.
pub static ENGINES: &[Engine] = &[
    Engine {
        scheme: "memory",
        form: "memory:",
        about: "ordered map in memory, lost at the end of the process",
        open: Some(memory::open),
        missing: "",
    },
    Engine {
        scheme: "local",
        form: "local:PATH",
        about: "database in a directory, in LevelDB's format",
        open: Some(local::open),
        missing: "",
    },
    Engine {
        scheme: "etcd",
        form: "etcd://HOST[:PORT],../PREFIX",
        about: "etcd cluster, version 3.4 or later",
        open: OPEN_ETCD,
        missing: "this build lacks the feature etcd; cargo build --package terrace-cli --features etcd has it",
    },
    Engine {
        scheme: "tikv",
        form: "tikv://HOST[:PORT],../PREFIX",
        about: "TiKV cluster, by the addresses of its placement drivers",
        open: OPEN_TIKV,
        missing: "this build lacks the feature tikv; cargo build --package terrace-cli --features tikv has it",
    },
];

/// Options for [`open`].
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct OpenOptions {
    /// Creates a store that does not exist. Default: false, so that a wrong path or prefix is an
    /// error.
    pub create_if_missing: bool,
    /// Opens the store for reading only. `local:` then takes no lock and follows the writer of the
    /// directory, if there is one. Default: false.
    pub read_only: bool,
    /// Excludes writers while the store is open for reading only: `local:` takes the lock of
    /// readers, and a damaged log is an error. Other engines have no such lock. Default: false.
    pub exclude_writers: bool,
}

impl OpenOptions {
    /// Sets [`OpenOptions::create_if_missing`].
    #[must_use]
    pub fn create_if_missing(mut self, create_if_missing: bool) -> OpenOptions {
        self.create_if_missing = create_if_missing;
        self
    }

    /// Sets [`OpenOptions::read_only`].
    #[must_use]
    pub fn read_only(mut self, read_only: bool) -> OpenOptions {
        self.read_only = read_only;
        self
    }

    /// Sets [`OpenOptions::exclude_writers`].
    #[must_use]
    pub fn exclude_writers(mut self, exclude_writers: bool) -> OpenOptions {
        self.exclude_writers = exclude_writers;
        self
    }
}

/// Returns true if `text` begins with the name of an engine and a colon.
///
/// ```
/// assert!(terrace_store::is_address("etcd://h1/app"));
/// assert!(!terrace_store::is_address("cities"));
/// ```
pub fn is_address(text: &str) -> bool {
    text.split_once(':').is_some_and(|(scheme, _)| ENGINES.iter().any(|engine| engine.scheme == scheme))
}

/// Opens the store at `address`.
///
/// # Errors
///
/// [`Error::InvalidArgument`] for a wrong address, or for a store that does not exist.
/// [`Error::NotSupported`] for an engine that this build lacks, or for a store of another layout
/// version. [`Error::Unavailable`] if no server answers. None of them writes anything.
pub fn open(address: &str, options: &OpenOptions) -> Result<Arc<dyn Store>> {
    let address = Address::parse(address)?;
    let Some(engine) = ENGINES.iter().find(|engine| engine.scheme == address.scheme) else {
        let known: Vec<&str> = ENGINES.iter().map(|engine| engine.form).collect();
        return Err(Error::InvalidArgument(format!(
            "'{}' is no engine, expected one of {}",
            address.scheme,
            known.join(" ")
        )));
    };
    match engine.open {
        Some(open) => open(&address, options),
        None => Err(Error::NotSupported(format!("{}: {}", engine.form, engine.missing))),
    }
}
