//! Unions, intersections and differences, of sorted sets and of sets.

use std::collections::HashMap;

use super::{Scored, Scores, SortedSet, check_bytes, parse_score, reply_members, store_members};
use crate::command::{Args, Call};
use crate::failure::{CommandResult, Failure};
use crate::store::{MemberRange, Object, ValueType, View};

/// Operation of several sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Union,
    Intersection,
    Difference,
}

/// Combination of the scores of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Aggregate {
    Sum,
    Min,
    Max,
}

impl Aggregate {
    fn apply(self, first: f64, second: f64) -> f64 {
        match self {
            // The sum of both infinities is zero, as in Redis.
            Aggregate::Sum => Some(first + second).filter(|sum| !sum.is_nan()).unwrap_or(0.0),
            Aggregate::Min => first.min(second),
            Aggregate::Max => first.max(second),
        }
    }
}

/// Input of an operation.
#[derive(Debug)]
enum Input {
    SortedSet(SortedSet, f64),
    /// The score of each member is 1.
    Set(Object, f64),
    Missing,
}

impl Input {
    fn open(view: &mut View<'_>, database: u8, key: &[u8], weight: f64) -> CommandResult<Input> {
        let Some(entry) = view.get(database, key)? else { return Ok(Input::Missing) };
        Ok(match entry.header.value_type {
            ValueType::Set => match view.open_object(database, key, ValueType::Set)? {
                Some(object) => Input::Set(object, weight),
                None => Input::Missing,
            },
            _ => match SortedSet::open(view, database, key)? {
                Some(set) => Input::SortedSet(set, weight),
                None => Input::Missing,
            },
        })
    }

    fn len(&self) -> u64 {
        match self {
            Input::SortedSet(set, _) => set.len(),
            Input::Set(object, _) => object.count,
            Input::Missing => 0,
        }
    }

    /// Returns the weighted score of `member`.
    fn score(&self, view: &mut View<'_>, member: &[u8]) -> CommandResult<Option<f64>> {
        Ok(match self {
            Input::SortedSet(set, weight) => set.score(view, member)?.map(|score| weighted(score, *weight)),
            Input::Set(object, weight) => view.member(object, member)?.map(|_| *weight),
            Input::Missing => None,
        })
    }

    /// Returns all members with their weighted scores.
    fn members(&self, view: &mut View<'_>) -> CommandResult<Vec<Scored>> {
        match self {
            Input::SortedSet(set, weight) => {
                let mut members = set.scan(view, false)?.take(u64::MAX)?;
                for (_, score) in &mut members {
                    *score = weighted(*score, *weight);
                }
                Ok(members)
            }
            Input::Set(object, weight) => {
                let mut scan = view.members(object, &MemberRange::all())?;
                let mut members = Vec::new();
                let mut bytes = 0;
                while let Some((member, _)) = scan.next()? {
                    bytes += member.len() + size_of::<Scored>();
                    check_bytes(bytes)?;
                    members.push((member.to_vec(), *weight));
                }
                Ok(members)
            }
            Input::Missing => Ok(Vec::new()),
        }
    }
}

fn weighted(score: f64, weight: f64) -> f64 {
    Some(score * weight).filter(|score| !score.is_nan()).unwrap_or(0.0)
}

/// Parsed arguments of an operation.
#[derive(Debug)]
struct Combination<'a> {
    keys: Vec<&'a [u8]>,
    weights: Vec<f64>,
    aggregate: Aggregate,
    scores: Scores,
    limit: u64,
}

/// Form of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Output {
    Members,
    Stored,
    Count,
}

/// ZUNION numkeys key .. [WEIGHTS weight ..] [AGGREGATE SUM | MIN | MAX] [WITHSCORES]
pub(in crate::command) fn zunion(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    reply_combined(call, args, Operation::Union, "zunion")
}

/// ZINTER numkeys key .. [WEIGHTS weight ..] [AGGREGATE SUM | MIN | MAX] [WITHSCORES]
pub(in crate::command) fn zinter(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    reply_combined(call, args, Operation::Intersection, "zinter")
}

/// ZDIFF numkeys key .. [WITHSCORES]
pub(in crate::command) fn zdiff(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    reply_combined(call, args, Operation::Difference, "zdiff")
}

fn reply_combined(call: &mut Call<'_>, args: Args<'_>, operation: Operation, name: &str) -> CommandResult {
    let combination = parse(args, 1, operation, Output::Members, name)?;
    let members = combine(call, &combination, operation)?;
    reply_members(call.reply, &members, combination.scores);
    Ok(())
}

/// ZINTERCARD numkeys key .. [LIMIT limit]
pub(in crate::command) fn zintercard(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let combination = parse(args, 1, Operation::Intersection, Output::Count, "zintercard")?;
    let members = combine(call, &combination, Operation::Intersection)?;
    call.reply.count(members.len());
    Ok(())
}

/// ZUNIONSTORE destination numkeys key .. [WEIGHTS weight ..] [AGGREGATE SUM | MIN | MAX]
pub(in crate::command) fn zunionstore(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    store_combined(call, args, Operation::Union, "zunionstore")
}

/// ZINTERSTORE destination numkeys key .. [WEIGHTS weight ..] [AGGREGATE SUM | MIN | MAX]
pub(in crate::command) fn zinterstore(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    store_combined(call, args, Operation::Intersection, "zinterstore")
}

/// ZDIFFSTORE destination numkeys key ..
pub(in crate::command) fn zdiffstore(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    store_combined(call, args, Operation::Difference, "zdiffstore")
}

