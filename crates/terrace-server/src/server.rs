//! Start and end of a server.
//!
//! ```text
//!   main thread    accepts clients; waits for signals; ends the server
//!   workers        connections                  slow pool    2 threads
//!   sync thread    one sync for all             expiry thread
//!
//!   end: no new clients; the turns end; the replies are sent; sync; close
//! ```

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::net::UnixListener as StdUnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use socket2::SockRef;
use terrace_sync::native_locks::Mutex;
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::command::is_category;
use crate::config::{ServeError, ServerConfig};
use crate::conn::{
    ChannelKind, ClientRegistry, LoginAttempts, Monitors, NewConnection, Origin, Pause, PubSub, SLOW_THREADS,
    SlowPool, Socket, Worker,
};
use crate::engine_events::EngineEvents;
use crate::metrics::{CommandTimes, ErrorCounts, LatencyEvents, SlowLog};
use crate::settings::{FixedSettings, Settings};
use crate::shared::{Counters, Phase, Shared};
use crate::store::{ExpiryJob, Scratch, Snapshots, Store, StoreOptions};
use crate::threads;
use crate::users::Users;

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
    let shared = Arc::new(new_shared(config, &listeners)?);
    let threads = ServerThreads::start(config, &shared)?;
    let addresses = Addresses {
        tcp: listeners.tcp_addresses(),
        unix: config.unix_socket.clone(),
        layout: shared.store.layout,
        damage: shared.store.db.recovery().damage.iter().map(ToString::to_string).collect(),
    };
    on_ready(&addresses, ServerHandle { shared: Arc::clone(&shared) });
    runtime.block_on(run(config, &shared, &listeners, &threads.senders))?;
    drop(listeners);
    remove_socket(config);
    threads.end(&shared);
    let db = &shared.store.db;
    if !shared.store.is_read_only {
        db.sync().map_err(|error| ServeError::Database(error.to_string()))?;
    }
    db.shutdown().map_err(|error| ServeError::Database(error.to_string()))
}

fn new_shared(config: &ServerConfig, listeners: &Listeners) -> Result<Shared, ServeError> {
    let threads = config.worker_count() + SLOW_THREADS + 1;
    let users = Users::new(&config.users, is_category).map_err(ServeError::Config)?;
    let env = &config.engine.env;
    let engine_events = Arc::new(EngineEvents::new(Arc::clone(&env.clock), config.engine.listener.clone()));
    let options = StoreOptions {
        engine: config.engine.clone().listener(Arc::clone(&engine_events) as _),
        layout: config.layout,
        is_read_only: config.read_only,
        sync: config.sync,
        threads,
    };
    let store = Store::open(&config.dir, &options).map_err(ServeError::Database)?;
    let pubsub = Arc::new(PubSub::default());
    connect_events(&store, &pubsub);
    let text = |path: Option<&Path>| path.map_or(String::new(), |path| path.display().to_string());
    let fixed = FixedSettings {
        port: listeners.tcp_addresses().first().map_or(0, SocketAddr::port),
        bind: config.bind.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(" "),
        unix_socket: text(config.unix_socket.as_deref()),
        dir: text(Some(&config.dir)),
        checkpoints: config.checkpoints.clone(),
        is_flush_allowed: config.allow_flush,
        is_debug_enabled: config.enable_debug,
        is_protected: config.is_protected(),
    };
    let budget = config.engine.memory_budget.unwrap_or(DEFAULT_BUDGET);
    let run_id = format!("{:016x}{:016x}", env.random.next_u64(), env.random.next_u64());
    Ok(Shared {
        store,
        settings: Settings::new(config.password.as_deref(), config.max_clients, config.timeout, fixed),
        users,
        snapshots: Snapshots::default(),
        engine_events,
        maintenance: Mutex::default(),
        last_save: (env.clock.wall_us() / 1_000_000).into(),
        clients: ClientRegistry::default(),
        pubsub,
        monitors: Monitors::default(),
        pause: Pause::default(),
        slow_pool: SlowPool::default(),
        login_attempts: LoginAttempts::default(),
        counters: Counters::default(),
        command_times: CommandTimes::new(threads, crate::command::SLOTS),
        error_counts: ErrorCounts::default(),
        slow_log: SlowLog::default(),
        latency_events: LatencyEvents::default(),
        clock: Arc::clone(&env.clock),
        random: Arc::clone(&env.random),
        started_at: env.clock.monotonic(),
        client_memory: (budget / CLIENT_SHARE).max(MIN_CLIENT_MEMORY),
        run_id,
        phase: tokio::sync::watch::Sender::new(Phase::Running),
        is_expiry_job_on: true.into(),
    })
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
    senders: Vec<UnboundedSender<NewConnection>>,
    workers: Vec<JoinHandle<()>>,
    others: Vec<JoinHandle<()>>,
}

