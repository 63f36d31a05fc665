//! DEBUG and its subcommands, which Redis' own test suite and the suites of clients call.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::dump::encode_entry;
use super::keys::encoding;
use super::subcommand::{Subcommand, dispatch};
use super::{Args, Call};
use crate::failure::{CommandResult, Failure};
use crate::resp::{Reply, parse_double};
use crate::script::sha1_hex;

/// DEBUG subcommand
pub(super) fn debug(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    if !call.shared.settings.fixed.is_debug_enabled {
        return Err(Failure::reply(
            "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it from a local connection, otherwise you need to set this option in the configuration file, and then restart the server.",
        ));
    }
    dispatch(call, args, "debug", DEBUG)
}

static DEBUG: &[Subcommand] = &[
    Subcommand { name: "change-repl-id", arity: 2, run: no_effect },
    Subcommand { name: "digest-value", arity: -2, run: digest_value },
    Subcommand { name: "error", arity: 3, run: error },
    Subcommand { name: "loadaof", arity: 2, run: no_effect },
    Subcommand { name: "log", arity: 3, run: no_effect },
    Subcommand { name: "object", arity: -3, run: object },
    Subcommand { name: "protocol", arity: 3, run: protocol },
    Subcommand { name: "quicklist-packed-threshold", arity: 3, run: no_effect },
    Subcommand { name: "reload", arity: -2, run: no_effect },
    Subcommand { name: "set-active-expire", arity: 3, run: set_active_expire },
    Subcommand { name: "set-disable-deny-scripts", arity: 3, run: set_debug_in_scripts },
    Subcommand { name: "sleep", arity: 3, run: sleep },
];

/// The database is on disk already, so a reload changes nothing. The other subcommands concern
/// structures of Redis that do not exist here.
fn no_effect(call: &mut Call<'_>, _args: Args<'_>) -> CommandResult {
    call.reply.ok();
    Ok(())
}

fn error(_call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    Err(Failure::reply(String::from_utf8_lossy(args.at(2)).into_owned()))
}

fn sleep(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    /// Maximum time, in seconds.
    const MAX: f64 = 60.0;
    let seconds = parse_double(args.at(2)).filter(|seconds| (0.0..=MAX).contains(seconds));
    let seconds = seconds.ok_or(Failure::reply("ERR value is not a valid float"))?;
    call.require_slow_pool()?;
    call.shared.clock.sleep(Duration::from_secs_f64(seconds));
    call.reply.ok();
    Ok(())
}

fn set_active_expire(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    call.shared.is_expiry_job_on.store(args.at(2) != b"0", Ordering::Relaxed);
    call.reply.ok();
    Ok(())
}

/// Permits DEBUG in scripts, or no longer.
fn set_debug_in_scripts(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    call.shared.scripts.is_debug_permitted.store(args.at(2) != b"0", Ordering::Relaxed);
    call.reply.ok();
    Ok(())
}

/// SHA-1 of each value, or zeros without one. Equal values have equal digests.
fn digest_value(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    call.view.pin_state();
    call.reply.array(args.len() - 2);
    for key in args.from(2) {
        let digest = match call.get(key)? {
            Some(entry) => sha1_hex(&encode_entry(call, key, &entry)?),
            None => [b'0'; 40],
        };
        call.reply.status_bytes(&digest);
    }
    Ok(())
}

fn object(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    call.view.pin_state();
    let entry = call.get(&args[2])?.ok_or(Failure::reply("ERR no such key"))?;
    let length = encode_entry(call, &args[2], &entry)?.len();
    call.reply.status(&format!(
        "Value at:0x0 refcount:1 encoding:{} serializedlength:{length} lru:0 lru_seconds_idle:0",
        encoding(&entry)
    ));
    Ok(())
}

/// Replies an example of a type of the protocol.
fn protocol(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let name = String::from_utf8_lossy(args.at(2)).to_ascii_lowercase();
    if !reply_example(call.reply, &name) {
        return Err(Failure::reply(
            "ERR Wrong protocol type name. Please use one of the following: string|integer|double|null|array|set|map|attrib|push|verbatim|true|false",
        ));
    }
    Ok(())
}

/// Appends the example `name`. Returns false if there is none.
fn reply_example(reply: &mut Reply, name: &str) -> bool {
    const BIG: &str = "1234567999999999999999999999999999999";
    match name {
        "string" => reply.bulk("Hello World"),
        "integer" => reply.integer(12345),
        // The example of Redis, which is not pi.
        #[allow(clippy::approx_constant)]
        "double" => reply.double(3.141),
        "null" => reply.null(),
        "array" => {
            reply.array(3);
            (0..3).for_each(|number| reply.integer(number));
        }
        "set" => {
            reply.set(3);
            (0..3).for_each(|number| reply.integer(number));
        }
        "map" => {
            reply.map(3);
            for number in 0..3 {
                reply.integer(number);
                reply.boolean(number == 1);
            }
        }
        "attrib" => {
            if reply.is_resp3() {
                reply.raw(b"|1\r\n");
                reply.bulk("key-popularity");
                reply.array(2);
                reply.bulk("key:123");
                reply.integer(90);
            }
            // In version 2, a client would take the attribute for the reply.
            reply.bulk("Some real reply following the attribute");
        }
        "push" => {
            reply.push(2);
            reply.bulk("server-cpu-usage");
            reply.integer(42);
        }
        "verbatim" => reply.verbatim("This is a verbatim\nstring"),
        "true" => reply.boolean(true),
        "false" => reply.boolean(false),
        "bignum" if reply.is_resp3() => reply.raw(format!("({BIG}\r\n").as_bytes()),
        "bignum" => reply.bulk(BIG),
        _ => return false,
    }
    true
}
