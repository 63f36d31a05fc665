//! Power cuts under load, with `--sync always`: no acknowledged write is missing afterwards, and no
//! command is half applied.
//!
//! ```text
//!   ledgers before  <=  file system in memory, cut at this moment  <=  ledgers after
//! ```
//!
//! The server runs in the test, on a file system that can lose each unsynced piece. It continues
//! while a second server opens the state after the cut. The variable `TERRACE_CUTS` chooses another
//! number of moments.

use std::ops::Range;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use terrace::env::mem::{Crash, DataLoss, DirEntryLoss, LostSector, MemFs, PowerLossProfile};
use terrace::{Env, Options};
use terrace_server::{Layout, SyncMode};
use terrace_testkit::SetOnDrop;

use crate::ledger::{self, CLIENTS, Ledger, Ledgers};
use crate::server::Server;

static PROFILES: &[PowerLossProfile] = &[
    PowerLossProfile {
        name: "everything",
        data: DataLoss::Everything,
        dir_entries: DirEntryLoss::Everything,
    },
    PowerLossProfile {
        name: "sectors",
        data: DataLoss::Sectors { size: 512, lost: LostSector::Garbage },
        dir_entries: DirEntryLoss::AnySubset,
    },
    PowerLossProfile {
        name: "pages",
        data: DataLoss::Pages { size: 4096 },
        dir_entries: DirEntryLoss::AnySubset,
    },
    PowerLossProfile {
        name: "length before data",
        data: DataLoss::LengthBeforeData { garbage: true },
        dir_entries: DirEntryLoss::Nothing,
    },
    PowerLossProfile {
        name: "torn sector",
        data: DataLoss::TornLastSector,
        dir_entries: DirEntryLoss::Nothing,
    },
];

fn start(fs: Arc<MemFs>, layout: Layout) -> Server {
    let env = Env::with_file_system(fs);
    Server::start("db".as_ref(), |config| {
        config.engine = Options::default().env(env).write_buffer_size(64 << 10);
        config.sync = SyncMode::Always;
        config.layout = Some(layout);
    })
}

/// Cuts the power of a copy of `fs` in each profile, and checks what a new server finds.
fn cut(fs: &MemFs, layout: Layout, ledgers: &Ledgers, seed: u64) {
    let acknowledged = ledger::copy(ledgers);
    let state = fs.fork();
    let last = ledger::copy(ledgers);
    for profile in PROFILES {
        let crash: Crash = profile.crash_with_seed(seed);
        println!("{}: {crash:?}", profile.name);
        let server = start(Arc::new(state.crash_clone(&crash)), layout);
        ledger::verify(&mut server.client(), layout, &acknowledged, &last);
    }
}

/// Maximum number of moments of a directory, whose objects become longer.
const MAX_MOMENTS: u64 = 20;

fn cuts(layout: Layout, moments: u64) {
    let moments = crate::model::number("TERRACE_CUTS").unwrap_or(moments);
    for first in (0..moments).step_by(MAX_MOMENTS as usize) {
        cuts_of_directory(layout, first..moments.min(first + MAX_MOMENTS));
    }
}

fn cuts_of_directory(layout: Layout, seeds: Range<u64>) {
    let fs = Arc::new(MemFs::new());
    let server = start(Arc::clone(&fs), layout);
    let ledgers: Ledgers = [Ledger::default(); CLIENTS].map(Mutex::new);
    let is_stopped = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _set_at_end = SetOnDrop(&is_stopped);
        for (id, ledger) in ledgers.iter().enumerate() {
            let mut client = server.client();
            let is_stopped = &is_stopped;
            scope.spawn(move || ledger::write(&mut client, id, layout, ledger, is_stopped));
        }
        for seed in seeds {
            std::thread::sleep(Duration::from_millis(10 + seed * 7 % 20));
            cut(&fs, layout, &ledgers, seed);
        }
    });
    assert!(ledger::copy(&ledgers).iter().all(|ledger| ledger.is_used(layout)), "the load was no load");
}

#[test]
fn typed_directory() {
    cuts(Layout::Typed, 6);
}

#[test]
fn raw_directory() {
    cuts(Layout::Raw, 3);
}
