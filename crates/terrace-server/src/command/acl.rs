//! ACL: reading of the users and their rights. The configuration changes them.

use super::permission::{Denial, denial};
use super::subcommand::{self, Subcommand, dispatch, is_arity, unknown_form};
use super::table::{CATEGORIES, commands_of, find};
use super::{Args, Call};
use crate::failure::{CommandResult, Failure};
use crate::users::{Role, User};

/// ACL subcommand
pub(super) fn acl(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    dispatch(call, args, "acl", ACL)
}

pub(super) static ACL: &[Subcommand] = &[
    Subcommand { name: "cat", arity: -2, run: cat },
    Subcommand { name: "deluser", arity: -3, run: refuse },
    Subcommand { name: "dryrun", arity: -4, run: dryrun },
    Subcommand { name: "genpass", arity: -2, run: genpass },
    Subcommand { name: "getuser", arity: 3, run: getuser },
    Subcommand { name: "list", arity: 2, run: list },
    Subcommand { name: "load", arity: 2, run: refuse },
    Subcommand { name: "log", arity: -2, run: log },
    Subcommand { name: "save", arity: 2, run: refuse },
    Subcommand { name: "setuser", arity: -3, run: refuse },
    Subcommand { name: "users", arity: 2, run: users },
    Subcommand { name: "whoami", arity: 2, run: whoami },
];

fn refuse(_call: &mut Call<'_>, _args: Args<'_>) -> CommandResult {
    Err(Failure::reply("ERR users are rows of the configuration, and Terrace changes none while it runs"))
}

fn whoami(call: &mut Call<'_>, _args: Args<'_>) -> CommandResult {
    call.reply.bulk(&*call.session.user.name);
    Ok(())
}

fn users(call: &mut Call<'_>, _args: Args<'_>) -> CommandResult {
    let names: Vec<&str> = call.shared.users.all().map(|user| &*user.name).collect();
    call.reply.bulks(&names);
    Ok(())
}

/// Rights in the notation of Redis.
fn commands_text(user: &User) -> String {
    if !user.categories.is_empty() {
        let named: String = user.categories.iter().map(|name| format!(" +@{name}")).collect();
        let limit = if user.role == Role::Admin { "" } else { " -@admin" };
        let writes = if user.role == Role::Read { " -@write" } else { "" };
        return format!("-@all{named}{limit}{writes}");
    }
    match user.role {
        Role::Admin => "+@all".into(),
        Role::Write => "+@all -@admin".into(),
        Role::Read => "+@all -@admin -@write".into(),
    }
}

fn patterns(user: &User, sign: char) -> String {
    if user.prefixes.is_empty() {
        return format!("{sign}*");
    }
    let patterns = user.prefixes.iter().map(|prefix| format!("{sign}{}*", String::from_utf8_lossy(prefix)));
    patterns.collect::<Vec<_>>().join(" ")
}

/// True if clients need no password for the default user.
fn is_open(call: &Call<'_>, user: &User) -> bool {
    &*user.name == crate::users::DEFAULT_USER
        && call.shared.settings.password().is_none()
        && call.shared.users.is_empty()
}

fn list(call: &mut Call<'_>, _args: Args<'_>) -> CommandResult {
    let lines: Vec<String> = call
        .shared
        .users
        .all()
        .map(|user| {
            let password = if is_open(call, user) { " nopass" } else { "" };
            format!(
                "user {} on{password} {} {} {}",
                user.name,
                patterns(user, '~'),
                patterns(user, '&'),
                commands_text(user)
            )
        })
        .collect();
    call.reply.bulks(&lines);
    Ok(())
}

fn getuser(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let Some(user) = call.shared.users.find(args.at(2)) else {
        call.reply.null();
        return Ok(());
    };
    let flags = if is_open(call, user) { &["on", "nopass"][..] } else { &["on"] };
    let reply = &mut *call.reply;
    reply.map(6);
    reply.bulk("flags");
    reply.set(flags.len());
    for flag in flags {
        reply.bulk(flag);
    }
    // The hashes stay in the configuration.
    reply.bulk("passwords");
    reply.array(0);
    let fields =
        [("commands", commands_text(user)), ("keys", patterns(user, '~')), ("channels", patterns(user, '&'))];
    for (name, text) in fields {
        reply.bulk(name);
        reply.bulk(text);
    }
    reply.bulk("selectors");
    reply.array(0);
    Ok(())
}

