//! Reads at a revision, in pages.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

use etcd_client::{
    GetOptions, GetResponse, KeyValue, ResponseHeader, SortOrder, SortTarget, Txn, TxnOp, TxnOpResponse,
};
use terrace_sync::native_locks::Mutex;

use super::super::prefix_layout::Layout;
use super::cluster::{Cluster, Failure, Requester};
use super::stored::decode_value;
use crate::error::{Error, Result};
use crate::key_range::KeyRange;
use crate::paged_cursor::{Direction, Page, PageRequest, PageSource, PagedCursor, PendingPage};
use crate::store::{Position, StoreIterator, StoreSnapshot};

/// Keys of one request of several gets. Values of the maximum size fit into the answer.
const KEYS_OF_REQUEST: usize = 32;
/// Maximum number of keys whose revisions a snapshot remembers for a condition.
const REMEMBERED_KEYS: usize = 4096;
/// Entries by which the size of a range is estimated.
const SAMPLE: usize = 32;

/// Reads of a store.
#[derive(Clone)]
pub(super) struct Snapshots {
    pub(super) cluster: Arc<Cluster>,
    pub(super) layout: Arc<Layout>,
}

/// State of a store at a revision.
pub(super) struct EtcdSnapshot {
    reads: Snapshots,
    revision: i64,
    /// Revisions of the keys that were read, 0 for missing ones.
    revisions: Mutex<HashMap<Vec<u8>, i64>>,
}

impl Snapshots {
    /// Returns the value of `key` in the newest state.
    pub(super) fn get_newest(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut answer = self.cluster.get(self.layout.data_key(key), GetOptions::new())?;
        answer.take_kvs().pop().map(|entry| value_of(key, entry)).transpose()
    }

    /// Takes a snapshot of the newest state.
    pub(super) fn take(&self) -> Result<EtcdSnapshot> {
        let count = GetOptions::new().with_count_only();
        let answer = self.cluster.get(self.layout.change_record_key(), count)?;
        let revision = answer.header().map_or(0, ResponseHeader::revision);
        Ok(self.at(revision))
    }

    /// Takes a snapshot of the newest state, and reads `keys` in it. The first part of the keys
    /// comes with the revision.
    pub(super) fn take_with(&self, keys: &[&[u8]]) -> Result<(EtcdSnapshot, Vec<Option<Vec<u8>>>)> {
        // etcd answers a transaction without a read from the state of the server that it asks.
        if keys.is_empty() {
            return Ok((self.take()?, Vec::new()));
        }
        let (first, rest) = keys.split_at(keys.len().min(KEYS_OF_REQUEST));
        let (revision, found) = self.read_part(first, &GetOptions::new())?;
        let snapshot = self.at(revision);
        snapshot.remember(first, &found);
        let mut values = values_of(first, found)?;
        if !rest.is_empty() {
            values.extend(snapshot.multi_get(rest)?);
        }
        Ok((snapshot, values))
    }

    fn at(&self, revision: i64) -> EtcdSnapshot {
        EtcdSnapshot { reads: self.clone(), revision, revisions: Mutex::default() }
    }

    /// Reads the keys of one request. Returns the revision of the answer, too.
    fn read_part(&self, keys: &[&[u8]], options: &GetOptions) -> Result<(i64, Vec<Option<KeyValue>>)> {
        let gets = keys.iter().map(|key| TxnOp::get(self.layout.data_key(key), Some(options.clone())));
        let txn = Txn::new().and_then(gets.collect::<Vec<_>>());
        let requester = self.cluster.requester();
        let answer = self.cluster.threads.run(async move { Ok(requester.txn(&txn).await?) })?;
        let revision = answer.header().map_or(0, ResponseHeader::revision);
        let found: Vec<_> = answer
            .op_responses()
            .into_iter()
            .map(|response| match response {
                TxnOpResponse::Get(mut answer) => answer.take_kvs().pop(),
                _ => None,
            })
            .collect();
        match found.len() == keys.len() {
            true => Ok((revision, found)),
            false => Err(Error::Corruption("etcd: an answer lacks some of the keys".into())),
        }
    }
}

fn values_of(keys: &[&[u8]], found: Vec<Option<KeyValue>>) -> Result<Vec<Option<Vec<u8>>>> {
    keys.iter().zip(found).map(|(key, entry)| entry.map(|entry| value_of(key, entry)).transpose()).collect()
}

fn value_of(key: &[u8], entry: KeyValue) -> Result<Vec<u8>> {
    decode_value(key, entry.into_key_value().1)
}

impl EtcdSnapshot {
    pub(super) fn revision(&self) -> i64 {
        self.revision
    }

    /// Returns true if this is a snapshot of the store that reads by `reads`.
    pub(super) fn belongs_to(&self, reads: &Snapshots) -> bool {
        Arc::ptr_eq(&self.reads.cluster, &reads.cluster)
    }

    fn at_revision(&self) -> GetOptions {
        GetOptions::new().with_revision(self.revision)
    }

