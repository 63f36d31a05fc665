//! Eight clients of `terrace serve`. The checker judges the recorded history of their replies.
//!
//! The module `server_clients` of `terrace-linearizability` lists their commands.

use std::sync::mpsc;

use terrace_linearizability::server_clients::{Certainty, Recorded, judge, record};
use terrace_server::{ServerConfig, serve};

use super::Harness;
use crate::counters::{Counter, Counters};

pub(super) const SERVER_HISTORIES: Harness = Harness {
    id: 24,
    name: "server-histories",
    property: "histories of eight clients of a server, with MULTI, are linearizable",
    check_cases: 40,
    time_share: 4,
    run,
};

fn run(seed: u64, counters: &Counters) -> Result<(), String> {
    let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
    let mut config = ServerConfig::new(dir.path());
    config.port = Some(0);
    config.workers = Some(3);
    let (sender, ready) = mpsc::channel();
    let server = std::thread::spawn(move || {
        serve(&config, |addresses, handle| {
            // The receiver waits for it.
            let _ = sender.send((addresses.tcp.first().copied(), handle));
        })
    });
    let started = ready.recv().map_err(|_| "the server did not start".to_owned());
    let history = started.and_then(|(address, handle)| {
        let address = address.ok_or("the server has no address")?;
        let history = record(seed, "", &|_| address);
        handle.shut_down();
        history
    });
    server.join().map_err(|_| "the server panicked")?.map_err(|error| error.to_string())?;
    check(&history?, counters)
}

/// Checks that every command has a reply, and that one order explains them.
fn check(recorded: &Recorded, counters: &Counters) -> Result<(), String> {
    counters.add(Counter::Histories, 1);
    let Recorded { operations, lost, unknown, refused, .. } = recorded;
    if lost + unknown + refused > 0 {
        return Err(format!("{lost} replies were lost, {unknown} unknown, {refused} refused"));
    }
    if judge(operations)? == Certainty::OrderOfKeys {
        counters.add(Counter::HistoriesCheckedPerKey, 1);
    }
    Ok(())
}
