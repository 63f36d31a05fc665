//! Start and end of a server.
//!
//! ```text
//!   main thread    accepts clients; waits for signals; ends the server
//!   workers        connections                  slow pool    16 threads, 64 on a shared store
//!   sync thread    one sync for all             expiry thread
//!
//!   end: no new clients; the turns end; the replies are sent; sync; close
//! ```

use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use terrace_sync::native_locks::Mutex;
use tokio::runtime::Builder;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::command::is_category;
use crate::config::{ServeError, ServerConfig};
use crate::conn::{
    BlockedClients, ChannelKind, ClientRegistry, LoginAttempts, Monitors, NewClient, NewConnection, Pause,
    PubSub, SlowPool, Tls, Worker,
};
use crate::engine_events::EngineEvents;
use crate::http;
use crate::listeners::Listeners;
use crate::metrics::{self, CommandTimes, ErrorCounts, LatencyEvents, LatencyPercentiles, SlowLog};
use crate::page::{self, PageAccess};
use crate::script::Scripts;
use crate::settings::{self, FixedSettings, Settings};
use crate::shared::{Counters, Phase, Shared};
use crate::signals::{ServerSignal, Signals};
use crate::store::{Allowed, Backend, ExpiryJob, MappedPagesJob, Scratch, Snapshots, Store, StoreOptions};
use crate::users::Users;
use crate::{systemd, threads};

/// Maximum time for the replies of clients at the end of the server.
const DRAIN_TIME: Duration = Duration::from_secs(10);
/// Share of the memory budget that clients may use for input and output: one part of four.
const CLIENT_SHARE: usize = 4;
/// Memory budget without an option, in bytes.
const DEFAULT_BUDGET: usize = 256 << 20;
/// Minimum of the memory for clients, in bytes: one command of the maximum size.
const MIN_CLIENT_MEMORY: usize = 512 << 20;

/// Addresses of a running server.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Addresses {
    /// TCP addresses with their ports.
    pub tcp: Vec<SocketAddr>,
    /// Addresses of TLS with their ports.
    pub tls: Vec<SocketAddr>,
    /// Address of `GET /metrics`.
    pub metrics: Option<SocketAddr>,
    /// Link to the page, which gives access once.
    pub page: Option<String>,
    /// Port of the page that is in use, so that the server runs without a page.
    pub busy_page_port: Option<u16>,
    /// Path of the Unix socket.
    pub unix: Option<PathBuf>,
    /// Layout of the directory.
    pub layout: crate::store::Layout,
    /// Damage that the open of the database has found. The server serves everything else.
    pub damage: Vec<String>,
}

/// Handle to end a running server. Clones refer to the same server.
#[derive(Clone)]
pub struct ServerHandle {
    shared: Arc<Shared>,
}

impl std::fmt::Debug for ServerHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ServerHandle")
    }
}

impl ServerHandle {
    /// Ends the server like SIGTERM. Returns at once; [`serve`] returns after the end.
    pub fn shut_down(&self) {
        self.shared.advance_phase(Phase::Draining);
    }
}

/// Runs a server until SHUTDOWN, a signal or [`ServerHandle::shut_down`]. Calls `on_ready` when
/// clients can connect. All acknowledged writes are durable when it returns without an error.
///
/// # Errors
///
/// The configuration, the database or an address does not allow a start, or the final sync failed.
pub fn serve(
    config: &ServerConfig,
    on_ready: impl FnOnce(&Addresses, ServerHandle),
) -> Result<(), ServeError> {
    config.check()?;
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let _entered = runtime.enter();
    let listeners = Listeners::bind(config)?;
    let metrics = bind_metrics(config)?;
    let metrics_address = metrics.as_ref().and_then(|listener| listener.local_addr().ok());
    let bound_page = page::bind(config)?;
    let shared = Arc::new(new_shared(config, &listeners, bound_page.access.clone())?);
    for (name, value) in &config.settings {
        let changed = settings::change(&shared, name, value);
        changed.map_err(|reply| ServeError::Config(reply.trim_start_matches("ERR ").to_owned()))?;
    }
    let mut threads = ServerThreads::start(config, &shared, metrics)?;
    let busy_page_port = bound_page.busy_port;
    threads.others.extend(page::start(bound_page, &shared)?);
    let addresses = Addresses {
        tcp: listeners.tcp_addresses(),
        tls: listeners.tls_addresses(),
        metrics: metrics_address,
        page: shared.page_access.as_ref().and_then(|access| access.new_link()),
        busy_page_port,
        unix: config.unix_socket.clone(),
        layout: shared.store.layout,
        damage: damage(&shared.store.backend),
    };
    // Before the server is ready: a signal right after would end the process without a drain.
    let signals = runtime.block_on(async { Signals::new(config) })?;
    on_ready(&addresses, ServerHandle { shared: Arc::clone(&shared) });
    if config.is_program {
        systemd::notify("READY=1");
    }
    runtime.block_on(run(config, &shared, &listeners, &threads.senders, signals))?;
    drop(listeners);
    remove_socket(config);
    threads.end(&shared);
    let Backend::Database(db) = &shared.store.backend else { return Ok(()) };
    if !shared.store.is_read_only {
        db.sync().map_err(|error| ServeError::Database(error.to_string()))?;
    }
    db.shutdown().map_err(|error| ServeError::Database(error.to_string()))
}

