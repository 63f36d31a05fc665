//! SORT: the elements of a set, list or sorted set in another order.
//!
//! ```text
//!   SORT key BY weight_* GET # GET object_*->name
//!                   |             |
//!                   |             field `name` of the hash `object_<element>`
//!                   string `weight_<element>`
//! ```

use std::cmp::Ordering;

use super::elements::{elements, new_list};
use super::{Args, Call};
use crate::failure::{CommandResult, Failure};
use crate::resp::parse_double;
use crate::store::{EventClass, Replaced, ValueType};

/// Options of SORT.
struct SortOptions<'a> {
    by: Option<&'a [u8]>,
    gets: Vec<&'a [u8]>,
    /// Offset and number of the elements. Negative numbers stand for all.
    limit: Option<(i64, i64)>,
    is_descending: bool,
    is_alpha: bool,
    destination: Option<&'a [u8]>,
}

impl<'a> SortOptions<'a> {
    fn parse(args: Args<'a>, may_store: bool) -> CommandResult<SortOptions<'a>> {
        let mut options = SortOptions {
            by: None,
            gets: Vec::new(),
            limit: None,
            is_descending: false,
            is_alpha: false,
            destination: None,
        };
        let mut index = 2;
        while index < args.len() {
            let left = args.len() - index - 1;
            let used = if args.is(index, "ASC") {
                options.is_descending = false;
                0
            } else if args.is(index, "DESC") {
                options.is_descending = true;
                0
            } else if args.is(index, "ALPHA") {
                options.is_alpha = true;
                0
            } else if args.is(index, "LIMIT") && left >= 2 {
                options.limit = Some((args.integer(index + 1)?, args.integer(index + 2)?));
                2
            } else if args.is(index, "STORE") && left >= 1 && may_store {
                options.destination = args.get(index + 1);
                1
            } else if args.is(index, "BY") && left >= 1 {
                options.by = args.get(index + 1);
                1
            } else if args.is(index, "GET") && left >= 1 {
                options.gets.push(args.at(index + 1));
                1
            } else {
                return Err(Failure::SYNTAX);
            };
            index += 1 + used;
        }
        Ok(options)
    }

    /// True if the elements keep their order.
    fn keeps_order(&self) -> bool {
        self.by.is_some_and(|pattern| !pattern.contains(&b'*'))
    }

    /// Returns the range of the elements that the limit leaves.
    fn range(&self, len: usize) -> std::ops::Range<usize> {
        let Some((offset, count)) = self.limit else { return 0..len };
        let begin = usize::try_from(offset.max(0)).unwrap_or(usize::MAX).min(len);
        let end = match usize::try_from(count) {
            Ok(count) => begin.saturating_add(count).min(len),
            Err(_) => len,
        };
        begin..end
    }
}

/// SORT key [BY pattern] [LIMIT offset count] [GET pattern ..] [ASC | DESC] [ALPHA] [STORE key]
pub(super) fn sort(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let options = SortOptions::parse(args, true)?;
    sort_key(call, args, options)
}

/// SORT_RO key [BY pattern] [LIMIT offset count] [GET pattern ..] [ASC | DESC] [ALPHA]
pub(super) fn sort_ro(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let options = SortOptions::parse(args, false)?;
    call.view.pin_state();
    sort_key(call, args, options)
}

fn sort_key(call: &mut Call<'_>, args: Args<'_>, mut options: SortOptions<'_>) -> CommandResult {
    let found = sorted_elements(call, &args[1], &mut options)?;
    let mut values = Vec::with_capacity(found.len() * options.gets.len().max(1));
    for element in found {
        for pattern in &options.gets {
            values.push(value_by_pattern(call, pattern, &element)?);
        }
        if options.gets.is_empty() {
            values.push(Some(element));
        }
    }
    match options.destination {
        Some(destination) => store(call, destination, &values),
        None => {
            call.reply.array(values.len());
            values.iter().for_each(|value| call.reply.optional_bulk(value.as_deref()));
            Ok(())
        }
    }
}

/// Stores the values as a list. A missing value becomes an empty element.
fn store(call: &mut Call<'_>, destination: &[u8], values: &[Option<Vec<u8>>]) -> CommandResult {
    let replaced = call.get(destination)?;
    if !values.is_empty() || replaced.is_some() {
        let list = new_list(call, values.iter().map(|value| value.as_deref().unwrap_or_default()))?;
        let database = call.session.database;
        call.view.replace_with_object(database, destination, &list, Replaced::Read(replaced.as_ref()))?;
        call.notify_stored(EventClass::LIST, "sortstore", destination, values.is_empty());
    }
    call.reply.count(values.len());
    Ok(())
}

/// Returns the elements that the command replies, in order.
fn sorted_elements(
    call: &mut Call<'_>,
    key: &[u8],
    options: &mut SortOptions<'_>,
) -> CommandResult<Vec<Vec<u8>>> {
    let Some(entry) = call.get(key)? else { return Ok(Vec::new()) };
    let value_type = entry.header.value_type;
    if !matches!(value_type, ValueType::Set | ValueType::List | ValueType::SortedSet) {
        return Err(Failure::WRONG_TYPE);
    }
    let mut found = match call.open(key, value_type)? {
        Some(object) => elements(call, &object)?,
        None => Vec::new(),
    };
    if options.keeps_order() {
        // A set has no order of its own that a stored list could keep.
        if value_type == ValueType::Set && options.destination.is_some() {
            options.is_alpha = true;
            options.by = None;
        } else {
            if value_type != ValueType::Set && options.is_descending {
                found.reverse();
            }
            let range = options.range(found.len());
            return Ok(found.drain(range).collect());
        }
    }
    let mut found = sort_elements(call, found, options)?;
    let range = options.range(found.len());
    Ok(found.drain(range).collect())
}

fn sort_elements(
    call: &mut Call<'_>,
    found: Vec<Vec<u8>>,
    options: &SortOptions<'_>,
) -> CommandResult<Vec<Vec<u8>>> {
    if options.is_alpha {
        let mut keyed = Vec::with_capacity(found.len());
        for element in found {
            let key = match options.by {
                Some(pattern) => value_by_pattern(call, pattern, &element)?,
                None => Some(element.clone()),
            };
            keyed.push((key, element));
        }
        keyed.sort_by(|(a, _), (b, _)| directed(a.cmp(b), options));
        return Ok(keyed.into_iter().map(|(_, element)| element).collect());
    }
    let mut scored = Vec::with_capacity(found.len());
    for element in found {
        let score = match options.by {
            Some(pattern) => value_by_pattern(call, pattern, &element)?.map(|value| score(&value)),
            None => Some(score(&element)),
        };
        scored.push((score.unwrap_or(Ok(0.0))?, element));
    }
    scored.sort_by(|(a, first), (b, second)| {
        let order = a.partial_cmp(b).unwrap_or(Ordering::Equal);
        directed(order.then_with(|| first.cmp(second)), options)
    });
    Ok(scored.into_iter().map(|(_, element)| element).collect())
}

fn directed(order: Ordering, options: &SortOptions<'_>) -> Ordering {
    if options.is_descending { order.reverse() } else { order }
}

/// Number by which an element is sorted, up to the first zero byte and without spaces before it. No
/// text stands for 0.
fn score(text: &[u8]) -> CommandResult<f64> {
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    let has_number = !text.trim_ascii().is_empty();
    let text = if has_number { text.trim_ascii_start() } else { text };
    if text.is_empty() {
        return Ok(0.0);
    }
    parse_double(text).ok_or(Failure::reply("ERR One or more scores can't be converted into double"))
}

/// Returns the value that `pattern` names for `element`: the element itself, a string, or a field.
fn value_by_pattern(call: &mut Call<'_>, pattern: &[u8], element: &[u8]) -> CommandResult<Option<Vec<u8>>> {
    if pattern == b"#" {
        return Ok(Some(element.to_vec()));
    }
    let Some(star) = memchr::memchr(b'*', pattern) else { return Ok(None) };
    let after = &pattern[star + 1..];
    let arrow = memchr::memmem::find(after, b"->").filter(|at| at + 2 < after.len());
    let key = [&pattern[..star], element, &after[..arrow.unwrap_or(after.len())]].concat();
    let Some(entry) = call.get(&key)? else { return Ok(None) };
    match (arrow, entry.header.value_type) {
        (None, ValueType::String) => Ok(Some(entry.value().to_vec())),
        (Some(arrow), ValueType::Hash) => {
            let Some(hash) = call.open(&key, ValueType::Hash)? else { return Ok(None) };
            Ok(call.view.member(&hash, &after[arrow + 2..])?.map(|value| value.to_vec()))
        }
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits() {
        let check = |limit, len, expected| {
            let options = SortOptions {
                by: None,
                gets: Vec::new(),
                limit: Some(limit),
                is_descending: false,
                is_alpha: false,
                destination: None,
            };
            assert_eq!(options.range(len), expected, "{limit:?}");
        };
        check((0, 2), 5, 0..2);
        check((3, 9), 5, 3..5);
        check((-3, 1), 5, 0..1);
        check((2, -1), 5, 2..5);
        check((9, 1), 5, 5..5);
        check((1, i64::MAX), 5, 1..5);
    }
}
