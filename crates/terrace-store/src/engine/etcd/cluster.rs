//! Requests to the servers of a cluster.
//!
//! A request goes to one server. After a failure that another attempt may avoid, the next attempt
//! goes to the next server, until the time of the call is over. All requests of this module may be
//! repeated: reads, and the transactions of `lane`, which recognise a repetition.

use std::error::Error as StdError;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use etcd_client::{Client, ConnectOptions, GetOptions, GetResponse, Txn, TxnResponse};
use terrace_env::{Random, SystemRandom};
use tokio::sync::OnceCell;
use tokio::time::Instant;

use super::super::call_threads::CallThreads;
use super::super::connection_error::messages;
use super::address::Settings;
use crate::error::{Error, Result};
use crate::store::RequestCount;

/// Maximum time of one attempt. A leader that is not reachable is replaced after about one second.
pub(super) const ATTEMPT_TIME: Duration = Duration::from_secs(2);
/// Maximum time for a connection.
pub(super) const CONNECT_TIME: Duration = Duration::from_secs(1);
/// Maximum length of the first pause between attempts. It doubles with each attempt.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
/// Maximum length of a later pause.
const MAX_PAUSE: Duration = Duration::from_millis(400);
/// Maximum size of an answer in bytes: a first page of the greatest values fits.
const MAX_ANSWER: usize = 64 << 20;

/// Reason of a failed attempt.
#[derive(Debug, Clone)]
pub(super) enum Failure {
    /// Another attempt may succeed. The request may have taken effect.
    Transient(String),
    /// The lease of a put has expired. The request had no effect.
    LeaseNotFound,
    /// The answer exceeds the limit of this client.
    AnswerTooLarge,
    /// Another attempt would fail, too. The request had no effect.
    Final(Error),
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Error {
        match failure {
            Failure::Transient(reason) => Error::Unavailable(reason),
            Failure::LeaseNotFound => Error::Unavailable("etcd: the lease of this client has expired".into()),
            Failure::AnswerTooLarge => Error::Unavailable("etcd: answer of more than 64 MiB".into()),
            Failure::Final(error) => error,
        }
    }
}

/// Result of an attempt.
pub(super) type Outcome<T> = std::result::Result<T, Failure>;

/// Servers of a cluster, and the threads that talk to them.
pub(super) struct Cluster {
    pub(super) threads: CallThreads,
    servers: Arc<Servers>,
    timeout: Duration,
}

struct Servers {
    all: Vec<Server>,
    /// Index of the server for the next request, modulo their number.
    current: AtomicUsize,
    /// Number of requests so far.
    requests: AtomicU64,
}

struct Server {
    host: String,
    address: String,
    options: ConnectOptions,
    client: OnceCell<Client>,
}

impl Cluster {
    pub(super) fn new(settings: &Settings) -> Result<Cluster> {
        let scheme = if settings.is_encrypted { "https" } else { "http" };
        let all = settings.hosts.iter().map(|host| Server {
            host: host.clone(),
            address: format!("{scheme}://{host}"),
            options: settings.connect.clone(),
            client: OnceCell::new(),
        });
        let all = all.collect();
        Ok(Cluster {
            threads: CallThreads::new("etcd", 1)?,
            servers: Arc::new(Servers { all, current: AtomicUsize::new(0), requests: AtomicU64::new(0) }),
            timeout: settings.timeout,
        })
    }

    /// Returns a handle for requests from work on the threads of the cluster.
    pub(super) fn requester(&self) -> Requester {
        let deadline = Instant::now() + self.timeout;
        Requester { servers: Arc::clone(&self.servers), deadline, timeout: self.timeout }
    }

    /// Maximum time of a call.
    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Number of requests so far.
    pub(super) fn request_count(&self) -> RequestCount {
        RequestCount { requests: self.servers.requests.load(Ordering::Relaxed), timestamps: 0 }
    }

    /// Reads keys.
    pub(super) fn get(&self, key: Vec<u8>, options: GetOptions) -> Result<GetResponse> {
        let requester = self.requester();
        self.threads.run(async move { Ok(requester.get(key, options).await?) })
    }
}

/// Requests until a deadline.
#[derive(Clone)]
pub(super) struct Requester {
    servers: Arc<Servers>,
    deadline: Instant,
    timeout: Duration,
}

impl Requester {
    /// Returns the same requests, with the whole time of a call from now on.
    pub(super) fn extended(&self) -> Requester {
        let deadline = Instant::now() + self.timeout;
        Requester { servers: Arc::clone(&self.servers), deadline, timeout: self.timeout }
    }

    /// Returns true if the time of the call is over.
    pub(super) fn is_late(&self) -> bool {
        Instant::now() >= self.deadline
    }

    /// Sends a request until an attempt succeeds, or the time is over.
    pub(super) async fn call<T, F>(&self, request: impl Fn(Client) -> F) -> Outcome<T>
    where
        F: Future<Output = std::result::Result<T, etcd_client::Error>>,
    {
        let mut pause = FIRST_PAUSE;
        loop {
            match self.attempt(&request).await {
                Err(Failure::Transient(reason)) if Instant::now() + pause >= self.deadline => {
                    return Err(Failure::Transient(reason));
                }
                Err(Failure::Transient(_)) => self.pause(&mut pause).await,
                outcome => return outcome,
            }
        }
    }

