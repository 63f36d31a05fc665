//! What a crash leaves: a table of ways to lose what was pending.
//!
//! A kill loses nothing that reached the system. A power cut takes from each file some of the changes since its last
//! sync, and from the directories some of the changes since theirs: [`DataLoss`] and [`DirEntryLoss`] say what the pieces
//! are and what a missing one leaves, [`PersistedPieces`] which of them are missing. What was synced is never touched: damage
//! to it is another matter.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::directories::{DirChange, DirTree, Directories, PendingDirChange};
use super::file_content::{FileChange, FileContent, write_into};
use super::loss_sampler::LossSampler;
use super::profiles::{Crash, DataLoss, DirEntryLoss, LostSector, PersistedPieces, PowerLoss};
use super::state::MemFsState;

/// The state that a restart finds.
pub(super) fn crash_image(world: &MemFsState, how: &Crash) -> MemFsState {
    let (names, files) = match how {
        Crash::Kill => {
            let live = |content: &FileContent| FileContent::all_durable(Arc::clone(&content.live));
            let files = world.files.iter().map(|(&inode, content)| (inode, live(content))).collect();
            (world.directories.live.clone(), files)
        }
        Crash::PowerLoss(loss) => {
            let mut choice = LossSampler::new(loss.persisted, loss.seed);
            let names = surviving_dir_entries(world, loss.dir_entries, &mut choice);
            let mut files = BTreeMap::new();
            for (&inode, content) in &world.files {
                let bytes = surviving_bytes(content, loss.data, &mut choice);
                files.insert(inode, FileContent::all_durable(bytes));
            }
            (names, files)
        }
    };
    world.crash_image(Directories::all_durable(names), files)
}

/// How many pieces a loss of this kind decides about.
pub(super) fn pending_piece_count(world: &MemFsState, data: DataLoss, names: DirEntryLoss) -> usize {
    let loss = PowerLoss { data, dir_entries: names, persisted: PersistedPieces::All, seed: 0 };
    let in_names = if names == DirEntryLoss::AnySubset { world.directories.pending.len() } else { 0 };
    let of_file = |content: &FileContent| match loss.data {
        DataLoss::Nothing | DataLoss::Everything => 0,
        DataLoss::Suffix | DataLoss::LengthBeforeData { .. } | DataLoss::TornLastSector => {
            content.pending.len()
        }
        DataLoss::Sectors { size, .. } => {
            content.pending.iter().map(|change| change.sector_count(size)).sum()
        }
        DataLoss::Pages { size } => content.live.len().max(content.durable.len()).div_ceil(size),
    };
    let unsynced = world.files.values().filter(|content| !content.pending.is_empty());
    in_names + unsynced.map(of_file).sum::<usize>()
}

fn surviving_dir_entries(world: &MemFsState, loss: DirEntryLoss, choice: &mut LossSampler) -> DirTree {
    let names = &world.directories;
    let mut tree = names.durable.clone();
    match loss {
        DirEntryLoss::Nothing => return names.live.clone(),
        DirEntryLoss::Everything => {}
        DirEntryLoss::AnySubset => {
            let mut arrived: Vec<&PendingDirChange> =
                names.pending.iter().filter(|_| choice.next_persists()).collect();
            if choice.is_random() {
                choice.shuffle(&mut arrived);
            }
            arrived.iter().for_each(|pending| pending.change.apply(&mut tree));
        }
        DirEntryLoss::NewFiles => {
            let is_new = |pending: &&PendingDirChange| {
                matches!(pending.change, DirChange::Link { .. })
                    && world.last_file_sync.is_none_or(|sync| pending.call > sync)
            };
            let lost: Vec<_> = names.pending.iter().filter(is_new).map(|p| p.change.inode()).collect();
            let kept = names.pending.iter().filter(|pending| !lost.contains(&pending.change.inode()));
            kept.for_each(|pending| pending.change.apply(&mut tree));
        }
    }
    tree
}

fn surviving_bytes(content: &FileContent, loss: DataLoss, choice: &mut LossSampler) -> Arc<Vec<u8>> {
    if content.pending.is_empty() {
        return Arc::clone(&content.durable);
    }
    match loss {
        DataLoss::Nothing if content.has_lost_writes => Arc::new(with_changes(content, &content.pending)),
        DataLoss::Nothing => Arc::clone(&content.live),
        DataLoss::Everything => Arc::clone(&content.durable),
        DataLoss::Suffix => Arc::new(persisted_prefix(content, choice)),
        DataLoss::Sectors { size, lost: missing } => {
            Arc::new(persisted_sectors(content, size, missing, choice))
        }
        DataLoss::Pages { size } => Arc::new(persisted_pages(content, size, choice)),
        DataLoss::LengthBeforeData { garbage } => Arc::new(length_before_data(content, garbage, choice)),
        DataLoss::TornLastSector => Arc::new(torn_last_sector(content, choice)),
    }
}

