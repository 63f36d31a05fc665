//! Sorted sets: two records per member.
//!
//! ```text
//!   00 member            score        finds the score of a member
//!   01 score:8 member    (empty)      orders the members by score, then by bytes
//! ```
//!
//! Ranks are positions in the second part. A command counts them from the nearer end.

mod add;
mod combine;
mod order;
mod pop;
mod query;
mod random;
mod range;
mod remove;
mod score;

use std::collections::HashMap;

use super::Call;
use crate::failure::{CommandResult, Failure};
use crate::resp::Reply;
use crate::store::{EventClass, MemberScan, Object, Replaced, ValueType, View};

pub(super) use add::{AddOptions, add_scores, zadd, zincrby};
pub(super) use combine::{zdiff, zdiffstore, zinter, zintercard, zinterstore, zunion, zunionstore};
pub(super) use order::{LexRange, ScoreRange};
pub(super) use pop::{Side, pop_members, pop_one, zmpop, zpopmax, zpopmin};
pub(super) use query::{zcard, zcount, zlexcount, zmscore, zrank, zrevrank, zscan, zscore};
pub(super) use random::zrandmember;
pub(super) use range::{
    zrange, zrangebylex, zrangebyscore, zrangestore, zrevrange, zrevrangebylex, zrevrangebyscore,
};
pub(super) use remove::{zrem, zremrangebylex, zremrangebyrank, zremrangebyscore};
pub(super) use score::{decode_score, encode_score, parse_score};

/// First byte of the records that find the score of a member.
const BY_MEMBER: u8 = 0;
/// First byte of the records that order the members.
const BY_SCORE: u8 = 1;
/// Begin of the keys of the records that order the members.
pub(super) const ORDERED_MEMBERS: &[u8] = &[BY_SCORE];
/// Number of members above which Redis does not use its compact encoding.
const MAX_COMPACT_COUNT: u64 = 128;
/// Size of a member above which Redis does not use its compact encoding, in bytes.
const MAX_COMPACT_MEMBER: usize = 64;
/// Maximum size of the members that a command returns or stores, in bytes.
const MAX_BYTES: usize = 256 << 20;

/// Member with its score.
pub(super) type Scored = (Vec<u8>, f64);

/// Sorted set of a key.
#[derive(Debug)]
pub(super) struct SortedSet {
    object: Object,
}

impl SortedSet {
    /// Returns the sorted set at `key`, or None if the key does not exist.
    pub(super) fn open(view: &mut View<'_>, database: u8, key: &[u8]) -> CommandResult<Option<SortedSet>> {
        Ok(view.open_object(database, key, ValueType::SortedSet)?.map(|object| SortedSet { object }))
    }

    /// Returns the sorted set at `key`, or a new one.
    pub(super) fn open_or_create(view: &mut View<'_>, database: u8, key: &[u8]) -> CommandResult<SortedSet> {
        Ok(SortedSet { object: view.open_or_create_object(database, key, ValueType::SortedSet)? })
    }

    /// Number of the members.
    pub(super) fn len(&self) -> u64 {
        self.object.count
    }

    /// True if Redis would use its compact encoding.
    pub(super) fn is_compact(&self) -> bool {
        !self.object.is_large
    }

    /// Returns the score of `member`.
    pub(super) fn score(&self, view: &mut View<'_>, member: &[u8]) -> CommandResult<Option<f64>> {
        let score = view.read_member(&self.object, &member_suffix(member), decode_score)?;
        score.map(|score| score.ok_or_else(damaged)).transpose()
    }

    /// Stores a member in place of the same member with the score `old`.
    pub(super) fn insert(
        &mut self,
        view: &mut View<'_>,
        member: &[u8],
        old: Option<f64>,
        score: f64,
    ) -> CommandResult {
        match old {
            Some(old) => view.delete_member(&self.object, &score_suffix(old, member))?,
            None => self.object.count += 1,
        }
        self.object.is_large |= self.object.count > MAX_COMPACT_COUNT || member.len() > MAX_COMPACT_MEMBER;
        view.put_member(&self.object, &member_suffix(member), &encode_score(score))?;
        view.put_member(&self.object, &score_suffix(score, member), b"")
    }

    /// Deletes a member with the score `score`.
    pub(super) fn remove(&mut self, view: &mut View<'_>, member: &[u8], score: f64) -> CommandResult {
        self.object.count = self.object.count.saturating_sub(1);
        view.delete_member(&self.object, &member_suffix(member))?;
        view.delete_member(&self.object, &score_suffix(score, member))
    }

    /// Stores the record of the sorted set.
    pub(super) fn save(&self, view: &mut View<'_>, database: u8, key: &[u8]) -> CommandResult {
        view.save_object(database, key, &self.object)
    }

    /// Returns the members by score, or in the opposite order.
    pub(super) fn scan(&self, view: &mut View<'_>, is_reverse: bool) -> CommandResult<ScoreScan> {
        self.scan_between(view, &[BY_SCORE], &[BY_SCORE + 1], is_reverse)
    }

    /// Returns the members whose records are in a range.
    pub(super) fn scan_bounds(
        &self,
        view: &mut View<'_>,
        begin: Vec<u8>,
        end: Vec<u8>,
        is_reverse: bool,
    ) -> CommandResult<ScoreScan> {
        // An iterator needs its bounds in order.
        self.scan_between(view, &begin, begin.as_slice().max(&end), is_reverse)
    }

