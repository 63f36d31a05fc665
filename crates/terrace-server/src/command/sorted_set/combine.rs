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
    SortedSet(SortedSet),
    /// The score of each member is 1.
    Set(Object),
    Missing,
}

impl Input {
    fn open(view: &mut View<'_>, database: u8, key: &[u8]) -> CommandResult<Input> {
        let Some(entry) = view.get(database, key)? else { return Ok(Input::Missing) };
        Ok(match entry.header.value_type {
            ValueType::Set => match view.open_object(database, key, ValueType::Set)? {
                Some(object) => Input::Set(object),
                None => Input::Missing,
            },
            _ => match SortedSet::open(view, database, key)? {
                Some(set) => Input::SortedSet(set),
                None => Input::Missing,
            },
        })
    }

    fn len(&self) -> u64 {
        match self {
            Input::SortedSet(set) => set.len(),
            Input::Set(object) => object.count,
            Input::Missing => 0,
        }
    }

    /// Returns the score of `member`.
    fn score(&self, view: &mut View<'_>, member: &[u8]) -> CommandResult<Option<f64>> {
        Ok(match self {
            Input::SortedSet(set) => set.score(view, member)?,
            Input::Set(object) => view.has_member(object, member)?.then_some(1.0),
            Input::Missing => None,
        })
    }

    /// Returns all members with their scores.
    fn members(&self, view: &mut View<'_>) -> CommandResult<Vec<Scored>> {
        match self {
            Input::SortedSet(set) => set.scan(view, false)?.take(u64::MAX),
            Input::Set(object) => {
                let mut scan = view.members(object, &MemberRange::all())?;
                let mut members = Vec::new();
                let mut bytes = 0;
                while let Some((member, _)) = scan.next()? {
                    bytes += member.len() + size_of::<Scored>();
                    check_bytes(bytes)?;
                    members.push((member.to_vec(), 1.0));
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
struct Combination {
    /// Inputs with their weights.
    inputs: Vec<(Input, f64)>,
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
    let mut combination = parse(call, args, 1, operation, Output::Members, name)?;
    let members = combine(call, &mut combination, operation)?;
    reply_members(call.reply, &members, combination.scores);
    Ok(())
}

/// ZINTERCARD numkeys key .. [LIMIT limit]
pub(in crate::command) fn zintercard(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let mut combination = parse(call, args, 1, Operation::Intersection, Output::Count, "zintercard")?;
    let members = combine(call, &mut combination, Operation::Intersection)?;
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

fn store_combined(
    call: &mut Call<'_>,
    args: Args<'_>,
    operation: Operation,
    name: &'static str,
) -> CommandResult {
    let mut combination = parse(call, args, 2, operation, Output::Stored, name)?;
    let members = combine(call, &mut combination, operation)?;
    store_members(call, &args[1], &members, name)?;
    call.reply.count(members.len());
    Ok(())
}

fn parse(
    call: &mut Call<'_>,
    args: Args<'_>,
    count_at: usize,
    operation: Operation,
    output: Output,
    name: &str,
) -> CommandResult<Combination> {
    let count = args.integer(count_at)?;
    let count = usize::try_from(count).ok().filter(|count| *count > 0);
    let count = count
        .ok_or_else(|| Failure::reply(format!("ERR at least 1 input key is needed for '{name}' command")))?;
    if count > args.len() - count_at - 1 {
        return Err(Failure::SYNTAX);
    }
    call.view.pin_state();
    let database = call.session.database;
    let mut inputs = Vec::with_capacity(count);
    for key in args.from(count_at + 1).take(count) {
        inputs.push((Input::open(&mut call.view, database, key)?, 1.0));
    }
    let mut combination =
        Combination { inputs, aggregate: Aggregate::Sum, scores: Scores::Hidden, limit: u64::MAX };
    parse_options(&mut combination, args, count_at + 1 + count, operation, output)?;
    Ok(combination)
}

fn parse_options(
    combination: &mut Combination,
    args: Args<'_>,
    mut index: usize,
    operation: Operation,
    output: Output,
) -> CommandResult {
    let count = combination.inputs.len();
    let has_weights = output != Output::Count && operation != Operation::Difference;
    while index < args.len() {
        let left = args.len() - index;
        if has_weights && left > count && args.is(index, "WEIGHTS") {
            for ((_, weight), text) in combination.inputs.iter_mut().zip(args.from(index + 1)) {
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
    Ok(())
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
    combination: &mut Combination,
    operation: Operation,
) -> CommandResult<Vec<Scored>> {
    let read = combination.inputs.iter().map(|(input, _)| input.len()).fold(0, u64::saturating_add);
    call.check_members_on_worker(read)?;
    let mut members = match operation {
        Operation::Union => union(&mut call.view, combination)?,
        Operation::Intersection => intersection(&mut call.view, combination)?,
        Operation::Difference => difference(&mut call.view, &combination.inputs)?,
    };
    members.sort_unstable_by(|(a, a_score), (b, b_score)| {
        (a_score + 0.0).total_cmp(&(b_score + 0.0)).then_with(|| a.cmp(b))
    });
    Ok(members)
}

fn union(view: &mut View<'_>, combination: &mut Combination) -> CommandResult<Vec<Scored>> {
    let aggregate = combination.aggregate;
    combination.inputs.sort_by_key(|(input, _)| input.len());
    let mut scores: HashMap<Vec<u8>, f64> = HashMap::new();
    let mut bytes = 0;
    for (input, weight) in &combination.inputs {
        for (member, score) in input.members(view)? {
            let score = weighted(score, *weight);
            bytes += member.len() + size_of::<Scored>();
            check_bytes(bytes)?;
            scores.entry(member).and_modify(|old| *old = aggregate.apply(*old, score)).or_insert(score);
        }
    }
    Ok(scores.into_iter().collect())
}

fn intersection(view: &mut View<'_>, combination: &mut Combination) -> CommandResult<Vec<Scored>> {
    let aggregate = combination.aggregate;
    combination.inputs.sort_by_key(|(input, _)| input.len());
    let Some(((smallest, weight), others)) = combination.inputs.split_first() else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for (member, score) in smallest.members(view)? {
        let mut combined = Some(weighted(score, *weight));
        for (other, weight) in others {
            // A product that is no number reaches the sum, which is zero then, as in Redis.
            let score = other.score(view, &member)?.map(|score| score * weight);
            combined = combined.zip(score).map(|(first, second)| aggregate.apply(first, second));
            if combined.is_none() {
                break;
            }
        }
        found.extend(combined.map(|score| (member, score)));
        if found.len() as u64 >= combination.limit {
            break;
        }
    }
    Ok(found)
}

fn difference(view: &mut View<'_>, inputs: &[(Input, f64)]) -> CommandResult<Vec<Scored>> {
    let Some(((first, _), others)) = inputs.split_first() else { return Ok(Vec::new()) };
    let mut found = first.members(view)?;
    for (other, _) in others {
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
