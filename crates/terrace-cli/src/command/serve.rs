//! `terrace serve`: serves a database over the Redis protocol.

mod config_file;

use std::env::VarError;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{PossibleValuesParser, RangedU64ValueParser, TypedValueParser};
use terrace_env::Env;
use terrace_server::{
    Addresses, IfBusy, IpAddr, Layout, PageConfig, ServeError, ServerConfig, SharedStoreConfig, SyncMode,
    TlsConfig, TlsFiles, UserConfig, hash_password, serve,
};

use crate::cli::Run;
use crate::database::{ComparatorArg, MemoryArgs, PathContents};
use crate::failure::{CORRUPTION_ADVICE, CommandResult, Failure};
use crate::lock_holder::describe_lock_holders;
use crate::terminal;

/// Serve a database over the Redis protocol
///
/// An empty directory gets the typed layout, in which all features work. In the directory of
/// another program, a Redis key is the key of the entry. SIGTERM ends the server after the pending
/// replies; a second one ends it at once.
#[derive(Args)]
pub(crate) struct Serve {
    /// Directory of the database; it is created if it does not exist
    #[arg(
        value_name = "DB",
        value_hint = clap::ValueHint::DirPath,
        required_unless_present_any = ["config", "hash_password", "print_config", "store"]
    )]
    db: Option<PathBuf>,
    /// TCP port; 0 for a free one
    #[arg(long, value_name = "PORT", default_value_t = 6379)]
    port: u16,
    /// Address to listen on; other addresses than loopback need a password
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    bind: Vec<IpAddr>,
    /// Unix socket to listen on
    #[arg(long, value_name = "PATH")]
    unix_socket: Option<PathBuf>,
    /// Listen on the Unix socket only
    #[arg(long)]
    no_tcp: bool,
    /// Moment of the sync: always (before the reply), everysec or no
    #[arg(long, value_name = "MODE", default_value = "everysec", value_parser = sync_parser())]
    sync: SyncMode,
    /// Write nothing
    #[arg(long)]
    read_only: bool,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    configuration: ConfigurationArgs,
    #[command(flatten)]
    page: PageArgs,
    #[command(flatten)]
    trust: TrustArgs,
    #[command(flatten)]
    tls: TlsArgs,
    #[command(flatten)]
    layout: LayoutArgs,
    #[command(flatten)]
    comparator: ComparatorArg,
    #[command(flatten)]
    memory: MemoryArgs,
}

/// Arguments about a store that several servers share.
#[derive(Args)]
#[command(next_help_heading = "Shared store")]
struct StoreArgs {
    /// Address of a store, such as etcd://HOST,HOST/PREFIX, in place of DB; any number of servers may
    /// share it
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["db", "comparator", "layout"])]
    store: Option<String>,
    /// Create the store if it does not exist
    // A conflict with DB cancels the requirement, so it does not suffice.
    #[arg(long, requires = "store", conflicts_with = "db")]
    create: bool,
}

impl StoreArgs {
    fn config(self) -> Option<SharedStoreConfig> {
        let create = self.create;
        self.store.map(|address| SharedStoreConfig { address, create })
    }
}

/// Arguments about the configuration and the operation.
#[derive(Args)]
#[command(next_help_heading = "Configuration and operation")]
struct ConfigurationArgs {
    /// Configuration file (TOML); each key is the name of an option, and an option overrides it
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    config: Option<PathBuf>,
    /// Print the configuration with comments, and end
    #[arg(long)]
    print_config: bool,
    /// Setting of CONFIG SET at the start; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_setting)]
    set: Vec<(String, String)>,
    /// Directory for the copies of TERRACE.CHECKPOINT, SAVE and BGSAVE; it must exist
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    checkpoints: Option<PathBuf>,
    /// Port of GET /metrics on 127.0.0.1; 0 for a free one
    #[arg(long, value_name = "PORT")]
    metrics_port: Option<u16>,
}

/// Arguments about the web page.
#[derive(Args)]
#[command(next_help_heading = "Web page")]
struct PageArgs {
    /// Port of the web page on 127.0.0.1; 0 for a free one [default: 8379, if it is free]
    #[arg(long, value_name = "PORT")]
    page_port: Option<u16>,
    /// Serve no web page
    #[arg(long, conflicts_with_all = ["page_port", "page_host", "page_writes"])]
    no_page: bool,
    /// Name of the host under which a proxy serves the web page
    #[arg(long, value_name = "NAME")]
    page_host: Option<String>,
    /// Permit changes of data through the web page
    #[arg(long, conflicts_with = "read_only")]
    page_writes: bool,
}

/// Port of the web page, if the user names none.
pub(super) const PAGE_PORT: u16 = 8379;