fn persisted_prefix(content: &FileContent, choice: &mut LossSampler) -> Vec<u8> {
    let arrived = choice.persisted_prefix_len(content.pending.len());
    with_changes(content, &content.pending[..arrived])
}

fn with_changes(content: &FileContent, changes: &[FileChange]) -> Vec<u8> {
    let mut bytes = content.durable.to_vec();
    changes.iter().for_each(|change| change.apply(&mut bytes));
    bytes
}

/// Each write in pieces of a sector; a change of length is a piece, too.
fn persisted_sectors(
    content: &FileContent,
    size: usize,
    missing: LostSector,
    choice: &mut LossSampler,
) -> Vec<u8> {
    let mut bytes = content.durable.to_vec();
    for change in &content.pending {
        match change {
            FileChange::SetLen(_) if choice.next_persists() => change.apply(&mut bytes),
            FileChange::SetLen(_) => {}
            FileChange::Write { offset, data } => {
                for (at, piece) in split_into_sectors(*offset, data, size) {
                    if choice.next_persists() {
                        write_into(&mut bytes, at, piece);
                    } else {
                        fill_lost_sector(&mut bytes, at, piece.len(), missing, choice);
                    }
                }
            }
        }
    }
    bytes
}

/// `data` cut where sectors begin, each piece with its place in the file.
fn split_into_sectors(offset: usize, data: &[u8], sector: usize) -> impl Iterator<Item = (usize, &[u8])> {
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

fn fill_lost_sector(
    bytes: &mut Vec<u8>,
    at: usize,
    len: usize,
    missing: LostSector,
    choice: &mut LossSampler,
) {
    match missing {
        LostSector::OldBytes => {}
        LostSector::Zeros => write_into(bytes, at, &vec![0; len]),
        LostSector::Garbage => write_into(bytes, at, &choice.random_bytes(len)),
    }
}

/// What a cache of pages does: each page reached the medium as it was at some moment, and no two moments need agree.
fn persisted_pages(content: &FileContent, size: usize, choice: &mut LossSampler) -> Vec<u8> {
    let moments = content.pending.len();
    let longest = content.live.len().max(content.durable.len());
    let of_page: Vec<usize> =
        (0..longest.div_ceil(size)).map(|_| choice.persisted_page_version(moments)).collect();
    // The length is that of the youngest page's moment.
    let youngest = of_page.iter().copied().max().unwrap_or(0);
    let mut bytes = with_changes(content, &content.pending[..youngest]);
    for (page, &moment) in of_page.iter().enumerate().filter(|(_, moment)| **moment < youngest) {
        let start = (page * size).min(bytes.len());
        let end = (start + size).min(bytes.len());
        let mut then = vec![0; end - start];
        let old = &content.durable[start.min(content.durable.len())..end.min(content.durable.len())];
        then[..old.len()].copy_from_slice(old);
        content.pending[..moment].iter().for_each(|change| change.apply_to_page(start, &mut then));
        bytes[start..end].copy_from_slice(&then);
    }
    bytes
}

fn length_before_data(content: &FileContent, garbage: bool, choice: &mut LossSampler) -> Vec<u8> {
    let mut bytes = persisted_prefix(content, choice);
    let missing = content.live.len().saturating_sub(bytes.len());
    bytes.extend(if garbage { choice.random_bytes(missing) } else { vec![0; missing] });
    bytes.truncate(content.live.len());
    bytes
}

fn torn_last_sector(content: &FileContent, choice: &mut LossSampler) -> Vec<u8> {
    let is_write = |change: &FileChange| matches!(change, FileChange::Write { .. });
    let last = content.pending.iter().rposition(is_write);
    let Some((last, FileChange::Write { offset, data })) = last.map(|i| (i, &content.pending[i])) else {
        return content.live.to_vec();
    };
    let mut bytes = with_changes(content, &content.pending[..last]);
    let Some((at, piece)) = split_into_sectors(*offset, data, 512).last() else { return bytes };
    let arrived = choice.uniform(piece.len());
    write_into(&mut bytes, *offset, &data[..at - offset + arrived]);
    if choice.uniform(2) == 0 {
        write_into(&mut bytes, at + arrived, &choice.random_bytes(piece.len() - arrived));
    }
    content.pending[last + 1..].iter().for_each(|change| change.apply(&mut bytes));
    bytes
}
