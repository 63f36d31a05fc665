//! Requests to a cluster, with time limits.
//!
//! The client library finds regions and leaders, and repeats a request a few times. An attempt that
//! still fails is repeated until the time of the call is over. All requests of this module may be
//! repeated: reads, and the commits of `commit`, which find out whether an attempt took effect.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use terrace_env::{Random, SystemRandom};
use terrace_sync::native_locks::Mutex;
use tikv_client::transaction::ResolveLocksOptions;
use tikv_client::{
    Backoff, CheckLevel, Config, RetryOptions, Snapshot, Timestamp, TimestampExt, TransactionClient,
    TransactionOptions,
};
use tokio::time::Instant;

use super::super::call_threads::CallThreads;
use super::address::{Settings, TlsFiles};
use super::failure::{Failure, Outcome, classify};
use super::placement_driver::PlacementDriver;
use super::regions::Regions;
use crate::error::{Error, Result};
use crate::key_range::successor;

/// Maximum time of one attempt, which includes the repetitions of the library.
const ATTEMPT_TIME: Duration = Duration::from_secs(5);
/// Maximum time of one request of the library.
const REQUEST_TIME: Duration = Duration::from_secs(2);
/// Repetitions by the library after errors of a region and after locks: 2, 4, .. 128 milliseconds.
const BACKOFF: Backoff = Backoff::no_jitter_backoff(2, 128, 7);
/// Maximum length of the first pause between attempts. It doubles with each attempt.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
/// Maximum length of a later pause.
const MAX_PAUSE: Duration = Duration::from_millis(400);
/// Maximum size of an answer in bytes: a first page of large values fits.
const MAX_ANSWER: usize = 64 << 20;
/// Age after which a lock without a primary lock is removed, in milliseconds: the usual time to
/// live of a lock. A transaction that is only slow fails then and is repeated.
const ORPHAN_AGE_MILLIS: u64 = 3000;
/// Attempts to resolve the locks of one region.
const RESOLVE_ATTEMPTS: u32 = 3;
/// Position of the milliseconds in a timestamp.
pub(super) const MILLIS_SHIFT: u32 = 18;

/// First key and excluded end.
pub(super) type Bounds = (Vec<u8>, Vec<u8>);

/// Cluster, and the threads that talk to it.
pub(super) struct Cluster {
    pub(super) threads: CallThreads,
    shared: Arc<Shared>,
}

struct Shared {
    hosts: Vec<String>,
    tls: Option<TlsFiles>,
    timeout: Duration,
    /// None before the first connection.
    client: Mutex<Option<TransactionClient>>,
    /// Index of the first placement driver for the next connection, modulo their number.
    first_host: AtomicUsize,
    regions: Regions,
    /// Held while a request removes locks.
    orphan_removal: tokio::sync::Mutex<()>,
}

impl Cluster {
    pub(super) fn new(settings: &Settings) -> Result<Cluster> {
        let shared = Shared {
            hosts: settings.hosts.clone(),
            tls: settings.tls.clone(),
            timeout: settings.timeout,
            client: Mutex::new(None),
            first_host: AtomicUsize::new(0),
            regions: Regions::new(settings.hosts.clone(), settings.tls.clone()),
            orphan_removal: tokio::sync::Mutex::new(()),
        };
        Ok(Cluster { threads: CallThreads::new("tikv", 2)?, shared: Arc::new(shared) })
    }

    /// Returns a handle for requests from work on the threads of the cluster.
    pub(super) fn requester(&self) -> Requester {
        Requester { shared: Arc::clone(&self.shared), deadline: Instant::now() + self.shared.timeout }
    }

    /// Adds the reason to the error of a first request. The library tells none if no placement
    /// driver answers.
    pub(super) fn explain(&self, error: Error) -> Error {
        if !matches!(error, Error::Unavailable(_)) {
            return error;
        }
        let driver = PlacementDriver::new(self.shared.hosts.clone(), self.shared.tls.clone());
        let failure = self.threads.run(async move {
            Ok(tokio::time::timeout(REQUEST_TIME, driver.failure()).await.ok().flatten())
        });
        failure.ok().flatten().map_or(error, |reason| Error::Unavailable(format!("tikv {reason}")))
    }

    /// Maximum time of a call.
    pub(super) fn timeout(&self) -> Duration {
        self.shared.timeout
    }

    /// Returns a new timestamp: all commits that have returned are before it.
    pub(super) fn timestamp(&self) -> Result<u64> {
        let requester = self.requester();
        self.threads.run(async move { Ok(requester.timestamp().await?) })
    }
}

fn no_driver() -> Failure {
    Failure::Transient("tikv: no placement driver answers".into())
}

