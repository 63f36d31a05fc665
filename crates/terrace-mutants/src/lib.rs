//! Deliberate bugs: what the attacks on Terrace must find, or they are not worth much.
//!
//! A place in the code asks `mutant!(Name)`. In an ordinary build that is the constant `false`, and nothing of it is
//! compiled in. Built with `--cfg terrace_mutants`, which `cargo xtask mutants` does, it is true in a process whose
//! variable `TERRACE_MUTANT` has that name. Most are bugs that storage engines have had; docs/trust.md lists them
//! with the attack that finds each.

/// The variable that says which bug a process has.
pub const VARIABLE: &str = "TERRACE_MUTANT";

/// A deliberate bug.
#[derive(Debug)]
pub struct Mutant {
    /// What code and command line call it.
    pub name: &'static str,
    /// The bug, in one line.
    pub bug: &'static str,
    /// The attacks that may find it, by name.
    pub attacks: &'static [&'static str],
    /// Within how many seconds.
    pub seconds: u64,
}

macro_rules! mutants {
    ($($name:ident: $bug:literal, [$($attack:literal),+] within $seconds:literal;)*) => {
        /// Every deliberate bug, by its place in [`MUTANTS`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[expect(missing_docs, reason = "told by the table")]
        pub enum Name { $($name,)* }

        /// Every deliberate bug.
        pub static MUTANTS: &[Mutant] = &[$(
            Mutant { name: stringify!($name), bug: $bug, attacks: &[$($attack),+], seconds: $seconds },
        )*];
    };
}

mutants! {
    LogNameNotSynced: "a sync write into a new log does not sync the log's name", ["crash"] within 30;
    CurrentNotSynced: "the old manifest goes before the rename of CURRENT is durable", ["crash"] within 30;
    TableNotSynced: "a table counts before its contents are durable", ["crash"] within 30;
    SyncNotAwaited: "a sync write is acknowledged before the device has it", ["crash"] within 30;
    SyncErrorIgnored: "a sync that failed is taken for done", ["errors", "crash"] within 30;
    TornLogGoneOn: "a log that ends in part of a record is gone on with", ["crash"] within 60;
    RecordPassedOver: "replay goes on behind a lost record", ["crash"] within 30;
    LogPassedOver: "replay goes on with the next log behind a damaged one", ["crash"] within 60;
    BatchInParts: "readers see a batch before all of it is there", ["schedules", "histories"] within 60;
    DeleteForgotten: "a merge drops a delete above the level of what it hides", ["model"] within 60;
    OneOfTwo: "a merge takes one of two files of level 0 that overlap", ["model"] within 60;
    KeyTornApart: "versions of a key are split between files, and merged apart", ["model"] within 120;
    SliceTooLate: "a slice of a merge begins behind the newest version of its first key", ["model", "schedules"] within 120;
    HiddenComesBack: "a range of keys goes with its tables, and what they hid stays", ["model"] within 60;
    EntryWraps: "the end of a block's entry is computed with overflow", ["fuzz"] within 120;
    HandleWraps: "the end of a block is computed with overflow", ["fuzz"] within 120;
    SnapshotTooLate: "a snapshot's number is read before it is registered", ["schedules", "protocols"] within 120;
    SlotRelaxed: "what the memtable's tree points to is stored without release", ["protocols"] within 180;
    LatchUnseen: "a reader of the memtable's tree does not look whether a node changed meanwhile", ["schedules", "histories"] within 180;
    CacheKeyShared: "blocks of different databases have the same name in a cache", ["model"] within 60;
    FilterForgetsFirst: "a filter leaves out the first key of its range", ["model"] within 60;
    FilterOfInternalKeys: "a filter holds keys with their sequence numbers", ["model"] within 60;
    SweepBlind: "files are removed while somebody reads them", ["schedules", "model"] within 120;
    StaysTooLong: "a walk stays in its run past a version of the key that another run has", ["model", "metamorphic"] within 60;
    FilterForgetsShort: "the filter of a memtable leaves out keys of less than eight bytes", ["model"] within 60;
    TurnWithoutSeek: "an iterator that turns leaves the other runs where they stand", ["model"] within 30;
    NumberReused: "a file number that was given out is forgotten in a crash", ["crash"] within 60;
    ShortReadIsEnd: "a short read is taken for the end of the file", ["errors"] within 60;
    ReadErrorIsEnd: "an error while a log is read is taken for its end", ["errors"] within 60;
    ChecksumIgnored: "checksums of blocks are not looked at", ["rot"] within 30;
    NoSpaceForEver: "a full disk makes the database refuse writes until it is opened again", ["errors"] within 60;
    NoSpaceTearsLog: "a record that found no space is left in the log, and the next stands behind it", ["errors"] within 60;
    SequenceFromManifest: "sequence numbers go on from the manifest's, not from the log's", ["model"] within 30;
    LockFalls: "a refused second open in the same process drops the lock", ["openers"] within 60;
    OneInAMillion: "one look-up in a million returns a wrong byte", ["model"] within 120;
}

/// Whether this process has the bug.
pub fn is(name: Name) -> bool {
    use std::sync::OnceLock;
    static CHOSEN: OnceLock<Option<usize>> = OnceLock::new();
    let chosen = CHOSEN.get_or_init(|| {
        let wanted = std::env::var(VARIABLE).ok()?;
        MUTANTS.iter().position(|mutant| mutant.name == wanted)
    });
    *chosen == Some(name as usize)
}

/// True in a process that has the bug of that name; never in an ordinary build.
#[macro_export]
macro_rules! mutant {
    ($name:ident) => {
        cfg!(terrace_mutants) && $crate::is($crate::Name::$name)
    };
}
