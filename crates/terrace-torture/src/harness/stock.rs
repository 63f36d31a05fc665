//! Beside the distribution's LevelDB, on the same directories.
//!
//! ```text
//!   relay       a life led in turns by the two engines: each finds what the other left
//!   heirs       one writes and is killed, one looks                          (a kind of `kills`)
//!   power-cuts  what a power cut leaves of a database is the same to both
//!   repairs     of a damaged database ours recovers all that theirs does
//! ```
//!
//! Needs the library; without it nothing is done, and CI calls that an error.

mod power_cuts;
mod relay;
mod repairs;

use std::path::Path;

use terrace::Env;
use terrace_testkit::op::{Range, Slot, Step};
use terrace_testkit::run::{Answer, Entry, Subject};
use terrace_testkit::settings::Settings;
use terrace_testkit::stock::{Stock, StockSubject};

use super::Harness;
use crate::subject::Engine;
pub(super) use power_cuts::POWER_CUTS;
pub(super) use relay::RELAY;
pub(super) use repairs::REPAIRS;

/// A cursor's slot that no operation names.
const SCAN: Slot = Slot::MAX;

/// One of the two engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    Theirs,
    Ours,
}

impl Owner {
    fn other(self) -> Owner {
        match self {
            Owner::Theirs => Owner::Ours,
            Owner::Ours => Owner::Theirs,
        }
    }

    fn open(self, stock: &'static Stock, path: &Path, settings: &Settings) -> Answer<Box<dyn Subject>> {
        match self {
            Owner::Theirs => {
                let opened = StockSubject::open(stock, path, settings);
                Ok(Box::new(opened.map_err(|error| error.text)?))
            }
            Owner::Ours => {
                let opened = Engine::open(path, settings, &Env::system());
                Ok(Box::new(opened.map_err(|error| error.to_string())?))
            }
        }
    }
}

/// Every entry.
fn contents(subject: &mut dyn Subject) -> Answer<Vec<Entry>> {
    subject.open_cursor(SCAN, None, &Range::default());
    let (mut entries, mut next) = (Vec::new(), subject.step(SCAN, &Step::First)?);
    while let Some(entry) = next {
        entries.push(entry);
        next = subject.step(SCAN, &Step::Next)?;
    }
    subject.close_cursor(SCAN);
    Ok(entries)
}

/// The first entry that only one of two databases has.
fn difference(ours: &[Entry], theirs: &[Entry]) -> Answer<()> {
    if ours == theirs {
        return Ok(());
    }
    let at = ours.iter().zip(theirs).take_while(|(a, b)| a == b).count();
    let show = |entry: Option<&Entry>| {
        entry.map_or("the end".into(), |(k, v)| format!("\"{}\" with {} bytes", k.escape_ascii(), v.len()))
    };
    let [our, their] = [ours, theirs].map(|entries| show(entries.get(at)));
    let (count, other) = (ours.len(), theirs.len());
    Err(format!("ours shows {count} entries, theirs {other}; at entry {at} ours has {our}, theirs {their}"))
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
