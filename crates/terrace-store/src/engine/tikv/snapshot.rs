//! Reads at a timestamp, in pages.

use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use terrace_sync::native_locks::Mutex;
use tokio::time::Instant;

use super::super::group_commit::check_size;
use super::super::prefix_layout::Layout;
use super::MAX_LANES;
use super::cluster::{Bounds, Cluster, Requester, view};
use super::failure::{Failure, Outcome};
use super::stored::{Stamp, decode_value, stamp_of};
use crate::error::{Error, Result};
use crate::key_range::{KeyRange, successor};
use crate::paged_cursor::{Direction, Page, PageRequest, PageSource, PagedCursor, PendingPage};
use crate::store::{Position, StoreIterator, StoreSnapshot};

/// Keys of one request of several gets. The library divides them by regions.
const KEYS_OF_REQUEST: usize = 512;
/// Maximum number of keys whose stamps a snapshot remembers for a condition.
const REMEMBERED_KEYS: usize = 4096;
/// Requests after which a page that has entries may stay short. They ask 1, 2, 4 and 8 regions.
const REQUESTS_OF_PAGE: usize = 4;
/// Maximum number of regions that one request of an empty page asks.
const MAX_REGIONS: usize = 16;

/// Reads of a store.
#[derive(Clone)]
pub(super) struct Snapshots {
    pub(super) cluster: Arc<Cluster>,
    pub(super) layout: Arc<Layout>,
    pub(super) max_age: Duration,
}

/// State of a store at a timestamp.
pub(super) struct TikvSnapshot {
    reads: Snapshots,
    at: ReadTime,
    /// Stamps of the keys that were read, None for missing ones.
    stamps: Mutex<HashMap<Vec<u8>, Option<Stamp>>>,
}

/// Timestamp of reads, which the cluster keeps for a limited time.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadTime {
    timestamp: u64,
    expires_at: Instant,
}

impl ReadTime {
    /// Returns the timestamp, or an error if the cluster may have removed the versions before it.
    /// TiKV does not notice a read of removed versions.
    fn checked(self) -> Result<u64> {
        match Instant::now() < self.expires_at {
            true => Ok(self.timestamp),
            false => Err(Error::SnapshotTooOld(
                "tikv: the snapshot has the maximum age (option 'snapshots' of the address)".into(),
            )),
        }
    }
}

/// Form of the values in a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    /// Values of the user.
    Values,
    /// Stored forms, whose stamps tell of changes.
    Stored,
    /// No values.
    Keys,
}

impl Snapshots {
    /// Takes a snapshot of the newest state.
    pub(super) fn take(&self) -> Result<TikvSnapshot> {
        // The age counts from the time before the request.
        let expires_at = Instant::now() + self.max_age;
        Ok(self.at(ReadTime { timestamp: self.cluster.timestamp()?, expires_at }))
    }

    /// Returns the state at the start of a transaction that has just begun.
    pub(super) fn at_start(&self, timestamp: u64) -> TikvSnapshot {
        self.at(ReadTime { timestamp, expires_at: Instant::now() + self.max_age })
    }

    fn at(&self, at: ReadTime) -> TikvSnapshot {
        TikvSnapshot { reads: self.clone(), at, stamps: Mutex::default() }
    }
}

impl TikvSnapshot {
    /// Returns true if this is a snapshot of the store that reads by `reads`.
    pub(super) fn belongs_to(&self, reads: &Snapshots) -> bool {
        Arc::ptr_eq(&self.reads.cluster, &reads.cluster)
    }

    /// Reads the stored forms of `keys`, and remembers their stamps.
    fn read(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        let mut found: HashMap<Vec<u8>, Vec<u8>> = HashMap::new();
        let mut stored_keys: Vec<Vec<u8>> = keys.iter().map(|key| self.reads.layout.data_key(key)).collect();
        stored_keys.sort_unstable();
        stored_keys.dedup();
        for part in stored_keys.chunks(KEYS_OF_REQUEST) {
            let timestamp = self.at.checked()?;
            let requester = self.reads.cluster.requester();
            let part = part.to_vec();
            let work = async move { Ok(batch_get(&requester, timestamp, part).await?) };
            found.extend(self.reads.cluster.threads.run(work)?);
        }
        let values: Vec<_> =
            keys.iter().map(|key| found.get(&self.reads.layout.data_key(key)).cloned()).collect();
        self.remember(keys, &values)?;
        Ok(values)
    }

    fn remember(&self, keys: &[&[u8]], found: &[Option<Vec<u8>>]) -> Result<()> {
        let mut stamps = self.stamps.lock();
        for (key, stored) in keys.iter().zip(found) {
            let stamp = stored.as_deref().map(|stored| stamp_of(key, stored)).transpose()?;
            if stamps.len() < REMEMBERED_KEYS {
                stamps.insert(key.to_vec(), stamp);
            }
        }
        Ok(())
    }

