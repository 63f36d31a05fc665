//! The ways to lose what was pending that have a name, and every choice that each leaves open.

/// How everything stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crash {
    /// The process died: nothing is lost but what its buffers held; its locks are free.
    Kill,
    /// The power failed.
    Power(PowerLoss),
}

/// One power cut. Prints as what a failing test needs to repeat it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PowerLoss {
    /// What becomes of the files' pending changes.
    pub data: DataLoss,
    /// What becomes of the directories' pending changes.
    pub names: NameLoss,
    /// Which of the pieces, counted through all directories and then all files, arrived.
    pub arrives: Arrives,
    /// Makes every choice that is left open.
    pub seed: u64,
}

/// Which of a number of pending pieces arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // As they say; pieces are counted from 0.
pub enum Arrives {
    None,
    All,
    AllBut(usize),
    Only(usize),
    First(usize),
    /// Any set of them: the seed decides, also about their order where it is free.
    Some,
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
        missing: Missing,
    },
    /// Of each page of a file the state of some moment since the last sync arrived, of each its own: what a cache of
    /// pages does, and with it a file that is filled through a mapping.
    Pages {
        /// Bytes of a page.
        size: usize,
    },
    /// The length arrived, of the data only the first few changes.
    AllButLength {
        /// Whether the rest is garbage, or zeros.
        garbage: bool,
    },
    /// All arrived but the last write of each file, which stops at some byte of its last sector; what follows in the
    /// sector is old or garbage.
    LastSectorTorn,
}

/// What is where a sector did not arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// What was there before.
    Old,
    /// Zeros.
    Zeros,
    /// Anything.
    Garbage,
}

/// What becomes of changes since a directory's last sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameLoss {
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
pub struct Profile {
    /// What it is called in reports.
    pub name: &'static str,
    /// What becomes of the files' pending changes.
    pub data: DataLoss,
    /// What becomes of the directories' pending changes.
    pub names: NameLoss,
}

impl Profile {
    /// The power cut of this profile that `seed` chooses.
    pub fn with_seed(&self, seed: u64) -> Crash {
        self.with(Arrives::Some, seed)
    }

    /// Power cuts of this profile where `pieces` are pending: none arrives, all, all but one, only one, the first few,
    /// any. Of each kind at most `few`, which `seed` chooses, and of the last twice as many.
    pub fn choices(&self, pieces: usize, few: usize, seed: u64) -> Vec<Crash> {
        if self.is_fixed() {
            return vec![self.with(Arrives::None, seed)];
        }
        if pieces == 0 {
            return Vec::new();
        }
        // Spread over all pieces, beginning somewhere; a few pieces are taken one by one.
        let count = few.min(pieces);
        let spread = (0..count).map(|n| (seed as usize).wrapping_add(n * pieces / count) % pieces);
        let mut choices = vec![self.with(Arrives::None, seed), self.with(Arrives::All, seed)];
        for piece in spread {
            let each = [Arrives::AllBut(piece), Arrives::Only(piece), Arrives::First(piece)];
            choices.extend(each.map(|arrives| self.with(arrives, seed)));
        }
        let any = (0..2 * few as u64).map(|n| self.with(Arrives::Some, seed.wrapping_add(n)));
        choices.extend(any);
        choices
    }

    /// True if nothing is left open.
    fn is_fixed(&self) -> bool {
        matches!(self.data, DataLoss::Nothing | DataLoss::Everything) && self.names != NameLoss::AnySubset
    }

    fn with(&self, arrives: Arrives, seed: u64) -> Crash {
        Crash::Power(PowerLoss { data: self.data, names: self.names, arrives, seed })
    }
}

const fn data(name: &'static str, data: DataLoss) -> Profile {
    Profile { name, data, names: NameLoss::Nothing }
}

const fn sectors(name: &'static str, size: usize, missing: Missing) -> Profile {
    data(name, DataLoss::Sectors { size, missing })
}

const PAGES: DataLoss = DataLoss::Pages { size: 4096 };

/// The profiles that a crash-safe store must survive, each alone.
pub static PROFILES: &[Profile] = &[
    Profile { name: "P1 everything unsynced", data: DataLoss::Everything, names: NameLoss::Everything },
    data("P2 ends of files", DataLoss::Suffix),
    sectors("P3 sectors of 512, zeros", 512, Missing::Zeros),
    sectors("P3 sectors of 512, old bytes", 512, Missing::Old),
    sectors("P3 sectors of 512, garbage", 512, Missing::Garbage),
    sectors("P3 sectors of 4096, zeros", 4096, Missing::Zeros),
    sectors("P3 sectors of 4096, old bytes", 4096, Missing::Old),
    sectors("P3 sectors of 4096, garbage", 4096, Missing::Garbage),
    data("P3 pages, each of its own time", PAGES),
    data("P4 length before data, zeros", DataLoss::AllButLength { garbage: false }),
    data("P4 length before data, garbage", DataLoss::AllButLength { garbage: true }),
    Profile { name: "P5 names", data: DataLoss::Nothing, names: NameLoss::AnySubset },
    Profile { name: "P3 and P5, pages and names", data: PAGES, names: NameLoss::AnySubset },
    data("P6 torn sector", DataLoss::LastSectorTorn),
    data("LevelDB: unsynced data", DataLoss::Everything),
    Profile { name: "LevelDB: new files", data: DataLoss::Nothing, names: NameLoss::NewFiles },
];
