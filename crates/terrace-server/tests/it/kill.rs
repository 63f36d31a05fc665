//! The end of the server process under load. No acknowledged write is missing afterwards, and no
//! command is half applied. The variable `TERRACE_KILLS` chooses another number of kills.

use std::time::Duration;

use terrace_server::{Layout, SyncMode};

use crate::ledger::{self, CLIENTS, Ledger};
use crate::process::ServerProcess;

fn kills(layout: Layout, sync: SyncMode, rounds: u64) {
    let rounds = crate::model::number("TERRACE_KILLS").unwrap_or(rounds);
    let dir = tempfile::tempdir().unwrap();
    let mut ledgers = [Ledger::default(); CLIENTS];
    // Lists and streams are empty at the begin of each round, and the last round may be short.
    let mut is_used = [false; CLIENTS];
    for round in 0..rounds {
        let server = ServerProcess::start(dir.path(), layout, sync);
        let mut client = server.client();
        ledgers = ledger::verify(&mut client, layout, &ledgers, &ledgers);
        if layout == Layout::Typed {
            ledger::delete_long_objects(&mut client, &mut ledgers);
        }
        let time = Duration::from_millis(20 + round * 17 % 100);
        ledgers = ledger::write_until_kill(server, layout, ledgers, time);
        for (is_used, ledger) in is_used.iter_mut().zip(&ledgers) {
            *is_used |= ledger.is_used(layout);
        }
    }
    let server = ServerProcess::start(dir.path(), layout, sync);
    ledger::verify(&mut server.client(), layout, &ledgers, &ledgers);
    assert!(is_used == [true; CLIENTS], "the load was no load: {ledgers:?}");
}

#[test]
fn typed_directory_without_syncs() {
    kills(Layout::Typed, SyncMode::No, 5);
}

#[test]
fn raw_directory_with_a_sync_each_second() {
    kills(Layout::Raw, SyncMode::EverySecond, 3);
}

#[test]
fn typed_directory_with_syncs() {
    kills(Layout::Typed, SyncMode::Always, 3);
}
