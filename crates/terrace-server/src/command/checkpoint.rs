//! Copies and compactions: SAVE, BGSAVE, LASTSAVE, BGREWRITEAOF, TERRACE.CHECKPOINT and
//! TERRACE.COMPACT.
//!
//! The database is always on disk, so SAVE only syncs it. With the option `--checkpoints`, it also
//! creates a checkpoint. At most one of these commands runs at a time, so that a thread of the slow
//! pool remains for other clients.

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use super::{Args, Call};
use crate::failure::{CommandResult, Failure};

/// Maximum length of the name of a checkpoint, in bytes.
const MAX_NAME: usize = 100;

/// SAVE
pub(super) fn save(call: &mut Call<'_>, _args: Args<'_>) -> CommandResult {
    save_now(call)?;
    call.reply.ok();
    Ok(())
}

/// BGSAVE [SCHEDULE]
///
/// Replies after the copy, because other clients continue meanwhile.
pub(super) fn bgsave(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    if args.len() > 2 || (args.len() == 2 && !args.is(1, "SCHEDULE")) {
        return Err(Failure::SYNTAX);
    }
    save_now(call)?;
    call.reply.status("Background saving started");
    Ok(())
}

fn save_now(call: &mut Call<'_>) -> CommandResult {
    call.require_slow_pool()?;
    let shared = call.shared;
    shared.store.db()?;
    let running = shared.maintenance.try_lock();
    let _running = running.ok_or(Failure::reply("ERR Background save already in progress"))?;
    let now = shared.clock.wall_us();
    match shared.settings.fixed.checkpoints.as_ref() {
        Some(dir) => {
            shared.store.db()?.checkpoint(dir.join(format!("save-{now}")))?;
        }
        None if shared.store.is_read_only => {}
        None => shared.store.db()?.sync()?,
    }
    shared.last_save.store(now / 1_000_000, Ordering::Relaxed);
    Ok(())
}

/// LASTSAVE
pub(super) fn lastsave(call: &mut Call<'_>, _args: Args<'_>) -> CommandResult {
    call.reply.integer(call.shared.last_save.load(Ordering::Relaxed) as i64);
    Ok(())
}

/// BGREWRITEAOF: a compaction of the whole database.
pub(super) fn bgrewriteaof(call: &mut Call<'_>, _args: Args<'_>) -> CommandResult {
    compact_all(call, None, None)?;
    call.reply.status("Background append only file rewriting started");
    Ok(())
}

/// TERRACE.COMPACT [min max]
pub(super) fn compact(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    match args.len() {
        1 => compact_all(call, None, None)?,
        3 => {
            let (begin, end) = super::terrace::parse_record_bounds(call, args)?;
            compact_all(call, Some(&begin), end.as_deref())?;
        }
        _ => return Err(Failure::SYNTAX),
    }
    call.reply.ok();
    Ok(())
}

fn compact_all(call: &mut Call<'_>, begin: Option<&[u8]>, end: Option<&[u8]>) -> CommandResult {
    call.require_slow_pool()?;
    if call.shared.store.is_read_only {
        return Err(Failure::reply("READONLY You can't write against a read only database."));
    }
    let running = call.shared.maintenance.try_lock();
    let _running =
        running.ok_or(Failure::reply("ERR Background append only file rewriting already in progress"))?;
    Ok(call.shared.store.db()?.compact_range(begin, end)?)
}

/// TERRACE.CHECKPOINT name
pub(super) fn checkpoint(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    call.require_slow_pool()?;
    let path = checkpoint_path(call, args.at(1))?;
    let running = call.shared.maintenance.try_lock();
    let _running = running.ok_or(Failure::reply("ERR another checkpoint or compaction is in progress"))?;
    call.shared.store.db()?.checkpoint(path)?;
    call.shared.last_save.store(call.shared.clock.wall_us() / 1_000_000, Ordering::Relaxed);
    call.reply.ok();
    Ok(())
}

/// Returns the path of the checkpoint `name`. A name is no path.
fn checkpoint_path(call: &Call<'_>, name: &[u8]) -> CommandResult<PathBuf> {
    let text = "ERR checkpoints need the option --checkpoints DIR";
    let dir = call.shared.settings.fixed.checkpoints.as_ref().ok_or(Failure::reply(text))?;
    if !is_name(name) {
        return Err(Failure::reply(
            "ERR the name of a checkpoint has 1 to 100 letters, digits, '.', '_' and '-', and begins with no '.'",
        ));
    }
    Ok(dir.join(String::from_utf8_lossy(name).as_ref()))
}

fn is_name(name: &[u8]) -> bool {
    (1..=MAX_NAME).contains(&name.len())
        && name[0] != b'.'
        && name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::is_name;

    #[test]
    fn names_are_no_paths() {
        for name in ["monday", "2026-11-24_17.00", "a", "-x"] {
            assert!(is_name(name.as_bytes()), "{name}");
        }
        for name in ["", ".", "..", ".hidden", "a/b", "../x", "a\0", "a b", "\u{e9}", &"x".repeat(101)] {
            assert!(!is_name(name.as_bytes()), "{name}");
        }
    }
}