/// Damage that the open of a database has found.
fn damage(backend: &Backend) -> Vec<String> {
    match backend {
        Backend::Database(db) => db.recovery().damage.iter().map(ToString::to_string).collect(),
        Backend::Store(_) => Vec::new(),
    }
}

fn bind_metrics(config: &ServerConfig) -> Result<Option<std::net::TcpListener>, ServeError> {
    let Some(port) = config.metrics_port else { return Ok(None) };
    let listener = http::bind(port);
    let named =
        listener.map_err(|error| ServeError::Listen(format!("127.0.0.1:{port} for the metrics"), error));
    named.map(Some)
}

fn new_shared(
    config: &ServerConfig,
    listeners: &Listeners,
    page_access: Option<Arc<PageAccess>>,
) -> Result<Shared, ServeError> {
    let threads = config.worker_count() + config.slow_thread_count() + 2;
    let tls = config.tls.as_ref().map(|tls| Tls::new(&tls.files, &config.engine.env.fs));
    let tls = tls.transpose().map_err(ServeError::Certificate)?;
    let users = Users::new(&config.users, is_category).map_err(ServeError::Config)?;
    let env = &config.engine.env;
    let engine_events = Arc::new(EngineEvents::new(Arc::clone(&env.clock), config.engine.listener.clone()));
    let options = StoreOptions {
        engine: config.engine.clone().listener(Arc::clone(&engine_events) as _),
        layout: config.layout,
        is_read_only: config.read_only,
        is_follower: config.follow,
        sync: config.sync,
        threads,
        shared: config.shared_store.clone(),
    };
    let store = Store::open(&config.dir, &options).map_err(ServeError::Database)?;
    let pubsub = Arc::new(PubSub::default());
    connect_events(&store, &pubsub);
    let budget = config.engine.memory_budget.unwrap_or(DEFAULT_BUDGET);
    let run_id = format!("{:016x}{:016x}", env.random.next_u64(), env.random.next_u64());
    Ok(Shared {
        store,
        settings: settings(config, listeners),
        users,
        tls,
        handshakes: AtomicUsize::new(0),
        snapshots: Snapshots::default(),
        engine_events,
        maintenance: Mutex::default(),
        last_save: (env.clock.wall_us() / 1_000_000).into(),
        clients: ClientRegistry::default(),
        blocked: BlockedClients::default(),
        pubsub,
        monitors: Monitors::default(),
        pause: Pause::default(),
        slow_pool: SlowPool::new(config.max_long_jobs()),
        script_queue: SlowPool::new(1),
        scripts: Scripts::new(config.scripts, Arc::clone(&env.clock)),
        login_attempts: LoginAttempts::default(),
        counters: Counters::default(),
        command_times: CommandTimes::new(threads, crate::command::slot_count()),
        error_counts: ErrorCounts::default(),
        slow_log: SlowLog::default(),
        latency_events: LatencyEvents::default(),
        latency_percentiles: LatencyPercentiles::default(),
        clock: Arc::clone(&env.clock),
        random: Arc::clone(&env.random),
        started_at: env.clock.monotonic(),
        client_memory: (budget / CLIENT_SHARE).max(MIN_CLIENT_MEMORY),
        page_access,
        run_id,
        phase: tokio::sync::watch::Sender::new(Phase::Running),
        is_expiry_job_on: true.into(),
    })
}

fn settings(config: &ServerConfig, listeners: &Listeners) -> Settings {
    let fixed = fixed_settings(config, listeners);
    Settings::new(config.password.as_deref(), config.max_clients, config.timeout, fixed)
}

