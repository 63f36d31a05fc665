//! GEOSEARCH and its older forms.

use super::distance::format_distance;
use super::query::reply_position;
use super::shape::{Area, Shape};
use super::{Position, SortedSet, parse_position, parse_unit, position_of, position_of_score};
use crate::command::sorted_set::{ScoreRange, Scored, check_bytes, parse_score, store_members};
use crate::command::{Args, Call};
use crate::failure::{CommandResult, Failure};

/// Form of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// GEOSEARCH.
    Search,
    /// GEOSEARCHSTORE.
    SearchStore,
    /// GEORADIUS and GEORADIUSBYMEMBER.
    Radius,
    /// GEORADIUS_RO and GEORADIUSBYMEMBER_RO.
    ReadOnlyRadius,
}

impl Form {
    fn is_search(self) -> bool {
        matches!(self, Form::Search | Form::SearchStore)
    }
}

/// Order of the results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SortOrder {
    Ascending,
    Descending,
}

/// Arguments of a search.
#[derive(Debug, Default)]
struct Options<'a> {
    center: Option<Center>,
    /// True if FROMLONLAT states the centre.
    is_from_position: bool,
    shape: Option<Shape>,
    /// Length of the unit, in metres.
    unit: f64,
    order: Option<SortOrder>,
    count: Option<u64>,
    is_any: bool,
    shows_distance: bool,
    shows_hash: bool,
    shows_position: bool,
    destination: Option<&'a [u8]>,
    stores_distance: bool,
    /// Event of a stored result.
    event: &'static str,
}

/// Centre of a search.
#[derive(Debug, Clone, Copy)]
enum Center {
    At(Position),
    /// The key does not exist, so that its member is unknown.
    Unknown,
}

/// Member in the area.
struct Found {
    member: Vec<u8>,
    score: f64,
    /// Distance from the centre, in metres.
    distance: f64,
}

/// GEOSEARCH key FROMMEMBER member | FROMLONLAT longitude latitude BYRADIUS radius unit | BYBOX
/// width height unit [ASC | DESC] [COUNT count [ANY]] [WITHCOORD] [WITHDIST] [WITHHASH]
pub(in crate::command) fn geosearch(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    search(call, args, 1, 2, Form::Search)
}

/// GEOSEARCHSTORE destination source .. [STOREDIST], the rest like GEOSEARCH
pub(in crate::command) fn geosearchstore(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    search(call, args, 2, 3, Form::SearchStore)
}

/// GEORADIUS key longitude latitude radius unit .. [STORE key | STOREDIST key]
pub(in crate::command) fn georadius(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    search(call, args, 1, 6, Form::Radius)
}

/// GEORADIUS_RO key longitude latitude radius unit ..
pub(in crate::command) fn georadius_ro(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    search(call, args, 1, 6, Form::ReadOnlyRadius)
}

/// GEORADIUSBYMEMBER key member radius unit .. [STORE key | STOREDIST key]
pub(in crate::command) fn georadiusbymember(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    search(call, args, 1, 5, Form::Radius)
}

/// GEORADIUSBYMEMBER_RO key member radius unit ..
pub(in crate::command) fn georadiusbymember_ro(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    search(call, args, 1, 5, Form::ReadOnlyRadius)
}

fn search(call: &mut Call<'_>, args: Args<'_>, key_at: usize, first: usize, form: Form) -> CommandResult {
    let set = SortedSet::open(&mut call.view, call.session.database, &args[key_at])?;
    let event = if form == Form::SearchStore { "geosearchstore" } else { "georadiusstore" };
    let mut options = Options { event, ..Options::default() };
    if form == Form::SearchStore {
        options.destination = Some(args.at(1));
    }
    if !form.is_search() {
        let center = match first {
            6 => Center::At(parse_position(args, 2)?),
            _ => member_center(call, set.as_ref(), &args[2])?,
        };
        options.center = Some(center);
        // Without the key, Redis does not look at the radius around a member.
        options.shape = Some(Shape::Circle { radius: 0.0 });
        if let Center::At(_) = center {
            options.set_circle(args, first - 2)?;
        }
    }
    parse_options(call, &mut options, args, first, set.as_ref(), form)?;
    check_options(&options, args, form)?;
    let (Some(set), Some(Center::At(center)), Some(shape)) = (&set, options.center, options.shape) else {
        return reply_nothing(call, &options);
    };
    let found = find(call, set, Area { center, shape }, &options)?;
    match options.destination {
        Some(destination) => store(call, destination, found, &options),
        None => {
            reply_found(call, &found, &options);
            Ok(())
        }
    }
}