    /// Waits for a random time, and doubles the limit of the next wait.
    pub(super) async fn pause(&self, pause: &mut Duration) {
        let nanos = SystemRandom::new().uniform(pause.as_nanos() as u64);
        tokio::time::sleep(Duration::from_nanos(nanos)).await;
        *pause = (*pause * 2).min(MAX_PAUSE);
    }

    /// Sends a request once. After a transient failure, the next request goes to the next server.
    pub(super) async fn attempt<T, F>(&self, request: impl Fn(Client) -> F) -> Outcome<T>
    where
        F: Future<Output = std::result::Result<T, etcd_client::Error>>,
    {
        let Servers { all, current, requests } = &*self.servers;
        requests.fetch_add(1, Ordering::Relaxed);
        let index = current.load(Ordering::Relaxed);
        // An address without a host is refused.
        let server = &all[index % all.len()];
        let answer = tokio::time::timeout(ATTEMPT_TIME, async {
            let client = server.client.get_or_try_init(|| server.connect()).await?;
            request(client.clone()).await
        });
        let outcome = match answer.await {
            Ok(answer) => answer.map_err(|error| classify(&server.host, &error)),
            Err(_) => Err(Failure::Transient(format!(
                "etcd {}: no answer within {} seconds",
                server.host,
                ATTEMPT_TIME.as_secs()
            ))),
        };
        if let Err(Failure::Transient(_)) = &outcome {
            let next = index.wrapping_add(1);
            // Another request may have moved on already.
            let _ = current.compare_exchange(index, next, Ordering::Relaxed, Ordering::Relaxed);
        }
        outcome
    }

    /// Reads keys.
    pub(super) async fn get(&self, key: Vec<u8>, options: GetOptions) -> Outcome<GetResponse> {
        self.call(|client| {
            let key = key.clone();
            let options = options.clone();
            async move { kv(&client).get(key, Some(options)).await }
        })
        .await
    }

    /// Executes a transaction that may be repeated.
    pub(super) async fn txn(&self, txn: &Txn) -> Outcome<TxnResponse> {
        self.call(|client| {
            let txn = txn.clone();
            async move { kv(&client).txn(txn).await }
        })
        .await
    }

    /// Executes a transaction in a single attempt.
    pub(super) async fn txn_once(&self, txn: &Txn) -> Outcome<TxnResponse> {
        self.attempt(|client| {
            let txn = txn.clone();
            async move { kv(&client).txn(txn).await }
        })
        .await
    }
}

fn kv(client: &Client) -> etcd_client::KvClient {
    client.kv_client().max_decoding_message_size(MAX_ANSWER)
}

impl Server {
    async fn connect(&self) -> std::result::Result<Client, etcd_client::Error> {
        Client::connect([&self.address], Some(self.options.clone())).await
    }
}

/// Codes of gRPC.
mod code {
    pub(super) const INVALID_ARGUMENT: i32 = 3;
    pub(super) const NOT_FOUND: i32 = 5;
    pub(super) const PERMISSION_DENIED: i32 = 7;
    pub(super) const RESOURCE_EXHAUSTED: i32 = 8;
    pub(super) const FAILED_PRECONDITION: i32 = 9;
    pub(super) const OUT_OF_RANGE: i32 = 11;
    pub(super) const UNIMPLEMENTED: i32 = 12;
    pub(super) const UNAUTHENTICATED: i32 = 16;
}

/// Returns the consequence of `error`.
fn classify(host: &str, error: &etcd_client::Error) -> Failure {
    use etcd_client::Error as Etcd;
    match error {
        Etcd::GRpcStatus(status) => {
            let reason = match status.source() {
                Some(cause) => format!("etcd {host}: {}", messages(status.message(), cause)),
                None => format!("etcd {host}: {}", status.message()),
            };
            classify_status(status.code() as i32, status.message(), reason)
        }
        Etcd::InvalidArgs(_) | Etcd::InvalidUri(_) => {
            Failure::Final(Error::InvalidArgument(format!("etcd {host}: {error}")))
        }
        Etcd::LeaseKeepAliveError(_) => Failure::LeaseNotFound,
        Etcd::TransportError(cause) => Failure::Transient(format!("etcd {host}: {}", messages("", cause))),
        other => Failure::Transient(format!("etcd {host}: {other}")),
    }
}

fn classify_status(code: i32, message: &str, reason: String) -> Failure {
    match code {
        code::OUT_OF_RANGE if message.contains("compacted") => Failure::Final(Error::SnapshotTooOld(reason)),
        code::OUT_OF_RANGE if message.contains("message length too large") => Failure::AnswerTooLarge,
        code::NOT_FOUND if message.contains("lease") => Failure::LeaseNotFound,
        code::RESOURCE_EXHAUSTED if message.contains("space exceeded") => {
            Failure::Final(Error::OutOfSpace(reason))
        }
        code::RESOURCE_EXHAUSTED if message.contains("message larger than max") => {
            Failure::Final(Error::InvalidArgument(reason))
        }
        code::INVALID_ARGUMENT
            if message.contains("authentication failed") || message.contains("user name is empty") =>
        {
            Failure::Final(Error::PermissionDenied(reason))
        }
        code::PERMISSION_DENIED | code::UNAUTHENTICATED => Failure::Final(Error::PermissionDenied(reason)),
        code::INVALID_ARGUMENT | code::FAILED_PRECONDITION | code::UNIMPLEMENTED => {
            Failure::Final(Error::InvalidArgument(reason))
        }
        _ => Failure::Transient(reason),
    }
}
