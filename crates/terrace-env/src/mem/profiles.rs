//! Named profiles of power loss, and the crashes that each profile permits.

/// Kind of a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crash {
    /// The process was killed. Only the contents of its buffers are lost, and its locks are
    /// released.
    Kill,
    /// The power failed.
    PowerLoss(PowerLoss),
}

/// One power cut. Its debug form has everything that repeats a failing test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PowerLoss {
    /// Loss of the files' pending changes.
    pub data: DataLoss,
    /// Loss of the directories' pending changes.
    pub dir_entries: DirEntryLoss,
    /// Persisted pieces, counted through all directories and then all files.
    pub persisted: PersistedPieces,
    /// Seed of all remaining decisions.
    pub seed: u64,
}

/// Set of the pending pieces that persisted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // Pieces are counted from 0.
pub enum PersistedPieces {
    None,
    All,
    AllBut(usize),
    Only(usize),
    First(usize),
    /// A random set: the seed decides, also about the order where the model does not fix it.
    Random,
}

/// Loss of the changes since a file's last sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataLoss {
    /// All changes persist.
    Nothing,
    /// No change persists.
    Everything,
    /// The first changes of each file persist.
    Suffix,
    /// Some sectors of each write persist.
    Sectors {
        /// Size of a sector, in bytes.
        size: usize,
        /// Contents of a lost sector.
        lost: LostSector,
    },
    /// Each page persists in its state at some moment since the last sync. The moments of two pages
    /// are independent. A page cache behaves so, and thus a file that is written through a mapping.
    Pages {
        /// Size of a page, in bytes.
        size: usize,
    },
    /// The length persists, but only the first changes of the data.
    LengthBeforeData {
        /// True if the rest is garbage, false if it is zeros.
        garbage: bool,
    },
    /// All changes persist except the last write of each file. It stops at some byte of its last
    /// sector. The rest of the sector has old bytes or garbage.
    TornLastSector,
}

/// Contents of a lost sector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LostSector {
    /// The bytes before the write.
    OldBytes,
    /// Zeros.
    Zeros,
    /// Random bytes.
    Garbage,
}

/// Loss of the changes since a directory's last sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirEntryLoss {
    /// All changes persist.
    Nothing,
    /// No change persists.
    Everything,
    /// Any subset persists, in any order. A rename persists completely or not at all.
    AnySubset,
    /// Files vanish if they were created after the last sync of any file or of their directory.
    /// This is the model of LevelDB's fault injection test, for comparison.
    NewFiles,
}

/// Named kind of power loss.
#[derive(Debug, Clone, Copy)]
pub struct PowerLossProfile {
    /// Name in reports.
    pub name: &'static str,
    /// Loss of the files' pending changes.
    pub data: DataLoss,
    /// Loss of the directories' pending changes.
    pub dir_entries: DirEntryLoss,
}

impl PowerLossProfile {
    /// Returns the power cut of this profile with random decisions by `seed`.
    pub fn crash_with_seed(&self, seed: u64) -> Crash {
        self.crash_with(PersistedPieces::Random, seed)
    }

    /// Returns power cuts of this profile for `pieces` pending pieces.
    ///
    /// The persisted sets are: none, all, all but one, only one, the first few, random. The result
    /// has at most `few` cuts of each kind, which `seed` selects, and twice as many random ones.
    pub fn crashes(&self, pieces: usize, few: usize, seed: u64) -> Vec<Crash> {
        if self.is_deterministic() {
            return vec![self.crash_with(PersistedPieces::None, seed)];
        }
        if pieces == 0 {
            return Vec::new();
        }
        // Spread over all pieces from a start that the seed selects. If there are few pieces, each
        // is selected.
        let count = few.min(pieces);
        let spread = (0..count).map(|n| (seed as usize).wrapping_add(n * pieces / count) % pieces);
        let mut crashes =
            vec![self.crash_with(PersistedPieces::None, seed), self.crash_with(PersistedPieces::All, seed)];
        for piece in spread {
            let each =
                [PersistedPieces::AllBut(piece), PersistedPieces::Only(piece), PersistedPieces::First(piece)];
            crashes.extend(each.map(|persisted| self.crash_with(persisted, seed)));
        }
        let random =
            (0..2 * few as u64).map(|n| self.crash_with(PersistedPieces::Random, seed.wrapping_add(n)));
        crashes.extend(random);
        crashes
    }

    /// Returns true if the profile leaves no decision.
    fn is_deterministic(&self) -> bool {
        matches!(self.data, DataLoss::Nothing | DataLoss::Everything)
            && self.dir_entries != DirEntryLoss::AnySubset
    }

    fn crash_with(&self, persisted: PersistedPieces, seed: u64) -> Crash {
        Crash::PowerLoss(PowerLoss { data: self.data, dir_entries: self.dir_entries, persisted, seed })
    }
}

const fn data_loss_profile(name: &'static str, data: DataLoss) -> PowerLossProfile {
    PowerLossProfile { name, data, dir_entries: DirEntryLoss::Nothing }
}

const fn sector_loss_profile(name: &'static str, size: usize, lost: LostSector) -> PowerLossProfile {
    data_loss_profile(name, DataLoss::Sectors { size, lost })
}

const PAGE_LOSS: DataLoss = DataLoss::Pages { size: 4096 };

/// Profiles that a crash-safe store must survive, one at a time.
pub static POWER_LOSS_PROFILES: &[PowerLossProfile] = &[
    PowerLossProfile {
        name: "P1 everything unsynced",
        data: DataLoss::Everything,
        dir_entries: DirEntryLoss::Everything,
    },
    data_loss_profile("P2 file tails", DataLoss::Suffix),
    sector_loss_profile("P3 sectors of 512, zeros", 512, LostSector::Zeros),
    sector_loss_profile("P3 sectors of 512, old bytes", 512, LostSector::OldBytes),
    sector_loss_profile("P3 sectors of 512, garbage", 512, LostSector::Garbage),
    sector_loss_profile("P3 sectors of 4096, zeros", 4096, LostSector::Zeros),
    sector_loss_profile("P3 sectors of 4096, old bytes", 4096, LostSector::OldBytes),
    sector_loss_profile("P3 sectors of 4096, garbage", 4096, LostSector::Garbage),
    data_loss_profile("P3 pages, persisted independently", PAGE_LOSS),
    data_loss_profile("P4 length before data, zeros", DataLoss::LengthBeforeData { garbage: false }),
    data_loss_profile("P4 length before data, garbage", DataLoss::LengthBeforeData { garbage: true }),
    PowerLossProfile {
        name: "P5 directory entries",
        data: DataLoss::Nothing,
        dir_entries: DirEntryLoss::AnySubset,
    },
    PowerLossProfile {
        name: "P3 and P5, pages and directory entries",
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
