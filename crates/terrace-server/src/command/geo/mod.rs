//! Positions on the earth: members of sorted sets whose scores are geohashes of 52 bits.

mod cell;
mod distance;
mod query;
mod search;
mod shape;

use super::sorted_set::{AddOptions, SortedSet, add_scores, parse_score};
use super::{Args, Call};
use crate::failure::{CommandResult, Failure};

use cell::{MAX_LATITUDE, MAX_LONGITUDE, decode, encode};

pub(super) use query::{geodist, geohash, geopos};
pub(super) use search::{
    georadius, georadius_ro, georadiusbymember, georadiusbymember_ro, geosearch, geosearchstore,
};

/// Position in degrees.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Position {
    longitude: f64,
    latitude: f64,
}

/// Returns the position at the arguments `index` and `index + 1`.
fn parse_position(args: Args<'_>, index: usize) -> CommandResult<Position> {
    let number = |index| parse_score(args.at(index)).ok_or(Failure::reply("ERR value is not a valid float"));
    let longitude = number(index)?;
    let latitude = number(index + 1)?;
    if longitude.abs() <= MAX_LONGITUDE && latitude.abs() <= MAX_LATITUDE {
        return Ok(Position { longitude, latitude });
    }
    Err(Failure::reply(format!("ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}")))
}

/// Returns the length of the unit at argument `index`, in metres.
fn parse_unit(args: Args<'_>, index: usize) -> CommandResult<f64> {
    match args.at(index).to_ascii_lowercase().as_slice() {
        b"m" => Ok(1.0),
        b"km" => Ok(1000.0),
        b"ft" => Ok(0.3048),
        b"mi" => Ok(1609.34),
        _ => Err(Failure::reply("ERR unsupported unit provided. please use M, KM, FT, MI")),
    }
}

/// Returns the position of `member`.
fn position_of(call: &mut Call<'_>, set: &SortedSet, member: &[u8]) -> CommandResult<Option<Position>> {
    Ok(set.score(&mut call.view, member)?.map(position_of_score))
}

fn position_of_score(score: f64) -> Position {
    // A score that is no geohash becomes the nearest one.
    decode(score as u64)
}

/// GEOADD key [NX | XX] [CH] longitude latitude member ..
pub(super) fn geoadd(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let mut options = AddOptions::default();
    let mut first = 2;
    while first < args.len() {
        let option = match args.at(first).to_ascii_uppercase().as_slice() {
            b"NX" => &mut options.is_new_only,
            b"XX" => &mut options.is_existing_only,
            b"CH" => &mut options.counts_changes,
            _ => break,
        };
        *option = true;
        first += 1;
    }
    let rest = args.len() - first;
    if rest == 0 || !rest.is_multiple_of(3) || (options.is_new_only && options.is_existing_only) {
        return Err(Failure::SYNTAX);
    }
    let mut members = Vec::with_capacity(rest / 3);
    for index in (first..args.len()).step_by(3) {
        let position = parse_position(args, index)?;
        members.push((args.at(index + 2), encode(position) as f64));
    }
    add_scores(call, &args[1], options, &members)
}
