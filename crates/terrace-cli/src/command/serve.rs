//! `terrace serve`: serves a database over the Redis protocol.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use terrace_server::{Addresses, IpAddr, Layout, ServeError, ServerConfig, SyncMode, serve};

use crate::cli::Run;
use crate::database::{ComparatorArg, MemoryArgs, PathContents};
use crate::failure::{CORRUPTION_ADVICE, CommandResult, Failure};
use crate::terminal;

/// Serve a database over the Redis protocol
///
/// An empty directory gets the typed layout, in which all features work. In the directory of
/// another program, a Redis key is the key of the entry. SIGTERM ends the server after the pending
/// replies; a second one ends it at once.
#[derive(Args)]
pub(crate) struct Serve {
    /// Directory of the database; it is created if it does not exist
    #[arg(value_name = "DB", value_hint = clap::ValueHint::DirPath)]
    dir: PathBuf,
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
    #[arg(long, requires = "unix_socket")]
    no_tcp: bool,
    /// Moment of the sync: always (before the reply), everysec or no
    #[arg(long, value_name = "MODE", default_value = "everysec", value_parser = sync_parser())]
    sync: SyncMode,
    /// Write nothing
    #[arg(long)]
    read_only: bool,
    #[command(flatten)]
    trust: TrustArgs,
    #[command(flatten)]
    layout: LayoutArgs,
    #[command(flatten)]
    comparator: ComparatorArg,
    #[command(flatten)]
    memory: MemoryArgs,
}

/// Arguments about clients.
#[derive(Args)]
#[command(next_help_heading = "Clients")]
struct TrustArgs {
    /// Password for AUTH
    #[arg(long, value_name = "PASSWORD")]
    requirepass: Option<String>,
    /// Listen on other addresses than loopback without a password
    #[arg(long)]
    no_protection: bool,
    /// Maximum number of clients
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    max_clients: usize,
    /// Seconds after which an idle connection ends; 0 for no limit
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    timeout: u64,
    /// Threads for connections, 1 to 16 [default: one less than the number of processors]
    #[arg(long, value_name = "N")]
    workers: Option<usize>,
    /// Permit DEBUG
    #[arg(long)]
    enable_debug: bool,
    /// Permit Lua scripts: on or off
    #[arg(long, value_name = "MODE", default_value = "on", value_parser = ["on", "off"])]
    scripts: String,
}

/// Arguments about the layout.
#[derive(Args)]
#[command(next_help_heading = "Layout")]
struct LayoutArgs {
    /// Layout of a new database, or the layout that an existing one must have
    #[arg(long, value_name = "LAYOUT", value_parser = layout_parser())]
    layout: Option<Layout>,
    /// Permit FLUSHALL and FLUSHDB in the raw layout
    #[arg(long)]
    allow_flush: bool,
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
        let config = self.config();
        check_directory(&config)?;
        serve(&config, |addresses, _handle| announce(addresses)).map_err(failure)
    }
}

impl Serve {
    fn config(self) -> ServerConfig {
        let read_only = self.read_only || !self.comparator.is_writable(&self.dir);
        let options = self.comparator.options_for_reading(&self.dir);
        let mut config = ServerConfig::new(self.dir);
        config.engine = self.memory.apply_to(options);
        config.bind = self.bind;
        config.port = (!self.no_tcp).then_some(self.port);
        config.unix_socket = self.unix_socket;
        config.password = self.trust.requirepass;
        config.no_protection = self.trust.no_protection;
        config.layout = self.layout.layout;
        config.read_only = read_only;
        config.allow_flush = self.layout.allow_flush;
        config.enable_debug = self.trust.enable_debug;
        config.scripts = self.trust.scripts == "on";
        config.sync = self.sync;
        config.max_clients = self.trust.max_clients;
        config.timeout = self.trust.timeout;
        config.workers = self.trust.workers;
        config.handles_signals = true;
        config
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

/// Prints one line when clients can connect, for people and for scripts that wait for it.
fn announce(addresses: &Addresses) {
    for damage in &addresses.damage {
        let line =
            format!("terrace: warning: corruption: {}; {CORRUPTION_ADVICE}\n", terminal::printable(damage));
        // The message may not be writable.
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
    let layout = match addresses.layout {
        Layout::Raw => "raw",
        Layout::Typed => "typed",
    };
    let mut places: Vec<String> = addresses.tcp.iter().map(ToString::to_string).collect();
    places.extend(addresses.unix.as_ref().map(|path| path.display().to_string()));
    let mut out = terminal::output();
    // The server works without a reader of its output.
    let _ = writeln!(out, "ready: {layout} layout, listening on {}", places.join(", "));
    let _ = out.flush();
}

fn failure(error: ServeError) -> Failure {
    match error {
        ServeError::Config(reason) => Failure::Usage(reason),
        ServeError::Database(reason) => Failure::Database(reason),
        other => Failure::File(other.to_string()),
    }
}