    fn scan_between(
        &self,
        view: &mut View<'_>,
        begin: &[u8],
        end: &[u8],
        is_reverse: bool,
    ) -> CommandResult<ScoreScan> {
        let scan = view.members_between(&self.object, begin, Some(end), is_reverse)?;
        Ok(ScoreScan { scan, examined: 0, can_run_long: view.scratch.can_run_long() })
    }
}

/// Iterator over members with their scores.
pub(super) struct ScoreScan {
    scan: MemberScan,
    examined: u64,
    can_run_long: bool,
}

impl ScoreScan {
    /// Returns the next member, or None at the end.
    ///
    /// # Errors
    ///
    /// A record is damaged, or a worker has read too many members.
    pub(super) fn next(&mut self) -> CommandResult<Option<(f64, &[u8])>> {
        self.examined += 1;
        if self.examined > super::MAX_MEMBERS_ON_WORKER && !self.can_run_long {
            return Err(Failure::IsLong);
        }
        let Some((suffix, _)) = self.scan.next()? else { return Ok(None) };
        let parts = suffix.get(1..).and_then(|rest| rest.split_first_chunk::<8>());
        let (score, member) = parts.ok_or_else(damaged)?;
        Ok(Some((decode_score(score).ok_or_else(damaged)?, member)))
    }

    /// Skips `count` members.
    pub(super) fn skip(&mut self, count: u64) -> CommandResult {
        for _ in 0..count {
            if self.next()?.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// Returns the next `limit` members.
    pub(super) fn take(&mut self, limit: u64) -> CommandResult<Vec<Scored>> {
        let mut found = Vec::new();
        let mut bytes = 0;
        while (found.len() as u64) < limit {
            let Some((score, member)) = self.next()? else { break };
            found.push((member.to_vec(), score));
            bytes += member.len() + size_of::<Scored>();
            check_bytes(bytes)?;
        }
        Ok(found)
    }
}

fn member_suffix(member: &[u8]) -> Vec<u8> {
    let mut suffix = Vec::with_capacity(1 + member.len());
    suffix.push(BY_MEMBER);
    suffix.extend_from_slice(member);
    suffix
}

fn score_suffix(score: f64, member: &[u8]) -> Vec<u8> {
    let mut suffix = Vec::with_capacity(9 + member.len());
    suffix.push(BY_SCORE);
    suffix.extend_from_slice(&encode_score(score));
    suffix.extend_from_slice(member);
    suffix
}

fn damaged() -> Failure {
    Failure::reply("ERR damaged: a record of the sorted set")
}

/// Fails if the members of a command exceed the limit.
pub(super) fn check_bytes(bytes: usize) -> CommandResult {
    if bytes <= MAX_BYTES {
        return Ok(());
    }
    Err(Failure::reply("ERR the members of the command exceed 256 MiB"))
}

/// Form of a list of members with scores in a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scores {
    /// Members only.
    Hidden,
    /// Members and scores in turns; pairs in version 3 of the protocol.
    Shown,
}

/// Appends an array of members.
pub(super) fn reply_members(reply: &mut Reply, members: &[Scored], scores: Scores) {
    begin_members(reply, members.len(), scores);
    for (member, score) in members {
        reply_member(reply, member, *score, scores);
    }
}

/// Begins an array of `count` members.
fn begin_members(reply: &mut Reply, count: usize, scores: Scores) {
    let is_flat = scores == Scores::Shown && !reply.is_resp3();
    reply.array(if is_flat { 2 * count } else { count });
}

/// Appends a member of the array.
fn reply_member(reply: &mut Reply, member: &[u8], score: f64, scores: Scores) {
    if scores == Scores::Shown && reply.is_resp3() {
        reply.array(2);
    }
    reply.bulk(member);
    if scores == Scores::Shown {
        reply.double(score);
    }
}

/// Stores `members` at `key` in place of any value. Without members, the key is deleted. `event` is
/// the event of the command.
pub(super) fn store_members(
    call: &mut Call<'_>,
    key: &[u8],
    members: &[Scored],
    event: &'static str,
) -> CommandResult {
    let replaced = call.get(key)?;
    if members.is_empty() {
        let Some(replaced) = &replaced else { return Ok(()) };
        call.notify_stored(EventClass::SORTED_SET, event, key, true);
        return call.delete(key, replaced);
    }
    let mut set = SortedSet { object: call.view.create_object(ValueType::SortedSet)? };
    for (member, score) in members {
        set.insert(&mut call.view, member, None, *score)?;
    }
    let database = call.session.database;
    call.view.replace_with_object(database, key, &set.object, Replaced::Read(replaced.as_ref()))?;
    call.notify_stored(EventClass::SORTED_SET, event, key, false);
    Ok(())
}

/// Scores that the command itself has changed, which the view does not show.
#[derive(Debug, Default)]
struct OwnScores<'a> {
    scores: HashMap<&'a [u8], Option<f64>>,
}

impl<'a> OwnScores<'a> {
    /// Returns the current score of `member`.
    fn score(&self, view: &mut View<'_>, set: &SortedSet, member: &[u8]) -> CommandResult<Option<f64>> {
        match self.scores.get(member) {
            Some(score) => Ok(*score),
            None => set.score(view, member),
        }
    }

    /// Records a change, if the command has other members.
    fn note(&mut self, member: &'a [u8], score: Option<f64>, is_only: bool) {
        if !is_only {
            self.scores.insert(member, score);
        }
    }
}
