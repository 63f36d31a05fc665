//! ZADD, ZINCRBY.

use super::{OwnScores, SortedSet, parse_score};
use crate::command::{Args, Call};
use crate::failure::{CommandResult, Failure};
use crate::store::{EventClass, View};

/// Options of ZADD.
#[derive(Debug, Default, Clone, Copy)]
pub(in crate::command) struct AddOptions {
    /// NX: stores new members only.
    pub(in crate::command) is_new_only: bool,
    /// XX: stores existing members only.
    pub(in crate::command) is_existing_only: bool,
    /// GT: replaces a score only by a larger one.
    is_larger_only: bool,
    /// LT: replaces a score only by a smaller one.
    is_smaller_only: bool,
    /// CH: counts changed members in the reply, too.
    pub(in crate::command) counts_changes: bool,
    /// INCR: adds the score to the old one.
    is_increment: bool,
}

/// Numbers of new and changed members.
#[derive(Debug, Default)]
struct Added {
    new: usize,
    changed: usize,
    /// Score after an increment, if the options permit it.
    score: Option<f64>,
}

/// ZADD key [NX | XX] [GT | LT] [CH] [INCR] score member ..
pub(in crate::command) fn zadd(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let (options, first) = parse_options(args);
    let rest = args.len() - first;
    if rest == 0 || rest % 2 == 1 {
        return Err(Failure::SYNTAX);
    }
    check_options(options, rest / 2)?;
    let mut members = Vec::with_capacity(rest / 2);
    for index in (first..args.len()).step_by(2) {
        members.push((args.at(index + 1), number(args.at(index))?));
    }
    add_scores(call, &args[1], options, &members)
}

/// ZINCRBY key increment member
pub(in crate::command) fn zincrby(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let options = AddOptions { is_increment: true, ..AddOptions::default() };
    // Redis parses options of ZADD here, too, and then misses the increment.
    if parse_options(args).1 > 2 {
        return Err(Failure::SYNTAX);
    }
    let increment = number(args.at(2))?;
    add_scores(call, &args[1], options, &[(args.at(3), increment)])
}

fn number(text: &[u8]) -> CommandResult<f64> {
    parse_score(text).ok_or(Failure::reply("ERR value is not a valid float"))
}

/// Returns the options and the position of the first score.
fn parse_options(args: Args<'_>) -> (AddOptions, usize) {
    let mut options = AddOptions::default();
    let mut index = 2;
    while index < args.len() {
        let mut word = [0; 4];
        let Some(word) = word.get_mut(..args.at(index).len()) else { break };
        word.copy_from_slice(args.at(index));
        word.make_ascii_uppercase();
        let option = match &*word {
            b"NX" => &mut options.is_new_only,
            b"XX" => &mut options.is_existing_only,
            b"GT" => &mut options.is_larger_only,
            b"LT" => &mut options.is_smaller_only,
            b"CH" => &mut options.counts_changes,
            b"INCR" => &mut options.is_increment,
            _ => break,
        };
        *option = true;
        index += 1;
    }
    (options, index)
}

fn check_options(options: AddOptions, members: usize) -> CommandResult {
    let AddOptions { is_new_only, is_existing_only, is_larger_only, is_smaller_only, .. } = options;
    if is_new_only && is_existing_only {
        return Err(Failure::reply("ERR XX and NX options at the same time are not compatible"));
    }
    if u8::from(is_new_only) + u8::from(is_larger_only) + u8::from(is_smaller_only) > 1 {
        return Err(Failure::reply("ERR GT, LT, and/or NX options at the same time are not compatible"));
    }
    if options.is_increment && members > 1 {
        return Err(Failure::reply("ERR INCR option supports a single increment-element pair"));
    }
    Ok(())
}

/// Adds `members` to the sorted set at `key`, and appends the reply of ZADD.
pub(in crate::command) fn add_scores(
    call: &mut Call<'_>,
    key: &[u8],
    options: AddOptions,
    members: &[(&[u8], f64)],
) -> CommandResult {
    let added = add_members(&mut call.view, call.session.database, key, options, members)?;
    if options.is_increment {
        match added.score {
            Some(score) => call.reply.double(score),
            None => call.reply.null(),
        }
    } else {
        call.reply.count(added.new + if options.counts_changes { added.changed } else { 0 });
    }
    Ok(())
}

fn add_members(
    view: &mut View<'_>,
    database: u8,
    key: &[u8],
    options: AddOptions,
    members: &[(&[u8], f64)],
) -> CommandResult<Added> {
    let mut added = Added::default();
    let mut set = if options.is_existing_only {
        let Some(set) = SortedSet::open(view, database, key)? else { return Ok(added) };
        set
    } else {
        SortedSet::open_or_create(view, database, key)?
    };
    let mut own = OwnScores::default();
    let before = (set.object.count, set.object.is_large);
    for (member, score) in members {
        let old = own.score(view, &set, member)?;
        let Some(score) = new_score(options, old, *score)? else { continue };
        added.score = Some(score);
        if old == Some(score) {
            continue;
        }
        set.insert(view, member, old, score)?;
        own.note(member, Some(score), members.len() == 1);
        match old {
            Some(_) => added.changed += 1,
            None => added.new += 1,
        }
    }
    if before != (set.object.count, set.object.is_large) {
        set.save(view, database, key)?;
    } else if added.changed > 0 {
        view.note_changed(database, key)?;
    }
    if added.new + added.changed > 0 {
        let event = if options.is_increment { "zincr" } else { "zadd" };
        view.notify(database, EventClass::SORTED_SET, event, key);
    }
    Ok(added)
}

/// Returns the score that a member gets, or None if the options do not permit the change.
fn new_score(options: AddOptions, old: Option<f64>, score: f64) -> CommandResult<Option<f64>> {
    let Some(old) = old else { return Ok(Some(score).filter(|_| !options.is_existing_only)) };
    if options.is_new_only {
        return Ok(None);
    }
    let score = if options.is_increment { old + score } else { score };
    if score.is_nan() {
        return Err(Failure::reply("ERR resulting score is not a number (NaN)"));
    }
    let is_refused = (options.is_larger_only && score <= old) || (options.is_smaller_only && score >= old);
    Ok((!is_refused).then_some(score))
}