impl ServerThreads {
    fn start(config: &ServerConfig, shared: &Arc<Shared>) -> io::Result<ServerThreads> {
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
        for slot in workers..workers + SLOW_THREADS {
            let shared = Arc::clone(shared);
            let thread = threads::start("slow-pool", move || {
                let _end = EndOnPanic(&shared);
                shared.slow_pool.run(&mut Scratch::new(slot, true));
            })?;
            started.others.push(thread);
        }
        let syncing = Arc::clone(shared);
        started.others.push(threads::start("sync", move || syncing.store.durability.run(&syncing.store.db))?);
        let expiring = Arc::clone(shared);
        started.others.push(threads::start("expiry", move || run_expiry(&expiring, workers + SLOW_THREADS))?);
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
        shared.slow_pool.stop();
        shared.store.durability.stop();
        self.others.into_iter().for_each(join);
    }
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
    while !shared.is_draining() {
        shared.snapshots.close_ended(shared.clock.monotonic());
        // Expired keys remain during CLIENT PAUSE, as in Redis.
        let is_paused = shared.pause.current(shared.clock.monotonic()).is_some();
        let pause = match shared.is_expiry_job_on.load(Ordering::Relaxed) && !is_paused {
            true => job.run(&shared.store),
            false => MAX_PAUSE,
        };
        threads::pause(pause.min(MAX_PAUSE));
    }
}

/// Sockets that accept clients.
struct Listeners {
    tcp: Vec<TcpListener>,
    unix: Option<UnixListener>,
}

impl Listeners {
    fn bind(config: &ServerConfig) -> Result<Listeners, ServeError> {
        let mut tcp = Vec::new();
        for address in config.bind.iter().filter(|_| config.port.is_some()) {
            let address = SocketAddr::new(*address, config.port.unwrap_or_default());
            let listener =
                bind_tcp(address).map_err(|error| ServeError::Listen(address.to_string(), error))?;
            tcp.push(listener);
        }
        let unix = match &config.unix_socket {
            Some(path) => {
                let listener = bind_unix(config, path);
                Some(listener.map_err(|error| ServeError::Listen(path.display().to_string(), error))?)
            }
            None => None,
        };
        Ok(Listeners { tcp, unix })
    }

    fn tcp_addresses(&self) -> Vec<SocketAddr> {
        self.tcp.iter().filter_map(|listener| listener.local_addr().ok()).collect()
    }

    /// Waits for the next client.
    async fn accept(&self) -> io::Result<NewConnection> {
        std::future::poll_fn(|cx| {
            for listener in &self.tcp {
                if let std::task::Poll::Ready(accepted) = listener.poll_accept(cx) {
                    return std::task::Poll::Ready(accepted.and_then(|(stream, _)| tcp_connection(stream)));
                }
            }
            match &self.unix {
                Some(listener) => listener.poll_accept(cx).map(|accepted| {
                    let path = listener.local_addr().ok();
                    let path = path.and_then(|address| Some(address.as_pathname()?.display().to_string()));
                    accepted.and_then(|(stream, _)| unix_connection(stream, path.unwrap_or_default()))
                }),
                None => std::task::Poll::Pending,
            }
        })
        .await
    }
}