fn store_combined(call: &mut Call<'_>, args: Args<'_>, operation: Operation, name: &str) -> CommandResult {
    let combination = parse(args, 2, operation, Output::Stored, name)?;
    let members = combine(call, &combination, operation)?;
    store_members(call, &args[1], &members)?;
    call.reply.count(members.len());
    Ok(())
}

fn parse<'a>(
    args: Args<'a>,
    count_at: usize,
    operation: Operation,
    output: Output,
    name: &str,
) -> CommandResult<Combination<'a>> {
    let count = args.integer(count_at)?;
    let count = usize::try_from(count).ok().filter(|count| *count > 0);
    let count = count
        .ok_or_else(|| Failure::reply(format!("ERR at least 1 input key is needed for '{name}' command")))?;
    if count > args.len() - count_at - 1 {
        return Err(Failure::SYNTAX);
    }
    let keys: Vec<&[u8]> = args.from(count_at + 1).take(count).collect();
    let (aggregate, scores, limit) = (Aggregate::Sum, Scores::Hidden, u64::MAX);
    let mut combination = Combination { weights: vec![1.0; count], keys, aggregate, scores, limit };
    let has_weights = output != Output::Count && operation != Operation::Difference;
    let mut index = count_at + 1 + count;
    while index < args.len() {
        let left = args.len() - index;
        if has_weights && left > count && args.is(index, "WEIGHTS") {
            for (weight, text) in combination.weights.iter_mut().zip(args.from(index + 1)) {
                *weight = parse_score(text).ok_or(Failure::reply("ERR weight value is not a float"))?;
            }
            index += count;
        } else if has_weights && left > 1 && args.is(index, "AGGREGATE") {
            combination.aggregate = parse_aggregate(args, index + 1)?;
            index += 1;
        } else if output == Output::Members && args.is(index, "WITHSCORES") {
            combination.scores = Scores::Shown;
        } else if output == Output::Count && left > 1 && args.is(index, "LIMIT") {
            let limit = args.integer(index + 1).unwrap_or(-1);
            let limit = u64::try_from(limit).map_err(|_| Failure::reply("ERR LIMIT can't be negative"))?;
            combination.limit = if limit == 0 { u64::MAX } else { limit };
            index += 1;
        } else {
            return Err(Failure::SYNTAX);
        }
        index += 1;
    }
    Ok(combination)
}

fn parse_aggregate(args: Args<'_>, index: usize) -> CommandResult<Aggregate> {
    match args.at(index).to_ascii_uppercase().as_slice() {
        b"SUM" => Ok(Aggregate::Sum),
        b"MIN" => Ok(Aggregate::Min),
        b"MAX" => Ok(Aggregate::Max),
        _ => Err(Failure::SYNTAX),
    }
}

/// Returns the members of the result, by score.
fn combine(
    call: &mut Call<'_>,
    combination: &Combination<'_>,
    operation: Operation,
) -> CommandResult<Vec<Scored>> {
    call.view.pin_state();
    let database = call.session.database;
    let mut inputs = Vec::with_capacity(combination.keys.len());
    for (key, weight) in combination.keys.iter().zip(&combination.weights) {
        inputs.push(Input::open(&mut call.view, database, key, *weight)?);
    }
    let read = inputs.iter().map(Input::len).fold(0, u64::saturating_add);
    call.check_members_on_worker(read)?;
    let mut members = match operation {
        Operation::Union => union(&mut call.view, inputs, combination.aggregate)?,
        Operation::Intersection => intersection(&mut call.view, inputs, combination)?,
        Operation::Difference => difference(&mut call.view, &inputs)?,
    };
    members.sort_unstable_by(|(a, a_score), (b, b_score)| {
        (a_score + 0.0).total_cmp(&(b_score + 0.0)).then_with(|| a.cmp(b))
    });
    Ok(members)
}

fn union(view: &mut View<'_>, mut inputs: Vec<Input>, aggregate: Aggregate) -> CommandResult<Vec<Scored>> {
    inputs.sort_by_key(Input::len);
    let mut scores: HashMap<Vec<u8>, f64> = HashMap::new();
    let mut bytes = 0;
    for input in &inputs {
        for (member, score) in input.members(view)? {
            bytes += member.len() + size_of::<Scored>();
            check_bytes(bytes)?;
            scores.entry(member).and_modify(|old| *old = aggregate.apply(*old, score)).or_insert(score);
        }
    }
    Ok(scores.into_iter().collect())
}

fn intersection(
    view: &mut View<'_>,
    mut inputs: Vec<Input>,
    combination: &Combination<'_>,
) -> CommandResult<Vec<Scored>> {
    inputs.sort_by_key(Input::len);
    let Some((smallest, others)) = inputs.split_first() else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for (member, mut score) in smallest.members(view)? {
        let mut is_in_all = true;
        for other in others {
            match other.score(view, &member)? {
                Some(second) => score = combination.aggregate.apply(score, second),
                None => {
                    is_in_all = false;
                    break;
                }
            }
        }
        if is_in_all {
            found.push((member, score));
        }
        if found.len() as u64 >= combination.limit {
            break;
        }
    }
    Ok(found)
}

fn difference(view: &mut View<'_>, inputs: &[Input]) -> CommandResult<Vec<Scored>> {
    let Some((first, others)) = inputs.split_first() else { return Ok(Vec::new()) };
    let mut found = first.members(view)?;
    for other in others {
        let mut kept = Vec::with_capacity(found.len());
        for (member, score) in found {
            if other.score(view, &member)?.is_none() {
                kept.push((member, score));
            }
        }
        found = kept;
    }
    Ok(found)
}
