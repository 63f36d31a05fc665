//! Removal of the oldest entries: the options of XADD and XTRIM.
//!
//! Redis removes whole nodes for `~`. Here, a node stands for `stream-node-max-entries` entries in
//! the order of their addition.

use super::{Stream, StreamId};
use crate::command::members::check_bytes;
use crate::command::{Args, Call, check_members};
use crate::failure::{CommandResult, Failure};
use crate::settings;
use crate::store::View;

/// Number of nodes that one `~` removes without LIMIT.
const DEFAULT_NODES: u64 = 100;
const LIMIT_WITHOUT_SIGN: &str = "ERR syntax error, LIMIT cannot be used without the special ~ option";

/// Entries that remain.
#[derive(Debug, Clone, Copy)]
enum Threshold {
    MaxLen(u64),
    MinId(StreamId),
}

/// Options that state which entries remain.
#[derive(Debug, Default)]
pub(super) struct TrimOptions {
    threshold: Option<Threshold>,
    is_approximate: bool,
    limit: Option<u64>,
}

/// Trim of a stream.
#[derive(Debug)]
pub(super) struct Trim {
    threshold: Threshold,
    /// Number of entries of a node.
    granularity: u64,
    /// Maximum number of removed entries.
    limit: u64,
}

impl TrimOptions {
    /// Parses the option at `index`. Returns the index after it, or None if it is another word.
    pub(super) fn parse(&mut self, args: Args<'_>, index: usize) -> CommandResult<Option<usize>> {
        let more = args.len() - index - 1;
        let is_max_len = args.is(index, "MAXLEN");
        if more > 0 && (is_max_len || args.is(index, "MINID")) {
            if self.threshold.is_some() {
                return Err(Failure::reply(
                    "ERR syntax error, MAXLEN and MINID options at the same time are not compatible",
                ));
            }
            let has_sign = more > 1 && matches!(args.at(index + 1), b"~" | b"=");
            self.is_approximate = has_sign && args.at(index + 1) == b"~";
            let value = index + 1 + usize::from(has_sign);
            self.threshold = Some(if is_max_len {
                Threshold::MaxLen(not_negative(args, value, "MAXLEN")?)
            } else {
                Threshold::MinId(StreamId::parse_strict(args.at(value), 0)?)
            });
            return Ok(Some(value + 1));
        }
        if more > 0 && args.is(index, "LIMIT") {
            self.limit = Some(not_negative(args, index + 1, "LIMIT")?);
            return Ok(Some(index + 2));
        }
        Ok(None)
    }

    /// True without a threshold, and without a limit beyond zero.
    pub(super) fn is_none(&self) -> bool {
        self.threshold.is_none() && self.limit.is_none_or(|limit| limit == 0)
    }

    /// Returns the trim, or None without a threshold.
    pub(super) fn finish(self, call: &Call<'_>) -> CommandResult<Option<Trim>> {
        let Some(threshold) = self.threshold else {
            return match self.limit {
                Some(0) => Err(Failure::reply(LIMIT_WITHOUT_SIGN)),
                Some(_) => Err(Failure::reply(
                    "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy",
                )),
                None => Ok(None),
            };
        };
        if !self.is_approximate {
            if self.limit.is_some() {
                return Err(Failure::reply(LIMIT_WITHOUT_SIGN));
            }
            return Ok(Some(Trim { threshold, granularity: 1, limit: u64::MAX }));
        }
        let granularity = node_entries(call);
        // A limit of zero is none.
        let limit = match self.limit {
            Some(0) => u64::MAX,
            Some(limit) => limit,
            None => DEFAULT_NODES.saturating_mul(granularity),
        };
        Ok(Some(Trim { threshold, granularity, limit }))
    }
}