    /// Returns the stamp of each key in this snapshot.
    pub(super) fn stamps(&self, keys: &[&[u8]]) -> Result<Vec<Option<Stamp>>> {
        let known: Vec<Option<Option<Stamp>>> = {
            let stamps = self.stamps.lock();
            keys.iter().map(|key| stamps.get(*key).copied()).collect()
        };
        let missing: Vec<&[u8]> =
            keys.iter().zip(&known).filter(|(_, known)| known.is_none()).map(|(key, _)| *key).collect();
        let mut read = missing.iter().zip(self.read(&missing)?);
        let stamps = known.into_iter().map(|known| match (known, &mut read) {
            (Some(stamp), _) => Ok(stamp),
            (None, read) => match read.next() {
                Some((key, Some(stored))) => stamp_of(key, &stored).map(Some),
                _ => Ok(None),
            },
        });
        stamps.collect()
    }

    /// Returns the keys that commits change, with their stamps, as [`commit_records_at`].
    pub(super) fn commit_records(&self) -> Result<Vec<(Vec<u8>, Stamp)>> {
        let timestamp = self.at.checked()?;
        let layout = Arc::clone(&self.reads.layout);
        let requester = self.reads.cluster.requester();
        self.reads.cluster.threads.run(async move { commit_records_at(&requester, &layout, timestamp).await })
    }

    /// Returns an iterator over `range` with values in the given form.
    pub(super) fn cursor(&self, range: &KeyRange, content: Content) -> PagedCursor<TikvPages> {
        PagedCursor::new(TikvPages { reads: self.reads.clone(), at: self.at, content }, range.clone())
    }
}

/// Returns all commit markers and the record of the last new lane, with their stamps. Each commit
/// changes one of them.
pub(super) async fn commit_records_at(
    requester: &Requester,
    layout: &Layout,
    timestamp: u64,
) -> Result<Vec<(Vec<u8>, Stamp)>> {
    let scan = Scan { timestamp, direction: Direction::Forward, content: Content::Stored };
    let (mut start, end) = layout.commit_record_range();
    let mut records = Vec::new();
    loop {
        let (entries, has_more) = scan.entries(requester, (start, end.clone()), MAX_LANES).await?;
        start = entries.last().map(|(key, _)| successor(key)).unwrap_or_default();
        for (key, stored) in entries {
            let stamp = stamp_of(&key, &stored)?;
            records.push((key, stamp));
        }
        check_size("commit markers of clients", records.len(), MAX_LANES)?;
        if !has_more {
            return Ok(records);
        }
    }
}

/// Returns the stamps of those of `keys`, sorted stored keys, that exist.
pub(super) async fn versions_at(
    requester: &Requester,
    timestamp: u64,
    keys: Vec<Vec<u8>>,
) -> Result<BTreeMap<Vec<u8>, Stamp>> {
    let mut stamps = BTreeMap::new();
    for part in keys.chunks(KEYS_OF_REQUEST) {
        for (key, stored) in batch_get(requester, timestamp, part.to_vec()).await? {
            let stamp = stamp_of(&key, &stored)?;
            stamps.insert(key, stamp);
        }
    }
    Ok(stamps)
}