impl PageArgs {
    /// Configuration of the page. A front end of a store has none, unless the user asks for it,
    /// which is an error.
    fn config(self, is_front_end: bool) -> Option<PageConfig> {
        let config = PageConfig {
            port: self.page_port.unwrap_or(PAGE_PORT),
            if_busy: if self.page_port.is_some() { IfBusy::Fail } else { IfBusy::NoPage },
            host: self.page_host,
            writes: self.page_writes,
        };
        let is_wanted = !is_front_end || self.page_port.is_some() || self.page_writes;
        (!self.no_page && is_wanted).then_some(config)
    }
}

/// Arguments about clients.
#[derive(Args)]
#[command(next_help_heading = "Clients")]
struct TrustArgs {
    /// Password for AUTH, visible in the list of processes; better --requirepass-file, or the
    /// environment variable TERRACE_PASSWORD
    #[arg(long, value_name = "PASSWORD")]
    requirepass: Option<String>,
    /// File with the password for AUTH
    #[arg(
        long,
        value_name = "FILE",
        value_hint = clap::ValueHint::FilePath,
        conflicts_with = "requirepass"
    )]
    requirepass_file: Option<PathBuf>,
    /// User for AUTH: "NAME role=read|write|admin hash=HASH [prefix=PREFIX] [category=CATEGORY]";
    /// may be repeated
    #[arg(long, value_name = "USER", value_parser = UserConfig::parse)]
    user: Vec<UserConfig>,
    /// Read a password from the standard input and print its hash for --user
    #[arg(long)]
    hash_password: bool,
    /// Listen on other addresses than loopback without a password
    #[arg(long)]
    no_protection: bool,
    /// Maximum number of clients
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = range(1, 1_000_000))]
    max_clients: usize,
    /// Seconds after which an idle connection ends; 0 for no limit
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 0,
        value_parser = clap::value_parser!(u64).range(0..=i32::MAX as u64)
    )]
    timeout: u64,
    /// Threads for connections, 1 to 16 [default: one less than the number of processors]
    #[arg(long, value_name = "N", value_parser = range(1, 16))]
    workers: Option<usize>,
    /// Permit DEBUG
    #[arg(long)]
    enable_debug: bool,
    /// Permit Lua scripts: on or off
    #[arg(long, value_name = "MODE", default_value = "on", value_parser = ["on", "off"])]
    scripts: String,
}

/// Arguments about TLS.
#[derive(Args)]
#[command(next_help_heading = "TLS")]
struct TlsArgs {
    /// Port of TLS; 0 for a free one
    #[arg(long, value_name = "PORT", requires = "tls_cert")]
    tls_port: Option<u16>,
    /// Certificate of the server and its authorities (PEM); SIGHUP reloads it
    #[arg(long, value_name = "FILE", requires_all = ["tls_key", "tls_port"])]
    tls_cert: Option<PathBuf>,
    /// Private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Authorities of client certificates (PEM); each client of TLS needs a certificate
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_ca: Option<PathBuf>,
}

/// Arguments about the layout.
#[derive(Args)]
#[command(next_help_heading = "Layout")]
struct LayoutArgs {
    /// Layout of a new database, or the layout that an existing one must have
    #[arg(long, value_name = "LAYOUT", value_parser = layout_parser())]
    layout: Option<Layout>,
    /// Permit FLUSHALL and FLUSHDB in the raw layout
    #[arg(long, conflicts_with = "read_only")]
    allow_flush: bool,
}

/// Environment variable with the password for AUTH. The options override it.
const PASSWORD_VARIABLE: &str = "TERRACE_PASSWORD";

impl TrustArgs {
    /// Returns the password for AUTH: that of an option, or of the environment.
    fn password(&self) -> Result<Option<String>, Failure> {
        let (source, text) = match (&self.requirepass, &self.requirepass_file) {
            (Some(password), _) => ("--requirepass".to_owned(), password.clone()),
            (None, Some(path)) => (path.display().to_string(), config_file::read(path)?),
            (None, None) => match std::env::var(PASSWORD_VARIABLE) {
                Ok(text) => (PASSWORD_VARIABLE.to_owned(), text),
                Err(VarError::NotPresent) => return Ok(None),
                Err(error) => return Err(Failure::Usage(format!("{PASSWORD_VARIABLE}: {error}"))),
            },
        };
        match without_line_end(text.as_bytes()) {
            [] => Err(Failure::Usage(format!("{source}: the password is empty"))),
            password => Ok(Some(String::from_utf8_lossy(password).into_owned())),
        }
    }
}