    /// Reads `keys`, and remembers their revisions.
    fn read(&self, keys: &[&[u8]], is_value_needed: bool) -> Result<Vec<Option<KeyValue>>> {
        let mut found = Vec::with_capacity(keys.len());
        let options = if is_value_needed { self.at_revision() } else { self.at_revision().with_keys_only() };
        for part in keys.chunks(KEYS_OF_REQUEST) {
            found.extend(self.reads.read_part(part, &options)?.1);
        }
        self.remember(keys, &found);
        Ok(found)
    }

    fn remember(&self, keys: &[&[u8]], found: &[Option<KeyValue>]) {
        let mut revisions = self.revisions.lock();
        for (key, entry) in keys.iter().zip(found) {
            if revisions.len() >= REMEMBERED_KEYS {
                return;
            }
            revisions.insert(key.to_vec(), entry.as_ref().map_or(0, KeyValue::mod_revision));
        }
    }

    /// Returns the revision of each key in this snapshot, or 0 for a missing key.
    pub(super) fn revisions(&self, keys: &[&[u8]]) -> Result<Vec<i64>> {
        let known: Vec<Option<i64>> = {
            let revisions = self.revisions.lock();
            keys.iter().map(|key| revisions.get(*key).copied()).collect()
        };
        let missing: Vec<&[u8]> =
            keys.iter().zip(&known).filter(|(_, known)| known.is_none()).map(|(key, _)| *key).collect();
        let mut read = self.read(&missing, false)?.into_iter();
        let revisions = known.into_iter().map(|known| match known {
            Some(revision) => revision,
            None => read.next().flatten().map_or(0, |entry| entry.mod_revision()),
        });
        Ok(revisions.collect())
    }

    /// Returns the first keys of `range`, as keys in etcd, with their revisions.
    pub(super) fn keys_with_revisions(&self, range: &KeyRange, limit: usize) -> Result<Vec<(Vec<u8>, i64)>> {
        let (start, end) = self.reads.layout.data_range(range);
        let options = self.at_revision().with_range(end).with_keys_only().with_limit(limit as i64);
        let answer = self.reads.cluster.get(start, options)?;
        Ok(answer.kvs().iter().map(|entry| (entry.key().to_vec(), entry.mod_revision())).collect())
    }

    /// Returns a sample of the entries of a range that is not empty.
    pub(super) fn first_entries(&self, range: &KeyRange) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let request = PageRequest { range: range.clone(), direction: Direction::Forward, limit: SAMPLE };
        Ok(self.pages().request(request)()?.entries)
    }

    fn pages(&self) -> EtcdPages {
        EtcdPages { reads: self.reads.clone(), revision: self.revision }
    }
}

impl StoreSnapshot for EtcdSnapshot {
    fn position(&self) -> Position {
        self.revision.unsigned_abs()
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.multi_get(&[key])?.pop().flatten())
    }

    fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        values_of(keys, self.read(keys, true)?)
    }

    fn iter(&self, range: &KeyRange) -> Result<Box<dyn StoreIterator>> {
        Ok(Box::new(PagedCursor::new(self.pages(), range.clone())))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Pages at a revision.
struct EtcdPages {
    reads: Snapshots,
    revision: i64,
}

impl PageSource for EtcdPages {
    fn request(&self, request: PageRequest) -> PendingPage {
        if request.range.is_empty() {
            return Box::new(|| Ok(Page::default()));
        }
        let layout = Arc::clone(&self.reads.layout);
        let requester = self.reads.cluster.requester();
        let revision = self.revision;
        self.reads.cluster.threads.start(async move {
            let answer = fetch(&requester, &layout, revision, &request).await?;
            decode_page(&layout, answer, request.direction)
        })
    }
}

/// Fetches a page. Halves the number of entries while the answer is too large.
async fn fetch(
    requester: &Requester,
    layout: &Layout,
    revision: i64,
    request: &PageRequest,
) -> Result<GetResponse> {
    let (start, end) = layout.data_range(&request.range);
    let mut options = GetOptions::new().with_range(end).with_revision(revision);
    if request.direction == Direction::Backward {
        options = options.with_sort(SortTarget::Key, SortOrder::Descend);
    }
    let mut limit = request.limit;
    loop {
        match requester.get(start.clone(), options.clone().with_limit(limit as i64)).await {
            Err(Failure::AnswerTooLarge) if limit > 1 => limit /= 2,
            outcome => return Ok(outcome?),
        }
    }
}

fn decode_page(layout: &Layout, mut answer: GetResponse, direction: Direction) -> Result<Page> {
    let has_more = answer.more();
    let mut entries = Vec::with_capacity(answer.kvs().len());
    for entry in answer.take_kvs() {
        let (key, stored) = entry.into_key_value();
        let key = layout.user_key(key);
        let value = decode_value(&key, stored)?;
        entries.push((key, value));
    }
    if direction == Direction::Backward {
        entries.reverse();
    }
    Ok(Page { entries, has_more })
}
