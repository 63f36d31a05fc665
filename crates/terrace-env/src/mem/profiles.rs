//! The ways to lose what was pending that have a name, and every choice that each leaves open.

/// How everything stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crash {
    /// The process died: nothing is lost but what its buffers held; its locks are free.
    Kill,
    /// The power failed.
    PowerLoss(PowerLoss),
}

/// One power cut. Prints as what a failing test needs to repeat it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PowerLoss {
    /// What becomes of the files' pending changes.
    pub data: DataLoss,
    /// What becomes of the directories' pending changes.
    pub dir_entries: DirEntryLoss,
    /// Which of the pieces, counted through all directories and then all files, arrived.
    pub persisted: PersistedPieces,
    /// Makes every choice that is left open.
    pub seed: u64,
}

/// Which of a number of pending pieces arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // As they say; pieces are counted from 0.
pub enum PersistedPieces {
    None,
    All,
    AllBut(usize),
    Only(usize),
    First(usize),
    /// Any set of them: the seed decides, also about their order where it is free.
    Random,
}

/// What becomes of changes since a file's last sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataLoss {
    /// All of them arrived.
    Nothing,
    /// None arrived.
    Everything,
    /// Of each file the first few arrived.
    Suffix,
    /// Of each write some sectors arrived.
    Sectors {
        /// Bytes of a sector.
        size: usize,
        /// What is where a sector did not arrive.
        lost: LostSector,
    },
    /// Of each page of a file the state of some moment since the last sync arrived, of each its own: what a cache of
    /// pages does, and with it a file that is filled through a mapping.
    Pages {
        /// Bytes of a page.
        size: usize,
    },
    /// The length arrived, of the data only the first few changes.
    LengthBeforeData {
        /// Whether the rest is garbage, or zeros.
        garbage: bool,
    },
    /// All arrived but the last write of each file, which stops at some byte of its last sector; what follows in the
    /// sector is old or garbage.
    TornLastSector,
}

/// What is where a sector did not arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LostSector {
    /// What was there before.
    OldBytes,
    /// Zeros.
    Zeros,
    /// Anything.
    Garbage,
}

/// What becomes of changes since a directory's last sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirEntryLoss {
    /// All of them arrived.
    Nothing,
    /// None arrived.
    Everything,
    /// Any set of them arrived, in any order. A rename arrives whole or not at all.
    AnySubset,
    /// Files vanish that were created after the last sync of any file or of their directory: the model of LevelDB's
    /// own fault test, for comparison.
    NewFiles,
}

/// A way to lose data that has a name.
#[derive(Debug, Clone, Copy)]
pub struct PowerLossProfile {
    /// What it is called in reports.
    pub name: &'static str,
    /// What becomes of the files' pending changes.
    pub data: DataLoss,
    /// What becomes of the directories' pending changes.
    pub dir_entries: DirEntryLoss,
}

impl PowerLossProfile {
    /// The power cut of this profile that `seed` chooses.
    pub fn crash_with_seed(&self, seed: u64) -> Crash {
        self.crash_with(PersistedPieces::Random, seed)
    }

    /// Power cuts of this profile where `pieces` are pending: none arrives, all, all but one, only one, the first few,
    /// any. Of each kind at most `few`, which `seed` chooses, and of the last twice as many.
    pub fn crashes(&self, pieces: usize, few: usize, seed: u64) -> Vec<Crash> {
        if self.is_deterministic() {
            return vec![self.crash_with(PersistedPieces::None, seed)];
        }
        if pieces == 0 {
            return Vec::new();
        }
        // Spread over all pieces, beginning somewhere; a few pieces are taken one by one.
        let count = few.min(pieces);
        let spread = (0..count).map(|n| (seed as usize).wrapping_add(n * pieces / count) % pieces);
        let mut choices =
            vec![self.crash_with(PersistedPieces::None, seed), self.crash_with(PersistedPieces::All, seed)];
        for piece in spread {
            let each =
                [PersistedPieces::AllBut(piece), PersistedPieces::Only(piece), PersistedPieces::First(piece)];
            choices.extend(each.map(|arrives| self.crash_with(arrives, seed)));
        }
        let any = (0..2 * few as u64).map(|n| self.crash_with(PersistedPieces::Random, seed.wrapping_add(n)));
        choices.extend(any);
        choices
    }

    /// True if nothing is left open.
    fn is_deterministic(&self) -> bool {
        matches!(self.data, DataLoss::Nothing | DataLoss::Everything)
            && self.dir_entries != DirEntryLoss::AnySubset
    }

    fn crash_with(&self, arrives: PersistedPieces, seed: u64) -> Crash {
        Crash::PowerLoss(PowerLoss {
            data: self.data,
            dir_entries: self.dir_entries,
            persisted: arrives,
            seed,
        })
    }
}

const fn data_loss_profile(name: &'static str, data: DataLoss) -> PowerLossProfile {
    PowerLossProfile { name, data, dir_entries: DirEntryLoss::Nothing }
}

const fn sector_loss_profile(name: &'static str, size: usize, missing: LostSector) -> PowerLossProfile {
    data_loss_profile(name, DataLoss::Sectors { size, lost: missing })
}

const PAGE_LOSS: DataLoss = DataLoss::Pages { size: 4096 };

/// The profiles that a crash-safe store must survive, each alone.
pub static POWER_LOSS_PROFILES: &[PowerLossProfile] = &[
    PowerLossProfile {
        name: "P1 everything unsynced",
        data: DataLoss::Everything,
        dir_entries: DirEntryLoss::Everything,
    },
    data_loss_profile("P2 ends of files", DataLoss::Suffix),
    sector_loss_profile("P3 sectors of 512, zeros", 512, LostSector::Zeros),
    sector_loss_profile("P3 sectors of 512, old bytes", 512, LostSector::OldBytes),
    sector_loss_profile("P3 sectors of 512, garbage", 512, LostSector::Garbage),
    sector_loss_profile("P3 sectors of 4096, zeros", 4096, LostSector::Zeros),
    sector_loss_profile("P3 sectors of 4096, old bytes", 4096, LostSector::OldBytes),
    sector_loss_profile("P3 sectors of 4096, garbage", 4096, LostSector::Garbage),
    data_loss_profile("P3 pages, each of its own time", PAGE_LOSS),
    data_loss_profile("P4 length before data, zeros", DataLoss::LengthBeforeData { garbage: false }),
    data_loss_profile("P4 length before data, garbage", DataLoss::LengthBeforeData { garbage: true }),
    PowerLossProfile { name: "P5 names", data: DataLoss::Nothing, dir_entries: DirEntryLoss::AnySubset },
    PowerLossProfile {
        name: "P3 and P5, pages and names",
        data: PAGE_LOSS,
        dir_entries: DirEntryLoss::AnySubset,
    },
    data_loss_profile("P6 torn sector", DataLoss::TornLastSector),
    data_loss_profile("LevelDB: unsynced data", DataLoss::Everything),
    PowerLossProfile {
        name: "LevelDB: new files",
        data: DataLoss::Nothing,
        dir_entries: DirEntryLoss::NewFiles,
    },
];