/// Setting `stream-node-max-entries`.
pub(super) fn node_entries(call: &Call<'_>) -> u64 {
    const DEFAULT: u64 = 100;
    let found = settings::matching(call.shared, &[b"stream-node-max-entries"]);
    let value = found.first().and_then(|(_, value)| value.parse().ok());
    value.filter(|entries| *entries > 0).unwrap_or(DEFAULT)
}

fn not_negative(args: Args<'_>, index: usize, option: &str) -> CommandResult<u64> {
    u64::try_from(args.integer(index)?)
        .map_err(|_| Failure::reply(format!("ERR The {option} argument must be >= 0.")))
}

impl Trim {
    /// Largest number of entries up to `limit` that the trim may remove: whole nodes. The first and
    /// the last node may have fewer entries.
    fn rounded(&self, limit: u64, stream: &Stream) -> u64 {
        if limit == stream.len() {
            return limit;
        }
        let removed_before = stream.added().saturating_sub(stream.len());
        let first_node = self.granularity - removed_before % self.granularity;
        match limit.checked_sub(first_node) {
            Some(rest) => first_node + (rest - rest % self.granularity),
            None => 0,
        }
    }

    /// Removes entries. `added` is an entry that the command has added. Returns their number.
    pub(super) fn run(
        &self,
        view: &mut View<'_>,
        stream: &mut Stream,
        added: Option<StreamId>,
    ) -> CommandResult<u64> {
        let limit = match self.threshold {
            Threshold::MaxLen(len) => stream.len().saturating_sub(len).min(self.limit),
            Threshold::MinId(id) if stream.len() == 0 || stream.first_id() >= id => 0,
            Threshold::MinId(_) => stream.len().min(self.limit),
        };
        if limit == 0 {
            return Ok(0);
        }
        if matches!(self.threshold, Threshold::MaxLen(_)) {
            check_members(view, limit)?;
        }
        let end = match self.threshold {
            Threshold::MaxLen(_) => None,
            Threshold::MinId(id) => Some(id),
        };
        let mut ids = oldest(view, stream, added, self.rounded(limit, stream), end)?;
        let removed = self.rounded(ids.len() as u64, stream);
        let next = ids.split_off(removed as usize).first().copied();
        for id in &ids {
            stream.delete_entry(view, *id)?;
        }
        stream.object.count -= removed;
        if removed > 0 {
            let next = match next {
                Some(next) => Some(next),
                None => after(view, stream, added, ids.last().copied())?,
            };
            stream.set_first_id(next.unwrap_or(StreamId::MIN));
        }
        Ok(removed)
    }
}

/// Returns at most `limit` IDs of the oldest entries before `end`.
fn oldest(
    view: &mut View<'_>,
    stream: &Stream,
    added: Option<StreamId>,
    limit: u64,
    end: Option<StreamId>,
) -> CommandResult<Vec<StreamId>> {
    let is_inside = |id: StreamId| end.is_none_or(|end| id < end);
    let mut scan = stream.entries(view, StreamId::MIN, StreamId::MAX, false)?;
    let mut ids = Vec::new();
    while (ids.len() as u64) < limit
        && let Some((id, _)) = scan.next()?
        && is_inside(id)
    {
        check_bytes(ids.len() * 4 * StreamId::LEN)?;
        ids.push(id);
    }
    // A command sees its own entry only within EXEC.
    if let Some(added) = added
        && ids.last().is_none_or(|last| *last < added)
        && (ids.len() as u64) < limit
        && is_inside(added)
    {
        ids.push(added);
    }
    Ok(ids)
}

/// Returns the first entry after `id`.
fn after(
    view: &mut View<'_>,
    stream: &Stream,
    added: Option<StreamId>,
    id: Option<StreamId>,
) -> CommandResult<Option<StreamId>> {
    let Some(begin) = id.and_then(StreamId::next).filter(|_| stream.len() > 0) else { return Ok(None) };
    let found = stream.entries(view, begin, StreamId::MAX, false)?.next()?.map(|(id, _)| id);
    Ok(found.or(added))
}