/// Reads several keys. Halves their number while the answer is too large.
async fn batch_get(requester: &Requester, timestamp: u64, keys: Vec<Vec<u8>>) -> Outcome<Entries> {
    let mut found = Vec::new();
    let mut parts = vec![keys];
    while let Some(part) = parts.pop() {
        // The keys are sorted.
        let first = part.first().cloned().unwrap_or_default();
        let bounds = (first, part.last().map(|key| successor(key)).unwrap_or_default());
        let answer = requester.call_in(bounds, |client| {
            let part = part.clone();
            async move { Ok(view(&client, timestamp).batch_get(part).await?.collect::<Vec<_>>()) }
        });
        match answer.await {
            Ok(pairs) => found.extend(pairs.into_iter().map(|pair| (pair.0.into(), pair.1))),
            Err(Failure::AnswerTooLarge) if part.len() > 1 => {
                let (first, second) = part.split_at(part.len() / 2);
                parts.extend([first.to_vec(), second.to_vec()]);
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(found)
}

impl StoreSnapshot for TikvSnapshot {
    fn position(&self) -> Position {
        self.at.timestamp
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let timestamp = self.at.checked()?;
        let stored_key = self.reads.layout.data_key(key);
        let requester = self.reads.cluster.requester();
        let work = async move { Ok(requester.get_at(&stored_key, timestamp).await?) };
        let stored = self.reads.cluster.threads.run(work)?;
        self.remember(&[key], std::slice::from_ref(&stored))?;
        stored.map(|stored| decode_value(key, stored)).transpose()
    }

    fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        let found = self.read(keys)?;
        let values = keys.iter().zip(found);
        values.map(|(key, stored)| stored.map(|stored| decode_value(key, stored)).transpose()).collect()
    }

    fn iter(&self, range: &KeyRange) -> Result<Box<dyn StoreIterator>> {
        Ok(Box::new(self.cursor(range, Content::Values)))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Pages at a timestamp.
pub(super) struct TikvPages {
    reads: Snapshots,
    at: ReadTime,
    content: Content,
}

impl PageSource for TikvPages {
    fn request(&self, request: PageRequest) -> PendingPage {
        if request.range.is_empty() {
            return Box::new(|| Ok(Page::default()));
        }
        let timestamp = match self.at.checked() {
            Ok(timestamp) => timestamp,
            Err(error) => return Box::new(move || Err(error)),
        };
        let layout = Arc::clone(&self.reads.layout);
        let requester = self.reads.cluster.requester();
        let scan = Scan { timestamp, direction: request.direction, content: self.content };
        self.reads.cluster.threads.start(async move {
            let bounds = layout.data_range(&request.range);
            let (entries, has_more) = scan.entries(&requester, bounds, request.limit).await?;
            scan.page(&layout, entries, has_more)
        })
    }
}

/// Keys with values, in the direction of a scan.
type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// Scan in one direction at a timestamp.
#[derive(Debug, Clone, Copy)]
struct Scan {
    timestamp: u64,
    direction: Direction,
    content: Content,
}

impl Scan {
    /// Returns up to `limit` entries between the bounds, at least one if there is one, and whether
    /// there may be further ones. Asks one region, and more at a time if they have few entries.
    async fn entries(&self, requester: &Requester, bounds: Bounds, limit: usize) -> Outcome<(Entries, bool)> {
        let (mut start, mut end) = bounds;
        let mut entries = Entries::new();
        let mut regions = 1;
        for request in 1.. {
            let part = self.part(requester, &start, &end, regions).await;
            let is_last = (&part.0, &part.1) == (&start, &end);
            match self.direction {
                Direction::Forward => start.clone_from(&part.1),
                Direction::Backward => end.clone_from(&part.0),
            }
            let (found, is_cut) = self.request(requester, part, limit - entries.len()).await?;
            entries.extend(found);
            if is_cut || is_last {
                return Ok((entries, is_cut));
            }
            if request >= REQUESTS_OF_PAGE && !entries.is_empty() {
                break;
            }
            regions = (regions * 2).min(MAX_REGIONS);
        }
        Ok((entries, true))
    }

    /// Returns the bounds of the next request: a number of regions. A border that is not between
    /// the bounds would lead nowhere, so a wrong answer about regions costs a larger request.
    async fn part(&self, requester: &Requester, start: &[u8], end: &[u8], regions: usize) -> Bounds {
        let is_between = |border: &Vec<u8>| start < border.as_slice() && border.as_slice() < end;
        match self.direction {
            Direction::Forward => {
                let border = requester.regions().end_after(start, regions).await;
                let border = border.filter(is_between);
                (start.to_vec(), border.unwrap_or_else(|| end.to_vec()))
            }
            Direction::Backward => {
                let border = requester.regions().start_before(end, regions).await;
                let border = border.filter(is_between);
                (border.unwrap_or_else(|| start.to_vec()), end.to_vec())
            }
        }
    }

    /// Returns up to `limit` entries, and whether the limit cut them. Halves the limit while the
    /// answer is too large.
    async fn request(&self, requester: &Requester, part: Bounds, limit: usize) -> Outcome<(Entries, bool)> {
        let mut limit = limit;
        loop {
            match self.request_once(requester, &part, limit as u32).await {
                Err(Failure::AnswerTooLarge) if limit > 1 => limit /= 2,
                outcome => {
                    let entries = outcome?;
                    let is_cut = entries.len() >= limit;
                    return Ok((entries, is_cut));
                }
            }
        }
    }

    async fn request_once(&self, requester: &Requester, part: &Bounds, limit: u32) -> Outcome<Entries> {
        let scan = *self;
        let answer = requester.call_in(part.clone(), |client| {
            let (start, end) = part.clone();
            async move {
                let mut view = view(&client, scan.timestamp);
                let range = start..end;
                let pairs: Entries = match (scan.direction, scan.content) {
                    (Direction::Forward, Content::Keys) => {
                        without_values(view.scan_keys(range, limit).await?)
                    }
                    (Direction::Backward, Content::Keys) => {
                        without_values(view.scan_keys_reverse(range, limit).await?)
                    }
                    (Direction::Forward, _) => with_values(view.scan(range, limit).await?),
                    (Direction::Backward, _) => with_values(view.scan_reverse(range, limit).await?),
                };
                Ok(pairs)
            }
        });
        answer.await
    }

    fn page(&self, layout: &Layout, found: Entries, has_more: bool) -> Result<Page> {
        let mut entries = Entries::with_capacity(found.len());
        for (key, stored) in found {
            let key = layout.user_key(key);
            let value = match self.content {
                Content::Values => decode_value(&key, stored)?,
                Content::Stored | Content::Keys => stored,
            };
            entries.push((key, value));
        }
        if self.direction == Direction::Backward {
            entries.reverse();
        }
        Ok(Page { entries, has_more })
    }
}

fn with_values(pairs: impl Iterator<Item = tikv_client::KvPair>) -> Entries {
    pairs.map(|pair| (pair.0.into(), pair.1)).collect()
}

fn without_values(keys: impl Iterator<Item = tikv_client::Key>) -> Entries {
    keys.map(|key| (key.into(), Vec::new())).collect()
}