fn reply_nothing(call: &mut Call<'_>, options: &Options<'_>) -> CommandResult {
    match options.destination {
        Some(destination) => {
            store_members(call, destination, &[], options.event)?;
            call.reply.integer(0);
        }
        None => call.reply.array(0),
    }
    Ok(())
}

fn member_center(call: &mut Call<'_>, set: Option<&SortedSet>, member: &[u8]) -> CommandResult<Center> {
    let Some(set) = set else { return Ok(Center::Unknown) };
    let position = position_of(call, set, member)?;
    position.map(Center::At).ok_or(Failure::reply("ERR could not decode requested zset member"))
}

impl Options<'_> {
    /// Parses a radius and its unit.
    fn set_circle(&mut self, args: Args<'_>, index: usize) -> CommandResult {
        let radius = parse_score(args.at(index)).ok_or(Failure::reply("ERR need numeric radius"))?;
        if radius < 0.0 {
            return Err(Failure::reply("ERR radius cannot be negative"));
        }
        self.unit = parse_unit(args, index + 1)?;
        self.shape = Some(Shape::Circle { radius: radius * self.unit });
        Ok(())
    }

    /// Parses a width, a height and their unit.
    fn set_box(&mut self, args: Args<'_>, index: usize) -> CommandResult {
        let width = parse_score(args.at(index)).ok_or(Failure::reply("ERR need numeric width"))?;
        let height = parse_score(args.at(index + 1)).ok_or(Failure::reply("ERR need numeric height"))?;
        if width < 0.0 || height < 0.0 {
            return Err(Failure::reply("ERR height or width cannot be negative"));
        }
        self.unit = parse_unit(args, index + 2)?;
        self.shape = Some(Shape::Box { width: width * self.unit, height: height * self.unit });
        Ok(())
    }
}

fn parse_options<'a>(
    call: &mut Call<'_>,
    options: &mut Options<'a>,
    args: Args<'a>,
    first: usize,
    set: Option<&SortedSet>,
    form: Form,
) -> CommandResult {
    let mut index = first;
    while index < args.len() {
        let left = args.len() - index - 1;
        if let Some(used) = parse_flag(options, args, index) {
            index += used;
        } else if args.is(index, "COUNT") && left > 0 {
            let count = args.integer(index + 1)?;
            let count = u64::try_from(count).ok().filter(|count| *count > 0);
            options.count = Some(count.ok_or(Failure::reply("ERR COUNT must be > 0"))?);
            index += 2;
        } else if form == Form::Radius && left > 0 && (args.is(index, "STORE") || args.is(index, "STOREDIST"))
        {
            options.stores_distance = args.is(index, "STOREDIST");
            options.destination = Some(args.at(index + 1));
            index += 2;
        } else if form == Form::SearchStore && args.is(index, "STOREDIST") {
            options.stores_distance = true;
            index += 1;
        } else if form.is_search() && left > 0 {
            index += parse_area(call, options, args, index, set)?;
        } else {
            return Err(Failure::SYNTAX);
        }
    }
    Ok(())
}

/// Parses an option without arguments. Returns the number of its words.
fn parse_flag(options: &mut Options<'_>, args: Args<'_>, index: usize) -> Option<usize> {
    match args.at(index).to_ascii_uppercase().as_slice() {
        b"WITHDIST" => options.shows_distance = true,
        b"WITHHASH" => options.shows_hash = true,
        b"WITHCOORD" => options.shows_position = true,
        b"ANY" => options.is_any = true,
        b"ASC" => options.order = Some(SortOrder::Ascending),
        b"DESC" => options.order = Some(SortOrder::Descending),
        _ => return None,
    }
    Some(1)
}

