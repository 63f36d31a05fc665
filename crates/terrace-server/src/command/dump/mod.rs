//! DUMP and RESTORE: values in the format of Redis' RDB files, version 10.
//!
//! ```text
//!   type:1  value  version:2  crc64:8        the numbers at the end are little-endian
//! ```
//!
//! DUMP writes the plain encodings, which every version of Redis reads. RESTORE reads the compact
//! ones, too.

mod compact;
mod crc64;
mod decode;
mod encode;
mod lzf;
mod stream;

use super::elements::{new_list, new_sorted_set, scored_members};
use super::members::all_members;
use super::stream::{new_stream, stream_value};
use super::{Args, Call, elements};
use crate::failure::{CommandResult, Failure};
use crate::resp::parse_i64;
use crate::store::{Entry, EventClass, Header, MemberRange, Object, Replaced, ValueType, damaged_record};
use decode::DumpedValue;
pub(super) use stream::{GroupValue, StreamValue};

/// Version of the format.
const VERSION: u16 = 10;
/// Size of version and checksum, in bytes.
const FOOTER_LEN: usize = 10;

/// DUMP key
pub(super) fn dump(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    call.view.pin_state();
    let Some(entry) = call.get(&args[1])? else {
        call.reply.null();
        return Ok(());
    };
    let mut payload = encode_entry(call, &args[1], &entry)?;
    payload.extend_from_slice(&VERSION.to_le_bytes());
    let crc = crc64::crc64(&payload);
    payload.extend_from_slice(&crc.to_le_bytes());
    call.reply.bulk(&payload);
    Ok(())
}

/// Returns the value of `entry` in Redis' format, without version and checksum.
pub(super) fn encode_entry(call: &mut Call<'_>, key: &[u8], entry: &Entry) -> CommandResult<Vec<u8>> {
    if entry.header.value_type == ValueType::String {
        return Ok(encode::string(entry.value()));
    }
    let object = entry.object().ok_or_else(|| damaged_record(key))?;
    Ok(match object.value_type {
        ValueType::Hash => encode::hash(&all_members(call, &object, &MemberRange::all())?),
        ValueType::Set => encode::set(&elements::elements(call, &object)?),
        ValueType::List => encode::list(&elements::elements(call, &object)?),
        ValueType::SortedSet => encode::sorted_set(&scored_members(call, &object)?),
        ValueType::Stream => encode::stream(&stream_value(call, &object)?),
        // A string is no object.
        ValueType::String => encode::string(entry.value()),
    })
}

/// Options of RESTORE.
#[derive(Default)]
struct RestoreOptions {
    may_replace: bool,
    is_absolute: bool,
}

impl RestoreOptions {
    fn parse(args: Args<'_>) -> CommandResult<RestoreOptions> {
        let mut options = RestoreOptions::default();
        let mut has_idle_time = false;
        let mut has_frequency = false;
        let mut index = 4;
        while index < args.len() {
            let has_value = index + 1 < args.len();
            if args.is(index, "REPLACE") {
                options.may_replace = true;
            } else if args.is(index, "ABSTTL") {
                options.is_absolute = true;
            } else if args.is(index, "IDLETIME") && has_value && !has_frequency {
                index += 1;
                has_idle_time = true;
                if args.integer(index)? < 0 {
                    return Err(Failure::reply("ERR Invalid IDLETIME value, must be >= 0"));
                }
            } else if args.is(index, "FREQ") && has_value && !has_idle_time {
                index += 1;
                has_frequency = true;
                if !(0..=255).contains(&args.integer(index)?) {
                    return Err(Failure::reply("ERR Invalid FREQ value, must be >= 0 and <= 255"));
                }
            } else {
                return Err(Failure::SYNTAX);
            }
            index += 1;
        }
        Ok(options)
    }
}

/// RESTORE key ttl payload [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]
pub(super) fn restore(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let options = RestoreOptions::parse(args)?;
    let replaced = call.get(&args[1])?;
    if replaced.is_some() && !options.may_replace {
        return Err(Failure::reply("BUSYKEY Target key name already exists."));
    }
    let ttl = parse_i64(&args[2]).ok_or(Failure::NOT_AN_INTEGER)?;
    let ttl = u64::try_from(ttl).map_err(|_| Failure::reply("ERR Invalid TTL value, must be >= 0"))?;
    let value = decode_payload(&args[3])?;
    let now = call.view.now_ms();
    let base = if options.is_absolute { 0 } else { now };
    let expires_at = (ttl > 0).then(|| base.saturating_add(ttl));
    let replaced = Replaced::Read(replaced.as_ref());
    if expires_at.is_some_and(|at| at <= now) {
        call.view.delete(call.session.database, &args[1], replaced)?;
    } else {
        put_value(call, &args[1], value, expires_at, replaced)?;
        call.notify(EventClass::GENERIC, "restore", &args[1]);
    }
    call.reply.ok();
    Ok(())
}

fn decode_payload(payload: &[u8]) -> CommandResult<DumpedValue> {
    let invalid = || Failure::reply("ERR DUMP payload version or checksum are wrong");
    let body_len = payload.len().checked_sub(FOOTER_LEN).ok_or_else(invalid)?;
    let (checked, crc) = payload.split_at(body_len + size_of::<u16>());
    let (body, version) = checked.split_at(body_len);
    let is_known = version.try_into().is_ok_and(|version| u16::from_le_bytes(version) <= VERSION);
    if !is_known || crc != crc64::crc64(checked).to_le_bytes() {
        return Err(invalid());
    }
    decode::value(body).ok_or(Failure::reply("ERR Bad data format"))
}

fn put_value(
    call: &mut Call<'_>,
    key: &[u8],
    value: DumpedValue,
    expires_at: Option<u64>,
    replaced: Replaced<'_>,
) -> CommandResult {
    let database = call.session.database;
    let mut object: Object = match value {
        DumpedValue::String(value) => {
            return call.view.put(database, key, &Header::string(expires_at), &value, replaced);
        }
        DumpedValue::List(elements) => new_list(call, elements.iter().map(Vec::as_slice))?,
        DumpedValue::SortedSet(members) => new_sorted_set(call, &members)?,
        DumpedValue::Set(members) => {
            let mut set = call.view.create_object(ValueType::Set)?;
            for member in &members {
                super::sets::put_member(call, &mut set, member)?;
            }
            set
        }
        DumpedValue::Stream(value) => new_stream(call, &value)?,
        DumpedValue::Hash(fields) => {
            let mut hash = call.view.create_object(ValueType::Hash)?;
            for (field, value) in &fields {
                super::hashes::put_field(call, &mut hash, field, value, true)?;
            }
            hash
        }
    };
    object.expires_at = expires_at;
    call.view.replace_with_object(database, key, &object, replaced)
}