/// Options of all transactions and snapshots.
fn options() -> TransactionOptions {
    TransactionOptions::new_optimistic()
        .drop_check(CheckLevel::Warn)
        .retry_options(RetryOptions { region_backoff: BACKOFF, lock_backoff: BACKOFF })
}

/// Returns a view at a timestamp. It caches what it reads, so each request needs a new one.
pub(super) fn view(client: &TransactionClient, timestamp: u64) -> Snapshot {
    client.snapshot(Timestamp::from_version(timestamp), options())
}

/// Requests until a deadline.
#[derive(Clone)]
pub(super) struct Requester {
    shared: Arc<Shared>,
    deadline: Instant,
}

impl Requester {
    /// Returns the same requests, with the whole time of a call from now on.
    pub(super) fn extended(&self) -> Requester {
        Requester { shared: Arc::clone(&self.shared), deadline: Instant::now() + self.shared.timeout }
    }

    /// Returns true if the time of the call is over.
    pub(super) fn is_late(&self) -> bool {
        Instant::now() >= self.deadline
    }

    /// Maximum time of a commit, which has requests in proportion to its size.
    pub(super) fn commit_time(&self) -> Duration {
        self.shared.timeout
    }

    pub(super) fn regions(&self) -> &Regions {
        &self.shared.regions
    }

    /// Sends a request until an attempt succeeds, or the time is over.
    async fn call<T, F>(&self, request: impl Fn(TransactionClient) -> F) -> Outcome<T>
    where
        F: Future<Output = tikv_client::Result<T>>,
    {
        self.call_in((Vec::new(), Vec::new()), request).await
    }

    /// Sends a request that reads keys between `bounds` until an attempt succeeds, or the time is
    /// over.
    pub(super) async fn call_in<T, F>(
        &self,
        bounds: Bounds,
        request: impl Fn(TransactionClient) -> F,
    ) -> Outcome<T>
    where
        F: Future<Output = tikv_client::Result<T>>,
    {
        let mut pause = FIRST_PAUSE;
        loop {
            let failure = match self.attempt(&request).await {
                Err(failure @ (Failure::Transient(_) | Failure::Locked(_) | Failure::Orphan(..))) => failure,
                outcome => return outcome,
            };
            if Instant::now() + pause >= self.deadline {
                return Err(failure);
            }
            self.remove_orphans(&failure, vec![bounds.clone()]).await;
            self.pause(&mut pause).await;
        }
    }

    /// Removes old locks in `ranges` after [`Failure::Orphan`]. The client library should do it,
    /// but it does not recognise the answer that the primary lock is missing. The call also rolls
    /// back transactions that are still running; they notice it and are repeated. A failure of the
    /// call has no consequence, because the request is repeated.
    pub(super) async fn remove_orphans(&self, failure: &Failure, ranges: Vec<Bounds>) {
        let Failure::Orphan(start, _) = failure else { return };
        // Another request of this client removes some. This one is repeated and sees the result.
        let Ok(_turn) = self.shared.orphan_removal.try_lock() else { return };
        let now = self.attempt(|client| async move { client.current_timestamp().await });
        let Ok(now) = now.await else { return };
        let age = (now.version() >> MILLIS_SHIFT).saturating_sub(start >> MILLIS_SHIFT);
        if age > ORPHAN_AGE_MILLIS {
            let _ = tokio::time::timeout(self.shared.timeout, self.resolve_locks(ranges, *start)).await;
        }
    }

    /// Resolves the locks up to `until` in `ranges`, which are in order. An empty end is no bound.
    ///
    /// Each call of the library gets a single region. After an error of one of several regions, it
    /// would begin again with that region and all later ones, beside its work on the later ones. So
    /// its tasks would multiply with each error, and their memory with them.
    async fn resolve_locks(&self, ranges: Vec<Bounds>, until: u64) -> Outcome<()> {
        let mut ranges = ranges.into_iter().peekable();
        while let Some((mut start, end)) = ranges.next() {
            loop {
                let border = self.regions().end_of_region(&start).await.ok_or_else(no_driver)?;
                let is_inside =
                    |end: &[u8]| border.is_empty() || (!end.is_empty() && end <= border.as_slice());
                let is_last = is_inside(&end);
                let mut part_end = if is_last { end.clone() } else { border.clone() };
                while is_last && let Some((_, next_end)) = ranges.next_if(|(_, next_end)| is_inside(next_end))
                {
                    part_end = next_end;
                }
                self.resolve_locks_of_region((start, part_end), until).await?;
                if is_last {
                    break;
                }
                start = border;
            }
        }
        Ok(())
    }

