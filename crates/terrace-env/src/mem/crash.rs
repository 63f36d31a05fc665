//! What a crash leaves: a table of ways to lose what was pending.
//!
//! A kill loses nothing that reached the system. A power cut takes from each file some of the changes since its last
//! sync, and from the directories some of the changes since theirs: [`DataLoss`] and [`NameLoss`] say what the pieces
//! are and what a missing one leaves, [`Arrives`] which of them are missing. What was synced is never touched: damage
//! to it is another matter.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::choice::Choice;
use super::content::{Change, Content, write_at};
use super::names::{NameChange, Names, Pending, Tree};
use super::profiles::{Arrives, Crash, DataLoss, Missing, NameLoss, PowerLoss};
use super::world::World;

/// The state that a restart finds.
pub(super) fn image(world: &World, how: &Crash) -> World {
    let (names, files) = match how {
        Crash::Kill => {
            let live = |content: &Content| Content::durable(Arc::clone(&content.live));
            let files = world.files.iter().map(|(&inode, content)| (inode, live(content))).collect();
            (world.names.live.clone(), files)
        }
        Crash::Power(loss) => {
            let mut choice = Choice::new(loss.arrives, loss.seed);
            let names = surviving_names(world, loss.names, &mut choice);
            let mut files = BTreeMap::new();
            for (&inode, content) in &world.files {
                let bytes = surviving_bytes(content, loss.data, &mut choice);
                files.insert(inode, Content::durable(bytes));
            }
            (names, files)
        }
    };
    world.image(Names::durable(names), files)
}

/// How many pieces a loss of this kind decides about.
pub(super) fn pieces(world: &World, data: DataLoss, names: NameLoss) -> usize {
    let loss = PowerLoss { data, names, arrives: Arrives::All, seed: 0 };
    let in_names = if names == NameLoss::AnySubset { world.names.pending.len() } else { 0 };
    let of_file = |content: &Content| match loss.data {
        DataLoss::Nothing | DataLoss::Everything => 0,
        DataLoss::Suffix | DataLoss::AllButLength { .. } | DataLoss::LastSectorTorn => content.pending.len(),
        DataLoss::Sectors { size, .. } => content.pending.iter().map(|change| change.pieces(size)).sum(),
        DataLoss::Pages { size } => content.live.len().max(content.durable.len()).div_ceil(size),
    };
    let unsynced = world.files.values().filter(|content| !content.pending.is_empty());
    in_names + unsynced.map(of_file).sum::<usize>()
}

fn surviving_names(world: &World, loss: NameLoss, choice: &mut Choice) -> Tree {
    let names = &world.names;
    let mut tree = names.durable.clone();
    match loss {
        NameLoss::Nothing => return names.live.clone(),
        NameLoss::Everything => {}
        NameLoss::AnySubset => {
            let mut arrived: Vec<&Pending> = names.pending.iter().filter(|_| choice.takes()).collect();
            if choice.is_free() {
                choice.shuffle(&mut arrived);
            }
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

fn surviving_bytes(content: &Content, loss: DataLoss, choice: &mut Choice) -> Arc<Vec<u8>> {
    if content.pending.is_empty() {
        return Arc::clone(&content.durable);
    }
    match loss {
        DataLoss::Nothing if content.forgot => Arc::new(applied(content, &content.pending)),
        DataLoss::Nothing => Arc::clone(&content.live),
        DataLoss::Everything => Arc::clone(&content.durable),
        DataLoss::Suffix => Arc::new(some_prefix(content, choice)),
        DataLoss::Sectors { size, missing } => Arc::new(some_sectors(content, size, missing, choice)),
        DataLoss::Pages { size } => Arc::new(pages_of_their_own_time(content, size, choice)),
        DataLoss::AllButLength { garbage } => Arc::new(length_first(content, garbage, choice)),
        DataLoss::LastSectorTorn => Arc::new(torn(content, choice)),
    }
}

fn some_prefix(content: &Content, choice: &mut Choice) -> Vec<u8> {
    let arrived = choice.prefix(content.pending.len());
    applied(content, &content.pending[..arrived])
}

fn applied(content: &Content, changes: &[Change]) -> Vec<u8> {
    let mut bytes = content.durable.to_vec();
    changes.iter().for_each(|change| change.apply(&mut bytes));
    bytes
}

/// Each write in pieces of a sector; a change of length is a piece, too.
fn some_sectors(content: &Content, size: usize, missing: Missing, choice: &mut Choice) -> Vec<u8> {
    let mut bytes = content.durable.to_vec();
    for change in &content.pending {
        match change {
            Change::SetLen(_) if choice.takes() => change.apply(&mut bytes),
            Change::SetLen(_) => {}
            Change::Write { offset, data } => {
                for (at, piece) in sectors(*offset, data, size) {
                    if choice.takes() {
                        write_at(&mut bytes, at, piece);
                    } else {
                        miss(&mut bytes, at, piece.len(), missing, choice);
                    }
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

fn miss(bytes: &mut Vec<u8>, at: usize, len: usize, missing: Missing, choice: &mut Choice) {
    match missing {
        Missing::Old => {}
        Missing::Zeros => write_at(bytes, at, &vec![0; len]),
        Missing::Garbage => write_at(bytes, at, &choice.garbage(len)),
    }
}

/// What a cache of pages does: each page reached the medium as it was at some moment, and no two moments need agree.
fn pages_of_their_own_time(content: &Content, size: usize, choice: &mut Choice) -> Vec<u8> {
    let moments = content.pending.len();
    let longest = content.live.len().max(content.durable.len());
    let of_page: Vec<usize> = (0..longest.div_ceil(size)).map(|_| choice.moment(moments)).collect();
    // The length is that of the youngest page's moment.
    let youngest = of_page.iter().copied().max().unwrap_or(0);
    let mut bytes = applied(content, &content.pending[..youngest]);
    for (page, &moment) in of_page.iter().enumerate().filter(|(_, moment)| **moment < youngest) {
        let start = (page * size).min(bytes.len());
        let end = (start + size).min(bytes.len());
        let mut then = vec![0; end - start];
        let old = &content.durable[start.min(content.durable.len())..end.min(content.durable.len())];
        then[..old.len()].copy_from_slice(old);
        content.pending[..moment].iter().for_each(|change| change.apply_within(start, &mut then));
        bytes[start..end].copy_from_slice(&then);
    }
    bytes
}

fn length_first(content: &Content, garbage: bool, choice: &mut Choice) -> Vec<u8> {
    let mut bytes = some_prefix(content, choice);
    let missing = content.live.len().saturating_sub(bytes.len());
    bytes.extend(if garbage { choice.garbage(missing) } else { vec![0; missing] });
    bytes.truncate(content.live.len());
    bytes
}

fn torn(content: &Content, choice: &mut Choice) -> Vec<u8> {
    let is_write = |change: &Change| matches!(change, Change::Write { .. });
    let last = content.pending.iter().rposition(is_write);
    let Some((last, Change::Write { offset, data })) = last.map(|i| (i, &content.pending[i])) else {
        return content.live.to_vec();
    };
    let mut bytes = applied(content, &content.pending[..last]);
    let Some((at, piece)) = sectors(*offset, data, 512).last() else { return bytes };
    let arrived = choice.below(piece.len());
    write_at(&mut bytes, *offset, &data[..at - offset + arrived]);
    if choice.below(2) == 0 {
        write_at(&mut bytes, at + arrived, &choice.garbage(piece.len() - arrived));
    }
    content.pending[last + 1..].iter().for_each(|change| change.apply(&mut bytes));
    bytes
}