fn fixed_settings(config: &ServerConfig, listeners: &Listeners) -> FixedSettings {
    let text = |path: Option<&Path>| path.map_or(String::new(), |path| path.display().to_string());
    FixedSettings {
        port: listeners.tcp_addresses().first().map_or(0, SocketAddr::port),
        bind: config.bind.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(" "),
        unix_socket: text(config.unix_socket.as_deref()),
        dir: text(Some(&config.dir)),
        checkpoints: config.checkpoints.clone(),
        is_flush_allowed: config.allow_flush,
        is_debug_enabled: config.enable_debug,
        is_protected: config.is_protected(),
    }
}

/// Publishes the keyspace events of `store` as messages.
fn connect_events(store: &Store, pubsub: &Arc<PubSub>) {
    let pubsub = Arc::clone(pubsub);
    let clock = Arc::clone(&store.clock);
    store.key_events.connect(Box::new(move |channel, message| {
        pubsub.publish(ChannelKind::Channel, channel, message, clock.monotonic());
    }));
}

/// Threads of a running server.
struct ServerThreads {
    senders: Vec<UnboundedSender<NewClient>>,
    workers: Vec<JoinHandle<()>>,
    others: Vec<JoinHandle<()>>,
}

impl ServerThreads {
    fn start(
        config: &ServerConfig,
        shared: &Arc<Shared>,
        metrics: Option<std::net::TcpListener>,
    ) -> io::Result<ServerThreads> {
        let mut started = ServerThreads { senders: Vec::new(), workers: Vec::new(), others: Vec::new() };
        let workers = config.worker_count();
        for slot in 0..workers {
            let (sender, connections) = unbounded_channel();
            let shared = Arc::clone(shared);
            let worker = threads::start(&format!("worker-{slot}"), move || {
                let _end = EndOnPanic(&shared);
                if Worker::run(&shared, slot, connections).is_err() {
                    shared.advance_phase(Phase::Draining);
                }
            })?;
            started.senders.push(sender);
            started.workers.push(worker);
        }
        let slow_end = workers + config.slow_thread_count();
        for slot in workers..slow_end {
            let shared = Arc::clone(shared);
            let thread = threads::start("slow-pool", move || {
                let _end = EndOnPanic(&shared);
                shared.slow_pool.run(&mut Scratch::new(slot, Allowed::Waiting));
            })?;
            started.others.push(thread);
        }
        started.others.push(start_script_thread(shared, slow_end + 1)?);
        if let Some(listener) = metrics {
            let shared = Arc::clone(shared);
            let thread = threads::start("metrics", move || {
                // Without its runtime, the server runs without metrics.
                let _ = metrics::run(&shared, listener);
            })?;
            started.others.push(thread);
        }
        let syncing = Arc::clone(shared);
        started
            .others
            .push(threads::start("sync", move || syncing.store.durability.run(&syncing.store.backend))?);
        let expiring = Arc::clone(shared);
        started.others.push(threads::start("expiry", move || run_expiry(&expiring, slow_end))?);
        Ok(started)
    }

    /// Ends all threads. The clients have left.
    fn end(self, shared: &Shared) {
        drop(self.senders);
        let join = |thread: JoinHandle<()>| {
            // A thread that panicked has printed its message.
            let _ = thread.join();
        };
        self.workers.into_iter().for_each(join);
        shared.scripts.run_state.abort();
        shared.script_queue.stop();
        shared.slow_pool.stop();
        shared.store.durability.stop();
        self.others.into_iter().for_each(join);
    }
}

/// Starts the thread that runs scripts.
fn start_script_thread(shared: &Arc<Shared>, slot: usize) -> io::Result<JoinHandle<()>> {
    /// Size of the stack, in bytes: nested calls of the interpreter and nested tables of a script.
    const STACK: usize = 16 << 20;
    let shared = Arc::clone(shared);
    threads::start_with_stack("scripts", STACK, move || {
        let _end = EndOnPanic(&shared);
        shared.script_queue.run(&mut Scratch::new_for_scripts(slot));
    })
}

/// Ends the server if its thread panics, because the clients of the thread get no replies any more.
struct EndOnPanic<'a>(&'a Shared);

impl Drop for EndOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.advance_phase(Phase::Draining);
        }
    }
}

