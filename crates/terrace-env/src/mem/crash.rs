//! What a crash leaves: a table of ways to lose what was pending.
//!
//! A kill loses nothing that reached the system. A power cut takes from each file some of the changes since its last
//! sync, and from the directories some of the changes since theirs; [`DataLoss`] and [`NameLoss`] say which, and a
//! seed makes the choices. What was synced is never touched: damage to it is another matter.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::content::{Change, Content, write_at};
use super::names::{NameChange, Names, Pending, Tree};
use super::world::World;
use crate::random::{Random, SeededRandom};

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
    /// Makes every choice that the two leave open.
    pub seed: u64,
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
    /// Of each file any set of sectors arrived, of 512 or 4,096 bytes; a missing one holds what was there before,
    /// zeros, or garbage.
    Sectors,
    /// The length arrived, of the data only the first few changes; the rest is zeros or garbage.
    AllButLength,
    /// All arrived but the last write of each file, which stops at some byte of its last sector; what follows in the
    /// sector is old or garbage.
    LastSectorTorn,
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
        Crash::Power(PowerLoss { data: self.data, names: self.names, seed })
    }
}

/// The profiles that a crash-safe store must survive, each alone.
pub static PROFILES: &[Profile] = &[
    Profile { name: "P1 everything unsynced", data: DataLoss::Everything, names: NameLoss::Everything },
    Profile { name: "P2 ends of files", data: DataLoss::Suffix, names: NameLoss::Nothing },
    Profile { name: "P3 sectors", data: DataLoss::Sectors, names: NameLoss::Nothing },
    Profile { name: "P4 length before data", data: DataLoss::AllButLength, names: NameLoss::Nothing },
    Profile { name: "P5 names", data: DataLoss::Nothing, names: NameLoss::AnySubset },
    Profile { name: "P6 torn sector", data: DataLoss::LastSectorTorn, names: NameLoss::Nothing },
    Profile { name: "LevelDB: unsynced data", data: DataLoss::Everything, names: NameLoss::Nothing },
    Profile { name: "LevelDB: new files", data: DataLoss::Nothing, names: NameLoss::NewFiles },
];

/// The state that a restart finds.
pub(super) fn image(world: &World, how: &Crash) -> World {
    let loss = match how {
        Crash::Kill => PowerLoss { data: DataLoss::Nothing, names: NameLoss::Nothing, seed: 0 },
        Crash::Power(loss) => *loss,
    };
    let choice = SeededRandom::new(loss.seed);
    let names = surviving_names(world, loss.names, &choice);
    let mut files = BTreeMap::new();
    for (&inode, content) in &world.files {
        files.insert(inode, Content::durable(surviving_bytes(content, loss.data, &choice)));
    }
    world.image(Names::durable(names), files)
}

fn surviving_names(world: &World, loss: NameLoss, choice: &SeededRandom) -> Tree {
    let names = &world.names;
    let mut tree = names.durable.clone();
    match loss {
        NameLoss::Nothing => return names.live.clone(),
        NameLoss::Everything => {}
        NameLoss::AnySubset => {
            let mut arrived: Vec<&Pending> = names.pending.iter().filter(|_| choice.below(2) == 0).collect();
            shuffle(&mut arrived, choice);
            arrived.iter().for_each(|pending| pending.change.apply(&mut tree));
        }
        NameLoss::NewFiles => {
            let is_new = |pending: &&Pending| {
                matches!(pending.change, NameChange::Link { .. })
                    && world.last_file_sync.is_none_or(|sync| pending.call > sync)
            };
            let lost: Vec<_> = names.pending.iter().filter(is_new).map(|p| p.change.inode()).collect();
            let kept = names.pending.iter().filter(|pending| !lost.contains(&pending.change.inode()));
            kept.for_each(|pending| pending.change.apply(&mut tree));
        }
    }
    tree
}

/// Any order, each as likely as every other.
fn shuffle<T>(items: &mut [T], choice: &SeededRandom) {
    for i in (1..items.len()).rev() {
        items.swap(i, below(choice, i + 1));
    }
}

