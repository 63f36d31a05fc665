//! Configuration of a server.

use std::net::IpAddr;
use std::path::PathBuf;

use terrace::Options;
use terrace_store::{Address, ENGINES, is_address};

use crate::conn::{MAX_LONG_JOBS, SLOW_THREADS, TlsFiles};
use crate::store::{Layout, SharedStoreConfig, SyncMode};
use crate::users::UserConfig;

/// Configuration of a server. The default listens on the loopback address and port 6379.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerConfig {
    /// Directory of the database.
    pub dir: PathBuf,
    /// Store that several servers share, in place of the directory.
    pub shared_store: Option<SharedStoreConfig>,
    /// Options to open the database. The server also takes the clock and the randomness from them.
    pub engine: Options,
    /// Addresses to listen on.
    pub bind: Vec<IpAddr>,
    /// TCP port. None for no TCP at all, 0 for a free port.
    pub port: Option<u16>,
    /// TLS port with its certificates.
    pub tls: Option<TlsConfig>,
    /// Port of `GET /metrics` on the loopback address, 0 for a free one. None for no metrics.
    pub metrics_port: Option<u16>,
    /// Web page, or None for no page.
    pub page: Option<PageConfig>,
    /// Path of a Unix socket to listen on.
    pub unix_socket: Option<PathBuf>,
    /// Directory in which TERRACE.CHECKPOINT, SAVE and BGSAVE create checkpoints.
    pub checkpoints: Option<PathBuf>,
    /// Names and values of CONFIG SET at the start.
    pub settings: Vec<(String, String)>,
    /// Users for AUTH, besides the default user.
    pub users: Vec<UserConfig>,
    /// Password that clients have to give.
    pub password: Option<String>,
    /// Listens on addresses other than loopback without a password.
    pub no_protection: bool,
    /// Layout that the directory must have, or that a new one gets.
    pub layout: Option<Layout>,
    /// Writes nothing to the directory.
    pub read_only: bool,
    /// Reads beside a process that writes the database. Needs `read_only`.
    pub follow: bool,
    /// Permits FLUSHALL and FLUSHDB in the raw layout.
    pub allow_flush: bool,
    /// Permits DEBUG.
    pub enable_debug: bool,
    /// Permits scripts.
    pub scripts: bool,
    /// Moment at which writes become safe against a power cut.
    pub sync: SyncMode,
    /// Maximum number of clients.
    pub max_clients: usize,
    /// Seconds after which an idle connection ends, or 0 for no limit.
    pub timeout: u64,
    /// Number of worker threads, 1 to 16. None for one less than the number of processors.
    pub workers: Option<usize>,
    /// The server is the whole program: SIGTERM and SIGINT end it, SIGHUP reloads certificates, and
    /// systemd may supervise it and give it sockets.
    pub is_program: bool,
}

/// Number of commands that wait for a store at the same time. Others wait in the queue, and their
/// clients send nothing meanwhile.
const STORE_THREADS: usize = 64;

impl ServerConfig {
    /// Creates the default configuration for the directory `dir`.
    pub fn new(dir: impl Into<PathBuf>) -> ServerConfig {
        ServerConfig {
            dir: dir.into(),
            shared_store: None,
            engine: Options::default(),
            bind: vec![IpAddr::from([127, 0, 0, 1])],
            port: Some(6379),
            tls: None,
            metrics_port: None,
            page: None,
            unix_socket: None,
            checkpoints: None,
            settings: Vec::new(),
            users: Vec::new(),
            password: None,
            no_protection: false,
            layout: None,
            read_only: false,
            follow: false,
            allow_flush: false,
            enable_debug: false,
            scripts: true,
            sync: SyncMode::EverySecond,
            max_clients: 10_000,
            timeout: 0,
            workers: None,
            is_program: false,
        }
    }

    /// Creates the default configuration of a front end of a shared store.
    pub fn new_for_store(store: SharedStoreConfig) -> ServerConfig {
        ServerConfig { shared_store: Some(store), ..ServerConfig::new("") }
    }

    /// Number of threads for commands that wait: those of a store wait for its answers.
    pub(crate) fn slow_thread_count(&self) -> usize {
        if self.shared_store.is_some() { STORE_THREADS } else { SLOW_THREADS }
    }

    /// Maximum number of long commands that run at the same time: those of a store also wait.
    pub(crate) fn max_long_jobs(&self) -> usize {
        if self.shared_store.is_some() { STORE_THREADS } else { MAX_LONG_JOBS }
    }

    /// True if clients of other machines cannot connect without a password.
    pub(crate) fn is_protected(&self) -> bool {
        self.no_protection || self.bind.iter().all(IpAddr::is_loopback)
    }

    /// Number of worker threads.
    pub(crate) fn worker_count(&self) -> usize {
        /// Maximum number of workers.
        const MAX: usize = 16;
        let processors = std::thread::available_parallelism().map_or(1, |count| count.get());
        self.workers.unwrap_or(processors.saturating_sub(1)).clamp(1, MAX)
    }