    async fn resolve_locks_of_region(&self, bounds: Bounds, until: u64) -> Outcome<()> {
        let mut pause = FIRST_PAUSE;
        let mut attempts = 0;
        loop {
            let outcome = self.attempt(|client| {
                let (start, end) = bounds.clone();
                async move {
                    let until = Timestamp::from_version(until);
                    client.cleanup_locks(start..end, &until, ResolveLocksOptions::default()).await
                }
            });
            attempts += 1;
            match outcome.await {
                Err(_) if attempts < RESOLVE_ATTEMPTS => self.pause(&mut pause).await,
                outcome => return outcome.map(|_| ()),
            }
        }
    }

    /// Waits for a random time, and doubles the limit of the next wait.
    pub(super) async fn pause(&self, pause: &mut Duration) {
        let nanos = SystemRandom::new().uniform(pause.as_nanos() as u64);
        tokio::time::sleep(Duration::from_nanos(nanos)).await;
        *pause = (*pause * 2).min(MAX_PAUSE);
    }

    /// First limit of the pauses between attempts.
    pub(super) fn first_pause(&self) -> Duration {
        FIRST_PAUSE
    }

    /// Sends a request once.
    async fn attempt<T, F>(&self, request: impl Fn(TransactionClient) -> F) -> Outcome<T>
    where
        F: Future<Output = tikv_client::Result<T>>,
    {
        let shared = &self.shared;
        let answer = async {
            let client = shared.connected().await?;
            request(client).await
        };
        match tokio::time::timeout(ATTEMPT_TIME.min(shared.timeout), answer).await {
            Ok(answer) => answer.map_err(|error| classify(&shared.names(), error)),
            Err(_) => {
                shared.disconnect();
                Err(Failure::Transient(format!("tikv {}: no answer in time", shared.names())))
            }
        }
    }

    /// Returns a new timestamp.
    pub(super) async fn timestamp(&self) -> Outcome<u64> {
        self.call(|client| async move { client.current_timestamp().await }).await.map(|at| at.version())
    }

    /// Starts a transaction.
    pub(super) async fn begin(&self) -> Outcome<tikv_client::Transaction> {
        self.call(|client| async move { client.begin_with_options(options()).await }).await
    }

    /// Reads one stored value at a timestamp.
    pub(super) async fn get_at(&self, key: &[u8], timestamp: u64) -> Outcome<Option<Vec<u8>>> {
        self.call_in((key.to_vec(), successor(key)), |client| {
            let key = key.to_vec();
            async move { view(&client, timestamp).get(key).await }
        })
        .await
    }

    /// Resolves the locks before `timestamp` in the whole cluster, and moves its safe point there.
    /// TiKV then removes the versions that no read at that time or later sees. The time is in
    /// proportion to the number of regions, so only the caller limits it.
    pub(super) async fn move_safe_point(&self, timestamp: u64) -> Outcome<()> {
        self.resolve_locks(vec![(Vec::new(), Vec::new())], timestamp).await?;
        self.regions().move_safe_point(timestamp).await.ok_or_else(no_driver)
    }

    /// Classifies the error of a transaction.
    pub(super) fn classify(&self, error: tikv_client::Error) -> Failure {
        classify(&self.shared.names(), error)
    }
}

impl Shared {
    /// Hosts of the address, for messages.
    fn names(&self) -> String {
        self.hosts.join(",")
    }

    /// Returns the client, after a connection if there is none.
    async fn connected(&self) -> tikv_client::Result<TransactionClient> {
        let known = self.client.lock().clone();
        if let Some(client) = known {
            return Ok(client);
        }
        let mut hosts = self.hosts.clone();
        let first = self.first_host.fetch_add(1, Ordering::Relaxed) % hosts.len();
        hosts.rotate_left(first);
        let client = TransactionClient::new_with_config(hosts, self.config()).await?;
        Ok(self.client.lock().get_or_insert(client).clone())
    }

    /// Forgets the client after an attempt without an answer: the library does not notice that the
    /// stream of the timestamps hangs.
    fn disconnect(&self) {
        *self.client.lock() = None;
    }

    fn config(&self) -> Config {
        let config =
            Config::default().with_timeout(REQUEST_TIME).with_grpc_max_decoding_message_size(MAX_ANSWER);
        match &self.tls {
            Some(TlsFiles { ca, cert, key }) => config.with_security(ca, cert, key),
            None => config,
        }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Error {
        match failure {
            Failure::Conflict(key) => Error::Conflict { key },
            Failure::Locked(reason) => Error::Busy(reason),
            Failure::Final(error) => error,
            failure => Error::Unavailable(failure.to_string()),
        }
    }
}