fn bind_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// Binds a Unix socket. A socket that no process listens on any more is replaced.
fn bind_unix(config: &ServerConfig, path: &Path) -> io::Result<UnixListener> {
    let listener = match StdUnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            if std::os::unix::net::UnixStream::connect(path).is_ok() {
                return Err(error);
            }
            config.engine.env.fs.remove(path).map_err(io::Error::other)?;
            StdUnixListener::bind(path)?
        }
        other => other?,
    };
    listener.set_nonblocking(true)?;
    UnixListener::from_std(listener)
}

/// Removes the Unix socket. A socket that remains is replaced at the next start.
fn remove_socket(config: &ServerConfig) {
    if let Some(path) = &config.unix_socket {
        let _ = config.engine.env.fs.remove(path);
    }
}

fn tcp_connection(stream: tokio::net::TcpStream) -> io::Result<NewConnection> {
    /// Idle time after which the system checks whether the client still exists.
    const KEEPALIVE: Duration = Duration::from_secs(300);
    stream.set_nodelay(true)?;
    SockRef::from(&stream).set_tcp_keepalive(&socket2::TcpKeepalive::new().with_time(KEEPALIVE))?;
    let peer = stream.peer_addr()?;
    let local = stream.local_addr()?;
    let origin = Origin { address: Some(peer.ip()), peer: peer.to_string(), local: local.to_string() };
    Ok(NewConnection { socket: Socket::Tcp(stream.into_std()?), origin })
}

fn unix_connection(stream: tokio::net::UnixStream, path: String) -> io::Result<NewConnection> {
    let name = format!("{path}:0");
    let origin = Origin { address: None, peer: name.clone(), local: name };
    Ok(NewConnection { socket: Socket::Unix(stream.into_std()?), origin })
}

/// Signals that end the server.
struct EndSignals(Option<(Signal, Signal)>);

impl EndSignals {
    fn new(config: &ServerConfig) -> io::Result<EndSignals> {
        if !config.handles_signals {
            return Ok(EndSignals(None));
        }
        Ok(EndSignals(Some((signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?))))
    }

    /// Waits for a signal and returns its number.
    async fn next(&mut self) -> i32 {
        match &mut self.0 {
            Some((terminate, interrupt)) => tokio::select! {
                _ = terminate.recv() => SignalKind::terminate().as_raw_value(),
                _ = interrupt.recv() => SignalKind::interrupt().as_raw_value(),
            },
            None => std::future::pending().await,
        }
    }
}

/// Accepts clients until the server ends, and waits until they have left.
async fn run(
    config: &ServerConfig,
    shared: &Arc<Shared>,
    listeners: &Listeners,
    workers: &[UnboundedSender<NewConnection>],
) -> io::Result<()> {
    let mut signals = EndSignals::new(config)?;
    let mut phase = shared.phase.subscribe();
    let mut next_worker = 0;
    while !shared.is_draining() {
        tokio::select! {
            accepted = listeners.accept() => {
                next_worker = (next_worker + 1) % workers.len();
                admit(shared, accepted, &workers[next_worker]).await;
            }
            _ = signals.next() => shared.advance_phase(Phase::Draining),
            _ = phase.changed() => {}
        }
    }
    tokio::select! {
        () = drain(shared) => {}
        signal = signals.next() => end_process(signal),
    }
    // A signal during the final sync ends the process, too.
    if config.handles_signals {
        threads::start("signals", move || wait_for_second_signal(signals))?;
    }
    Ok(())
}

/// Passes a client to a worker.
async fn admit(
    shared: &Shared,
    accepted: io::Result<NewConnection>,
    worker: &UnboundedSender<NewConnection>,
) {
    /// Pause after an error, for example too many open files.
    const PAUSE: Duration = Duration::from_millis(10);
    let Ok(connection) = accepted else { return tokio::time::sleep(PAUSE).await };
    if shared.clients.len() >= shared.settings.max_clients() {
        Counters::add(&shared.counters.rejected_clients);
        connection.socket.refuse(b"-ERR max number of clients reached\r\n");
        return;
    }
    // A worker that has ended drops the client, and ends the server.
    let _ = worker.send(connection);
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

fn wait_for_second_signal(mut signals: EndSignals) {
    if let Ok(runtime) = Builder::new_current_thread().enable_all().build() {
        let signal = runtime.block_on(signals.next());
        end_process(signal);
    }
}
