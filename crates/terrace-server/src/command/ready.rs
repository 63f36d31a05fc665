//! Service of the clients that wait for the keys of a commit.
//!
//! A writer serves while it still holds the whole gate. Therefore no other command takes the
//! element that the first client in the queue waits for.

use std::collections::VecDeque;

use super::attempts::Attempts;
use super::execute::{count_error, count_failed};
use crate::conn::{Unblocked, Waiter};
use crate::failure::CommandResult;
use crate::resp::Reply;
use crate::shared::Shared;
use crate::store::{Allowed, Scratch, SyncMode, View};

/// Serves the clients that wait for `changed`: keys of the table of blocked clients, in the order
/// of their changes. The caller holds the whole gate.
pub(crate) fn serve_blocked(shared: &Shared, scratch: &mut Scratch, changed: Vec<Vec<u8>>) {
    // An element that no client takes now would wait for the next write of its key.
    let allowed = std::mem::replace(&mut scratch.allowed, Allowed::Long);
    let mut changed = VecDeque::from(changed);
    while let Some(key) = changed.pop_front() {
        let mut ticket = 0;
        let mut is_gone = false;
        while let Some(waiter) = shared.blocked.next(&key, ticket) {
            ticket = waiter.ticket;
            if is_gone && !waiter.command.ends_without_key() {
                continue;
            }
            match serve(shared, scratch, &key, &waiter) {
                Some(also_changed) => changed.extend(also_changed),
                None => is_gone = is_gone || !has_value(shared, scratch, &key),
            }
        }
    }
    scratch.allowed = allowed;
}

/// Returns true unless `key` is known not to exist.
fn has_value(shared: &Shared, scratch: &mut Scratch, key: &[u8]) -> bool {
    let Some((database, key)) = key.split_first() else { return false };
    !matches!(View::with_pass(&shared.store, scratch).get(*database, key), Ok(None))
}

/// Serves one client. Returns the keys that its command has changed, or None if the client still
/// waits.
fn serve(shared: &Shared, scratch: &mut Scratch, watch_key: &[u8], waiter: &Waiter) -> Option<Vec<Vec<u8>>> {
    let (database, key) = watch_key.split_first()?;
    let thread = scratch.slot;
    let begin = shared.clock.monotonic();
    let mut reply = Reply::new();
    reply.set_resp3(waiter.is_resp3);
    let mut attempts = Attempts::default();
    let mut is_claimed = false;
    let result = loop {
        let mut view = View::with_pass(&shared.store, scratch);
        let result = waiter.command.serve(&mut view, *database, key, &mut reply);
        if matches!(result, Ok(false)) && is_claimed {
            // Another front end took the element. The client cannot join the queue again, because
            // it may have left meanwhile. It gets the reply of a timeout.
            reply.null_array();
            break Ok(Vec::new());
        }
        // A client that has left keeps nothing: the view is not committed.
        is_claimed = is_claimed || (!matches!(result, Ok(false)) && shared.blocked.claim(waiter));
        if !is_claimed {
            return None;
        }
        let result = result.and_then(|_| commit(&mut view));
        match result {
            Err(failure) if attempts.has_another(shared, &failure) => reply.truncate(0),
            result => break result,
        }
    };
    let is_write = result.as_ref().is_ok_and(|changed| !changed.is_empty());
    let needs_sync = is_write && shared.store.durability.mode() == SyncMode::Always;
    let changed = result.unwrap_or_else(|failure| {
        count_error(shared, &failure);
        count_failed(shared, thread, &waiter.client);
        reply.truncate(0);
        reply.error(failure.text().as_bytes());
        Vec::new()
    });
    let time = shared.clock.monotonic().saturating_sub(begin);
    waiter.client.unblock(Unblocked { reply: reply.into_bytes(), needs_sync, time });
    Some(changed)
}

fn commit(view: &mut View<'_>) -> CommandResult<Vec<Vec<u8>>> {
    Ok(if view.commit()? { view.changed_keys() } else { Vec::new() })
}
