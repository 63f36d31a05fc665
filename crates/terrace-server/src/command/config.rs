//! CONFIG and its subcommands.

use super::subcommand::{Subcommand, dispatch};
use super::{Args, Call};
use crate::failure::{CommandResult, Failure};
use crate::settings;

/// CONFIG subcommand
pub(super) fn config(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    dispatch(call, args, "config", CONFIG)
}

pub(super) static CONFIG: &[Subcommand] = &[
    Subcommand { name: "get", arity: -3, run: get },
    Subcommand { name: "resetstat", arity: 2, run: resetstat },
    Subcommand { name: "rewrite", arity: 2, run: rewrite },
    Subcommand { name: "set", arity: -4, run: set },
];

fn get(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let patterns: Vec<&[u8]> = args.from(2).collect();
    let found = settings::matching(call.shared, &patterns);
    call.reply.map(found.len());
    for (name, value) in found {
        call.reply.bulk(asked_name(&patterns, name));
        call.reply.bulk(value);
    }
    Ok(())
}

/// Returns the name of a setting as the client wrote it. A pattern with wildcards returns the
/// setting's own name.
fn asked_name<'a>(patterns: &[&'a [u8]], name: &'a str) -> &'a [u8] {
    for pattern in patterns {
        if crate::glob::is_match(&pattern.to_ascii_lowercase(), name.as_bytes()) {
            let has_wildcard = pattern.iter().any(|byte| b"[*?".contains(byte));
            return if has_wildcard { name.as_bytes() } else { pattern };
        }
    }
    name.as_bytes()
}

fn set(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    if args.len() % 2 == 1 {
        return Err(Failure::SYNTAX);
    }
    let words: Vec<String> = args.from(2).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    let pairs: Vec<(&str, &str)> = words.chunks(2).map(|pair| (pair[0].as_str(), pair[1].as_str())).collect();
    settings::change_all(call.shared, &pairs).map_err(Failure::reply)?;
    call.reply.ok();
    Ok(())
}

fn resetstat(call: &mut Call<'_>, _args: Args<'_>) -> CommandResult {
    call.shared.counters.reset();
    call.shared.command_times.reset();
    call.shared.error_counts.reset();
    call.reply.ok();
    Ok(())
}

fn rewrite(_call: &mut Call<'_>, _args: Args<'_>) -> CommandResult {
    Err(Failure::reply("ERR The server is running without a config file"))
}