fn below(choice: &SeededRandom, bound: usize) -> usize {
    choice.below(bound as u64) as usize
}

fn surviving_bytes(content: &Content, loss: DataLoss, choice: &SeededRandom) -> Arc<Vec<u8>> {
    if content.pending.is_empty() && loss != DataLoss::Nothing {
        return Arc::clone(&content.durable);
    }
    match loss {
        DataLoss::Nothing => Arc::clone(&content.live),
        DataLoss::Everything => Arc::clone(&content.durable),
        DataLoss::Suffix => Arc::new(some_prefix(content, choice)),
        DataLoss::Sectors => Arc::new(some_sectors(content, choice)),
        DataLoss::AllButLength => Arc::new(length_first(content, choice)),
        DataLoss::LastSectorTorn => Arc::new(torn(content, choice)),
    }
}

fn some_prefix(content: &Content, choice: &SeededRandom) -> Vec<u8> {
    let arrived = below(choice, content.pending.len() + 1);
    applied(content, &content.pending[..arrived])
}

fn applied(content: &Content, changes: &[Change]) -> Vec<u8> {
    let mut bytes = content.durable.to_vec();
    changes.iter().for_each(|change| change.apply(&mut bytes));
    bytes
}

fn some_sectors(content: &Content, choice: &SeededRandom) -> Vec<u8> {
    let sector = if choice.below(2) == 0 { 512 } else { 4096 };
    let mut bytes = content.durable.to_vec();
    for change in &content.pending {
        match change {
            Change::SetLen(_) => change.apply(&mut bytes),
            Change::Write { offset, data } => {
                for (at, piece) in sectors(*offset, data, sector) {
                    put_or_miss(&mut bytes, at, piece, choice);
                }
            }
        }
    }
    bytes
}

/// `data` cut where sectors begin, each piece with its place in the file.
fn sectors(offset: usize, data: &[u8], sector: usize) -> impl Iterator<Item = (usize, &[u8])> {
    let mut at = offset;
    let mut rest = data;
    std::iter::from_fn(move || {
        let room = sector - at % sector;
        let (piece, left) = rest.split_at_checked(room).unwrap_or((rest, &[]));
        let place = at;
        at += piece.len();
        rest = left;
        (!piece.is_empty()).then_some((place, piece))
    })
}

/// The piece with a chance of one half; else what was there, zeros or garbage.
fn put_or_miss(bytes: &mut Vec<u8>, at: usize, piece: &[u8], choice: &SeededRandom) {
    match choice.below(6) {
        0..3 => write_at(bytes, at, piece),
        3 => {}
        4 => write_at(bytes, at, &vec![0; piece.len()]),
        _ => write_at(bytes, at, &garbage(piece.len(), choice)),
    }
}

fn garbage(len: usize, choice: &SeededRandom) -> Vec<u8> {
    (0..len).map(|_| choice.next_u64() as u8).collect()
}

fn length_first(content: &Content, choice: &SeededRandom) -> Vec<u8> {
    let mut bytes = some_prefix(content, choice);
    let missing = content.live.len().saturating_sub(bytes.len());
    let tail = if choice.below(2) == 0 { vec![0; missing] } else { garbage(missing, choice) };
    bytes.extend(tail);
    bytes.truncate(content.live.len());
    bytes
}

fn torn(content: &Content, choice: &SeededRandom) -> Vec<u8> {
    let is_write = |change: &Change| matches!(change, Change::Write { .. });
    let last = content.pending.iter().rposition(is_write);
    let Some((last, Change::Write { offset, data })) = last.map(|i| (i, &content.pending[i])) else {
        return content.live.to_vec();
    };
    let mut bytes = applied(content, &content.pending[..last]);
    let Some((at, piece)) = sectors(*offset, data, 512).last() else { return bytes };
    let arrived = below(choice, piece.len());
    write_at(&mut bytes, *offset, &data[..at - offset + arrived]);
    if choice.below(2) == 0 {
        write_at(&mut bytes, at + arrived, &garbage(piece.len() - arrived, choice));
    }
    content.pending[last + 1..].iter().for_each(|change| change.apply(&mut bytes));
    bytes
}