/// Runs the expiry job until the end of the server.
fn run_expiry(shared: &Shared, slot: usize) {
    /// Maximum pause, so that the thread ends soon.
    const MAX_PAUSE: Duration = Duration::from_millis(100);
    let mut job = ExpiryJob::new(slot);
    let mut mapped_pages = MappedPagesJob::default();
    while !shared.is_draining() {
        shared.snapshots.close_ended(shared.clock.monotonic());
        mapped_pages.run(&shared.store);
        // Expired keys remain during CLIENT PAUSE, as in Redis.
        let is_paused = shared.pause.current(shared.clock.monotonic()).is_some();
        let pause = match shared.is_expiry_job_on.load(Ordering::Relaxed) && !is_paused {
            true => job.run(&shared.store),
            false => MAX_PAUSE,
        };
        threads::pause(pause.min(MAX_PAUSE));
    }
}

/// Removes the Unix socket. A socket that remains is replaced at the next start.
fn remove_socket(config: &ServerConfig) {
    if let Some(path) = &config.unix_socket {
        let _ = config.engine.env.fs.remove(path);
    }
}

/// Reads the certificates again. After an error, the old ones remain.
fn reload_certificates(shared: &Shared) {
    if let Some(Err(reason)) = shared.tls.as_ref().map(Tls::reload) {
        let line = format!("terrace: warning: the certificates were not reloaded: {reason}\n");
        // The message may not be writable.
        let _ = io::stderr().write_all(line.as_bytes());
    }
}

/// Waits for the next moment at which systemd expects a sign of life.
async fn watchdog_pause(period: Option<Duration>) {
    match period {
        Some(period) => tokio::time::sleep(period).await,
        None => std::future::pending().await,
    }
}

/// Accepts clients until the server ends, and waits until they have left.
async fn run(
    config: &ServerConfig,
    shared: &Arc<Shared>,
    listeners: &Listeners,
    workers: &[UnboundedSender<NewClient>],
    mut signals: Signals,
) -> io::Result<()> {
    let watchdog = if config.is_program { systemd::watchdog_period() } else { None };
    let mut phase = shared.phase.subscribe();
    let mut next_worker = 0;
    while !shared.is_draining() {
        tokio::select! {
            accepted = listeners.accept() => {
                next_worker = (next_worker + 1) % workers.len();
                admit(shared, accepted, &workers[next_worker]).await;
            }
            signal = signals.next() => match signal {
                ServerSignal::End(_) => shared.advance_phase(Phase::Draining),
                ServerSignal::Reload => reload_certificates(shared),
            },
            () = watchdog_pause(watchdog) => systemd::notify("WATCHDOG=1"),
            _ = phase.changed() => {}
        }
    }
    if config.is_program {
        systemd::notify("STOPPING=1");
    }
    tokio::select! {
        () = drain(shared) => {}
        signal = signals.next_end() => end_process(signal),
    }
    // A signal during the final sync ends the process, too.
    if config.is_program {
        threads::start("signals", move || wait_for_second_signal(signals))?;
    }
    Ok(())
}

/// Passes a client to a worker.
async fn admit(shared: &Shared, accepted: io::Result<NewConnection>, worker: &UnboundedSender<NewClient>) {
    /// Pause after an error, for example too many open files.
    const PAUSE: Duration = Duration::from_millis(10);
    let Ok(connection) = accepted else { return tokio::time::sleep(PAUSE).await };
    let waiting = shared.handshakes.load(Ordering::Relaxed);
    if shared.clients.len() + waiting >= shared.settings.max_clients() {
        Counters::add(&shared.counters.rejected_clients);
        connection.socket.refuse(b"-ERR max number of clients reached\r\n");
        return;
    }
    // A worker that has ended drops the client, and ends the server.
    let _ = worker.send(NewClient { id: shared.clients.next_id(), connection });
}

/// Asks all clients to leave, and waits for them.
async fn drain(shared: &Shared) {
    /// Pause between two looks at the clients.
    const PAUSE: Duration = Duration::from_millis(2);
    let deadline = tokio::time::Instant::now() + DRAIN_TIME;
    for client in shared.clients.all() {
        client.drain();
    }
    while shared.clients.len() > 0 && tokio::time::Instant::now() < deadline {
        tokio::time::sleep(PAUSE).await;
    }
}

/// Ends the process at once. It loses no acknowledged write, because they are in the mapped log.
fn end_process(signal: i32) -> ! {
    std::process::exit(128 + signal)
}

fn wait_for_second_signal(mut signals: Signals) {
    if let Ok(runtime) = Builder::new_current_thread().enable_all().build() {
        let signal = runtime.block_on(signals.next_end());
        end_process(signal);
    }
}