/// Parses the centre or the shape of GEOSEARCH. Returns the number of words. As in Redis, the last
/// of several equal options counts.
fn parse_area(
    call: &mut Call<'_>,
    options: &mut Options<'_>,
    args: Args<'_>,
    index: usize,
    set: Option<&SortedSet>,
) -> CommandResult<usize> {
    let left = args.len() - index - 1;
    let word = args.at(index).to_ascii_uppercase();
    let is_from_member = options.center.is_some() && !options.is_from_position;
    match word.as_slice() {
        b"FROMMEMBER" if !options.is_from_position => {
            options.center = Some(member_center(call, set, args.at(index + 1))?);
            Ok(2)
        }
        b"FROMLONLAT" if !is_from_member && left >= 2 => {
            options.is_from_position = true;
            options.center = Some(Center::At(parse_position(args, index + 1)?));
            Ok(3)
        }
        b"BYRADIUS" if !matches!(options.shape, Some(Shape::Box { .. })) && left >= 2 => {
            options.set_circle(args, index + 1)?;
            Ok(3)
        }
        b"BYBOX" if !matches!(options.shape, Some(Shape::Circle { .. })) && left >= 3 => {
            options.set_box(args, index + 1)?;
            Ok(4)
        }
        _ => Err(Failure::SYNTAX),
    }
}

fn check_options(options: &Options<'_>, args: Args<'_>, form: Form) -> CommandResult {
    if options.destination.is_some()
        && (options.shows_distance || options.shows_hash || options.shows_position)
    {
        let what = if form.is_search() { "GEOSEARCHSTORE" } else { "STORE option in GEORADIUS" };
        return Err(Failure::reply(format!(
            "ERR {what} is not compatible with WITHDIST, WITHHASH and WITHCOORD options"
        )));
    }
    let name = String::from_utf8_lossy(args.at(0));
    if options.center.is_none() {
        return Err(Failure::reply(format!(
            "ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for {name}"
        )));
    }
    if options.shape.is_none() {
        return Err(Failure::reply(format!(
            "ERR exactly one of BYRADIUS and BYBOX can be specified for {name}"
        )));
    }
    if options.is_any && options.count.is_none() {
        return Err(Failure::reply("ERR the ANY argument requires COUNT argument"));
    }
    Ok(())
}

/// Returns the members in the area, in the order of the reply.
fn find(
    call: &mut Call<'_>,
    set: &SortedSet,
    area: Area,
    options: &Options<'_>,
) -> CommandResult<Vec<Found>> {
    let limit = options.count.filter(|_| options.is_any).unwrap_or(u64::MAX);
    let mut found = Vec::new();
    let mut bytes = 0;
    for cell in area.cells() {
        let (begin, end) = cell.scores();
        let range =
            ScoreRange { min: begin as f64, max: end as f64, is_min_excluded: false, is_max_excluded: true };
        let mut scan = range.scan(&mut call.view, set, false)?;
        while (found.len() as u64) < limit {
            let Some((score, member)) = scan.next()? else { break };
            if let Some(distance) = area.distance(position_of_score(score)) {
                bytes += member.len() + size_of::<Found>();
                check_bytes(bytes)?;
                found.push(Found { member: member.to_vec(), score, distance });
            }
        }
    }
    // The nearest members, unless any members are enough.
    let needs_order = options.count.is_some() && !options.is_any;
    match options.order.or(needs_order.then_some(SortOrder::Ascending)) {
        Some(SortOrder::Ascending) => found.sort_by(|a, b| a.distance.total_cmp(&b.distance)),
        Some(SortOrder::Descending) => found.sort_by(|a, b| b.distance.total_cmp(&a.distance)),
        None => {}
    }
    found.truncate(options.count.map_or(usize::MAX, |count| count as usize));
    Ok(found)
}

fn store(call: &mut Call<'_>, destination: &[u8], found: Vec<Found>, options: &Options<'_>) -> CommandResult {
    let count = found.len();
    let score = |found: &Found| {
        if options.stores_distance { found.distance / options.unit } else { found.score }
    };
    let members: Vec<Scored> = found
        .into_iter()
        .map(|found| {
            let score = score(&found);
            (found.member, score)
        })
        .collect();
    store_members(call, destination, &members, options.event)?;
    call.reply.count(count);
    Ok(())
}

fn reply_found(call: &mut Call<'_>, found: &[Found], options: &Options<'_>) {
    let details = [options.shows_distance, options.shows_hash, options.shows_position];
    let details = details.into_iter().filter(|is_shown| *is_shown).count();
    let reply = &mut *call.reply;
    reply.array(found.len());
    for found in found {
        if details > 0 {
            reply.array(1 + details);
        }
        reply.bulk(&found.member);
        if options.shows_distance {
            reply.bulk(format_distance(found.distance / options.unit));
        }
        if options.shows_hash {
            reply.integer(found.score as i64);
        }
        if options.shows_position {
            reply_position(reply, position_of_score(found.score));
        }
    }
}
