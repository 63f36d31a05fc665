//! Memory that the commands of a thread use one after the other.

use std::rc::Rc;

use terrace::WriteBatch;

use super::kept_iter::IterPlace;
use super::kept_object::KeptObject;
use super::record_keys::RecordKeys;
use super::series::Series;
use super::series_scan::SeriesScan;

/// Commands that a thread may run. Each row includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Allowed {
    /// Those that neither wait for storage nor are long.
    Short,
    /// Those that may wait for storage.
    Waiting,
    /// Those that take much time or memory.
    Long,
}

/// Memory of a thread that its commands reuse, and the rights of the thread.
#[derive(Debug)]
pub(crate) struct Scratch {
    /// Slot of the thread in the gate.
    pub(crate) slot: usize,
    /// Commands that the thread may run now.
    pub(crate) allowed: Allowed,
    /// True for the thread that runs scripts.
    pub(crate) is_script_thread: bool,
    pub(super) batch: WriteBatch,
    pub(super) series: Series,
    pub(super) series_scan: SeriesScan,
    pub(super) iter_place: Rc<IterPlace>,
    pub(super) kept_object: KeptObject,
    /// Number of commands that still read from snapshots, because writers have interfered.
    pub(super) snapshot_commands: u32,
    pub(super) record_key: Vec<u8>,
    /// Key of the last record of a scan.
    pub(super) last_record: Vec<u8>,
    /// Keys of the records of a command with several keys.
    pub(super) record_keys: RecordKeys,
    pub(super) record_value: Vec<u8>,
}

impl Scratch {
    /// Creates the memory of the thread with the gate's slot `slot`.
    pub(crate) fn new(slot: usize, allowed: Allowed) -> Scratch {
        Scratch {
            slot,
            allowed,
            is_script_thread: false,
            batch: WriteBatch::new(),
            series: Series::default(),
            series_scan: SeriesScan::default(),
            iter_place: Rc::default(),
            kept_object: KeptObject::default(),
            snapshot_commands: 0,
            record_key: Vec::new(),
            last_record: Vec::new(),
            record_keys: RecordKeys::default(),
            record_value: Vec::new(),
        }
    }

    /// Creates the memory of the script thread.
    pub(crate) fn new_for_scripts(slot: usize) -> Scratch {
        Scratch { is_script_thread: true, ..Scratch::new(slot, Allowed::Long) }
    }

    /// True if the thread may wait for storage.
    pub(crate) fn can_wait(&self) -> bool {
        self.allowed >= Allowed::Waiting
    }

    /// True if the thread may run long commands.
    pub(crate) fn can_run_long(&self) -> bool {
        self.allowed >= Allowed::Long
    }
}
