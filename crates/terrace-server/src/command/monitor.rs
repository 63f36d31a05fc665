//! MONITOR and LOLWUT.

use super::connection::REDIS_VERSION;
use super::{Args, Call};
use crate::failure::CommandResult;

/// MONITOR
pub(super) fn monitor(call: &mut Call<'_>, _args: Args<'_>) -> CommandResult {
    call.shared.monitors.insert(&call.session.client);
    call.reply.ok();
    Ok(())
}

/// LOLWUT [VERSION version]
pub(super) fn lolwut(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    if args.len() > 2 && args.is(1, "VERSION") {
        args.integer(2)?;
    }
    let version = env!("CARGO_PKG_VERSION");
    call.reply.verbatim(&format!("Redis ver. {REDIS_VERSION}, served by Terrace {version}\n"));
    Ok(())
}