    /// Checks the parts of the configuration against each other.
    pub(crate) fn check(&self) -> Result<(), ServeError> {
        let has_password =
            self.password.as_ref().is_some_and(|password| !password.is_empty()) || !self.users.is_empty();
        let has_clients = self.port.is_some() || self.unix_socket.is_some() || self.tls.is_some();
        // Without clients, only a view is useful.
        let is_view = self.page.is_some() && self.read_only;
        if !has_clients && !is_view {
            return Err(ServeError::Config("neither a port nor a Unix socket to listen on".into()));
        }
        if self.follow && !self.read_only {
            return Err(ServeError::Config("a follower writes nothing, so it has to be read-only".into()));
        }
        if self.shared_store.is_some() {
            self.check_shared_store()?;
        }
        if self.port.is_some() && !has_password && !self.is_protected() {
            return Err(ServeError::Config(
                "an address other than loopback needs --requirepass-file, --user or --no-protection".into(),
            ));
        }
        let has_certificates = self.tls.as_ref().is_none_or(|tls| tls.files.client_authorities.is_some());
        if !has_certificates && !has_password && !self.is_protected() {
            return Err(ServeError::Config(
                "TLS on an address other than loopback needs --requirepass-file, --user, --tls-ca or --no-protection".into(),
            ));
        }
        if self.max_clients == 0 {
            return Err(ServeError::Config("--max-clients is 0, expected at least 1".into()));
        }
        Ok(())
    }
}

/// Checks of a front end.
impl ServerConfig {
    /// Refuses the options of a database.
    fn check_shared_store(&self) -> Result<(), ServeError> {
        let refused = [
            (self.page.is_some(), "the web page"),
            (self.follow, "a follower"),
            (self.checkpoints.is_some(), "a directory of checkpoints"),
            (self.layout == Some(Layout::Raw), "the raw layout"),
        ];
        match refused.iter().find(|(is_set, _)| *is_set) {
            Some((_, option)) => {
                Err(ServeError::Config(format!("{option} needs a database, and --store was given")))
            }
            None => Ok(()),
        }
    }
}

/// Checks of an address.
impl SharedStoreConfig {
    /// Checks the form of the address without opening the store.
    ///
    /// # Errors
    ///
    /// [`ServeError::Config`] for a text that no engine accepts as its address.
    pub fn check_address(&self) -> Result<(), ServeError> {
        let address = Address::parse(&self.address).map_err(|error| ServeError::Config(error.to_string()))?;
        if is_address(&self.address) {
            return Ok(());
        }
        let known: Vec<&str> = ENGINES.iter().map(|engine| engine.form).collect();
        let known = known.join(" ");
        Err(ServeError::Config(format!("'{}' is no engine, expected one of {known}", address.scheme)))
    }
}

/// Web page of a server, on the loopback address.
#[derive(Debug, Clone)]
pub struct PageConfig {
    /// TCP port, 0 for a free one.
    pub port: u16,
    /// Choice if the port is in use.
    pub if_busy: IfBusy,
    /// Name of the host under which a proxy serves the page.
    pub host: Option<String>,
    /// The page may change data.
    pub writes: bool,
}

/// Choice of a server if the port of its page is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfBusy {
    /// The server does not start.
    Fail,
    /// The server runs without a page.
    NoPage,
    /// The page gets a free port.
    FreePort,
}

/// TLS port with its certificates.
#[derive(Debug, Clone)]
pub struct TlsConfig {
    /// TCP port, 0 for a free one. The addresses are those of plain TCP.
    pub port: u16,
    /// Files of certificates.
    pub files: TlsFiles,
}

/// Reason why a server cannot start or run.
#[derive(Debug)]
#[non_exhaustive]
pub enum ServeError {
    /// Parts of the configuration contradict each other.
    Config(String),
    /// The database cannot be opened or closed.
    Database(String),
    /// A certificate or a key is missing, damaged or does not match.
    Certificate(String),
    /// An address cannot be used: the address, and the reason.
    Listen(String, std::io::Error),
    /// The system refused a thread or a runtime.
    System(std::io::Error),
}

impl std::fmt::Display for ServeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ServeError::Config(reason) | ServeError::Database(reason) | ServeError::Certificate(reason) => {
                f.write_str(reason)
            }
            ServeError::Listen(address, error) => write!(f, "listen on {address}: {error}"),
            ServeError::System(error) => write!(f, "start the server: {error}"),
        }
    }
}

impl std::error::Error for ServeError {}

impl From<std::io::Error> for ServeError {
    fn from(error: std::io::Error) -> ServeError {
        ServeError::System(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_a_database_beside_a_store() {
        let store = SharedStoreConfig { address: "memory:".into(), create: false };
        let mut config = ServerConfig::new_for_store(store);
        assert!(config.check().is_ok());
        config.layout = Some(Layout::Raw);
        assert!(config.check().unwrap_err().to_string().contains("the raw layout needs a database"));
    }

    #[test]
    fn wrong_address_of_a_store() {
        let check =
            |address: &str| SharedStoreConfig { address: address.into(), create: false }.check_address();
        for (address, part) in [
            ("cities", "'cities' is no address"),
            ("etcd://", "is no host"),
            ("redis://host/app", "'redis' is no engine"),
        ] {
            let error = check(address).unwrap_err();
            assert!(matches!(&error, ServeError::Config(reason) if reason.contains(part)), "{error}");
        }
        assert!(check("etcd://h1,h2/app").is_ok() && check("memory:").is_ok());
    }

    #[test]
    fn other_addresses_need_a_password() {
        let mut config = ServerConfig::new("cities");
        assert!(config.check().is_ok());
        config.bind.push(IpAddr::from([0, 0, 0, 0]));
        assert!(config.check().is_err());
        config.password = Some("secret".into());
        assert!(config.check().is_ok());
        config.password = Some(String::new());
        assert!(config.check().is_err());
        config.no_protection = true;
        assert!(config.check().is_ok());
    }
}