/// Refuses more than one argument after the subcommand.
fn refuse_surplus(args: Args<'_>) -> CommandResult {
    if args.len() > 3 { Err(unknown_form(args, "ACL")) } else { Ok(()) }
}

/// ACL CAT [category]
fn cat(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    refuse_surplus(args)?;
    let Some(name) = args.get(2) else {
        call.reply.bulks(CATEGORIES);
        return Ok(());
    };
    let category = CATEGORIES.iter().find(|known| known.as_bytes().eq_ignore_ascii_case(name));
    let Some(category) = category else {
        let name = String::from_utf8_lossy(name);
        return Err(Failure::reply(format!("ERR Unknown category '{name}'")));
    };
    let names: Vec<&str> = commands_of(category).map(|command| command.name).collect();
    call.reply.bulks(&names);
    Ok(())
}

/// ACL GENPASS [bits]
fn genpass(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    const DEFAULT: i64 = 256;
    const WRONG: &str = "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096";
    refuse_surplus(args)?;
    let bits = if args.len() > 2 { args.integer(2)? } else { DEFAULT };
    let bits =
        usize::try_from(bits).ok().filter(|bits| (1..=4096).contains(bits)).ok_or(Failure::reply(WRONG))?;
    let digits = bits.div_ceil(4);
    let mut text = String::new();
    while text.len() < digits {
        text += &format!("{:016x}", call.shared.random.next_u64());
    }
    text.truncate(digits);
    call.reply.bulk(text);
    Ok(())
}

/// ACL DRYRUN user command [arg ..]
fn dryrun(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let user = call.shared.users.find(args.at(2));
    let user = user.ok_or_else(|| Failure::reply(format!("ERR User '{}' not found", shown(args.at(2)))))?;
    let command = find(args.at(3));
    let command =
        command.ok_or_else(|| Failure::reply(format!("ERR Command '{}' not found", shown(args.at(3)))))?;
    let inner = args.skip(3);
    if !is_arity(command.arity, inner.len()) {
        let name = command.name;
        return Err(Failure::reply(format!("ERR wrong number of arguments for '{name}' command")));
    }
    subcommand::check(command, inner).map_err(|fault| fault.failure(command.name, inner))?;
    match denial(user, command, inner) {
        None => call.reply.ok(),
        Some(Denial::Command(name)) => {
            call.reply.bulk(format!("This user has no permissions to run the '{name}' command"));
        }
        Some(Denial::Key(key)) => {
            call.reply.bulk(format!("This user has no permissions to access the '{}' key", shown(&key)));
        }
        Some(Denial::Channel(channel)) => {
            call.reply
                .bulk(format!("This user has no permissions to access the '{}' channel", shown(&channel)));
        }
    }
    Ok(())
}

/// ACL LOG [count | RESET]
fn log(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    refuse_surplus(args)?;
    if args.is(2, "RESET") {
        call.shared.users.reset_denials();
        call.reply.ok();
        return Ok(());
    }
    let count = if args.len() > 2 { usize::try_from(args.integer(2)?).unwrap_or_default() } else { 10 };
    let now = call.shared.clock.monotonic();
    let mut denials = call.shared.users.denials();
    denials.truncate(count);
    call.reply.array(denials.len());
    for denial in denials {
        let reply = &mut *call.reply;
        reply.map(7);
        reply.bulk("count");
        reply.integer(denial.count as i64);
        let fields = [
            ("reason", denial.reason.as_bytes()),
            ("context", b"toplevel"),
            ("object", &denial.object),
            ("username", denial.user.as_bytes()),
        ];
        for (name, text) in fields {
            reply.bulk(name);
            reply.bulk(text);
        }
        reply.bulk("age-seconds");
        reply.double(now.saturating_sub(denial.at).as_secs_f64());
        reply.bulk("client-info");
        reply.bulk(denial.client);
    }
    Ok(())
}