/// Returns a password without the end of its line.
fn without_line_end(password: &[u8]) -> &[u8] {
    let password = password.strip_suffix(b"\n").unwrap_or(password);
    password.strip_suffix(b"\r").unwrap_or(password)
}

fn range(min: u64, max: u64) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(min..=max)
}

/// Parses `NAME=VALUE`.
fn parse_setting(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn sync_parser() -> impl TypedValueParser<Value = SyncMode> {
    PossibleValuesParser::new(["always", "everysec", "no"])
        .map(|name| SyncMode::by_name(&name).unwrap_or_default())
}

fn layout_parser() -> impl TypedValueParser<Value = Layout> {
    PossibleValuesParser::new(["raw", "typed"])
        .map(|name| if name == "raw" { Layout::Raw } else { Layout::Typed })
}

impl Run for Serve {
    fn run(self) -> CommandResult {
        if self.trust.hash_password {
            return print_hash();
        }
        let own_args = config_file::own_args(std::env::args_os());
        if self.configuration.print_config {
            return config_file::print(self.configuration.config.as_deref(), own_args);
        }
        let args = match &self.configuration.config {
            Some(path) => config_file::load(path, own_args)?,
            None => self,
        };
        let config = args.server_config()?;
        check_checkpoints(&config)?;
        if has_little_memory(&config) {
            terrace_env::keep_heap_small();
        }
        if config.shared_store.is_none() {
            check_directory(&config)?;
        }
        let served = serve(&config, |addresses, _handle| announce(addresses));
        served.map_err(|error| match failure(error) {
            Failure::Database(reason) if reason.contains("open in another process") => {
                let holders = describe_lock_holders(&config.dir.join("LOCK"));
                Failure::Database(holders.map_or(reason.clone(), |holders| format!("{reason}: {holders}")))
            }
            failure => failure,
        })
    }
}

/// Returns true if the process or its database may use less memory than a usual server.
fn has_little_memory(config: &ServerConfig) -> bool {
    /// Memory of the process below which the server is careful with it, in bytes.
    const MEMORY: u64 = 1 << 30;
    let of_process = config.engine.env.fs.memory_limit().unwrap_or(u64::MAX);
    let of_database =
        config.engine.memory_budget.map_or(u64::MAX, |budget| (budget as u64).saturating_mul(2));
    of_process.min(of_database) < MEMORY
}

/// Reads a password and prints its hash.
fn print_hash() -> CommandResult {
    /// Maximum length of a password, in bytes.
    const MAX: usize = 4096;
    // A longer one must not be cut silently: its line end and one byte more show it.
    let mut stdin = std::io::stdin().lock().take(MAX as u64 + 3);
    let mut password = Vec::new();
    stdin
        .read_to_end(&mut password)
        .map_err(|error| Failure::for_file(Path::new("standard input"), error))?;
    let password = without_line_end(&password);
    if !(1..=MAX).contains(&password.len()) {
        let reason = if password.is_empty() { "is empty" } else { "has more than 4,096 bytes" };
        return Err(Failure::Usage(format!("the password on the standard input {reason}")));
    }
    let random = Env::default().random;
    let salt = [random.next_u64().to_le_bytes(), random.next_u64().to_le_bytes()].concat();
    let salt = salt.try_into().unwrap_or([0; 16]);
    let hash = hash_password(password, salt).map_err(Failure::Usage)?;
    let mut out = terminal::output();
    writeln!(out, "{hash}")?;
    Ok(out.flush()?)
}

impl Serve {
    fn server_config(self) -> Result<ServerConfig, Failure> {
        let mut config = match self.store.config() {
            Some(store) => {
                store.check_address().map_err(failure)?;
                let mut config = ServerConfig::new_for_store(store);
                config.read_only = self.read_only;
                config
            }
            None => {
                let dir = self
                    .db
                    .ok_or_else(|| Failure::Usage("no directory of a database (DB, or key \"db\")".into()))?;
                let read_only = self.read_only || !self.comparator.is_writable(&dir);
                let options = self.comparator.options_for_reading(&dir);
                let mut config = ServerConfig::new(dir);
                config.engine = self.memory.apply_to(options);
                config.read_only = read_only;
                config
            }
        };
        config.bind = self.bind;
        config.port = (!self.no_tcp).then_some(self.port);
        config.tls = self.tls.config();
        config.page = self.page.config(config.shared_store.is_some());
        config.metrics_port = self.configuration.metrics_port;
        config.unix_socket = self.unix_socket;
        config.checkpoints = self.configuration.checkpoints;
        config.settings = self.configuration.set;
        config.password = self.trust.password()?;
        config.users = self.trust.user;
        config.no_protection = self.trust.no_protection;
        config.layout = self.layout.layout;
        config.allow_flush = self.layout.allow_flush;
        config.enable_debug = self.trust.enable_debug;
        config.scripts = self.trust.scripts == "on";
        config.sync = self.sync;
        config.max_clients = self.trust.max_clients;
        config.timeout = self.trust.timeout;
        config.workers = self.trust.workers;
        config.is_program = true;
        Ok(config)
    }
}

impl TlsArgs {
    fn config(self) -> Option<TlsConfig> {
        let files =
            TlsFiles { certificates: self.tls_cert?, key: self.tls_key?, client_authorities: self.tls_ca };
        Some(TlsConfig { port: self.tls_port?, files })
    }
}

/// Fails if the directory of checkpoints is missing. The first checkpoint may be months later.
fn check_checkpoints(config: &ServerConfig) -> CommandResult {
    match &config.checkpoints {
        Some(dir) if !config.engine.env.fs.is_dir(dir)? => {
            Err(Failure::for_file(dir, "no such directory, expected that of --checkpoints"))
        }
        _ => Ok(()),
    }
}

/// Refuses directories of other kinds: the server creates a database only in an empty one.
fn check_directory(config: &ServerConfig) -> CommandResult {
    let dir = &config.dir;
    match PathContents::inspect(&config.engine, dir)? {
        PathContents::Database => Ok(()),
        PathContents::Missing if !config.read_only => Ok(()),
        PathContents::Directory if !config.read_only && config.engine.env.fs.list(dir)?.is_empty() => Ok(()),
        PathContents::DatabaseWithoutCurrent { has_tables: false } if !config.read_only => Ok(()),
        other => other.not_a_database(dir, "; the server creates one in an empty directory"),
    }
}

/// Prints the damage that the open of the database has found.
pub(super) fn warn_of_damage(addresses: &Addresses) {
    for damage in &addresses.damage {
        let line =
            format!("terrace: warning: corruption: {}; {CORRUPTION_ADVICE}\n", terminal::printable(damage));
        // The message may not be writable.
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
}

/// Prints one line when clients can connect, for people and for scripts that wait for it.
fn announce(addresses: &Addresses) {
    warn_of_damage(addresses);
    let layout = match addresses.layout {
        Layout::Raw => "raw",
        Layout::Typed => "typed",
    };
    let mut places: Vec<String> = addresses.tcp.iter().map(ToString::to_string).collect();
    places.extend(addresses.tls.iter().map(|address| format!("tls {address}")));
    places.extend(addresses.unix.as_ref().map(|path| path.display().to_string()));
    let mut out = terminal::output();
    // The server works without a reader of its output.
    let _ = writeln!(out, "ready: {layout} layout, listening on {}", places.join(", "));
    if let Some(command) = client_command(addresses) {
        let _ = writeln!(out, "connect: {command}");
    }
    if let Some(address) = addresses.metrics {
        let _ = writeln!(out, "metrics: http://{address}/metrics");
    }
    announce_page(addresses, &mut out);
    let _ = out.flush();
}

/// Prints the link to the web page, or why there is none.
pub(super) fn announce_page(addresses: &Addresses, out: &mut impl Write) {
    // The server works without a reader of its output.
    let _ = match (&addresses.page, addresses.busy_page_port) {
        (Some(link), _) => writeln!(out, "page: {link}"),
        (None, Some(port)) => writeln!(out, "page: none, because port {port} is in use; see --page-port"),
        (None, None) => Ok(()),
    };
}

/// Command of Redis' client that connects to one of the addresses.
fn client_command(addresses: &Addresses) -> Option<String> {
    let (address, options) = match (addresses.tcp.first(), &addresses.unix, addresses.tls.first()) {
        (Some(address), _, _) => (address, ""),
        (None, Some(path), _) => return Some(format!("redis-cli -s {}", path.display())),
        (None, None, address) => (address?, " --tls --cacert FILE"),
    };
    let ip = address.ip();
    let port = address.port();
    // The client connects to 127.0.0.1 by itself.
    let is_default = ip.is_unspecified() || ip.to_string() == "127.0.0.1";
    let host = if is_default { String::new() } else { format!(" -h {ip}") };
    Some(format!("redis-cli{host} -p {port}{options}"))
}

pub(super) fn failure(error: ServeError) -> Failure {
    match error {
        ServeError::Config(reason) => Failure::Usage(reason),
        ServeError::Database(reason) if reason.starts_with("corruption: ") => {
            Failure::Database(reason).with_note(CORRUPTION_ADVICE)
        }
        ServeError::Database(reason) => Failure::Database(reason),
        other => Failure::File(other.to_string()),
    }
}
