//! Crash images: the files that a restart finds after a crash.
//!
//! A kill loses nothing that reached the system. A power cut loses some of the changes since the
//! last sync of each file and directory. [`DataLoss`] and [`DirEntryLoss`] define the pieces and
//! the contents of lost ones. [`PersistedPieces`] selects the lost pieces. Synced data never
//! changes, because its corruption is a different fault.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::directories::{DirChange, DirTree, Directories, PendingDirChange};
use super::file_content::{FileChange, FileContent, write_into};
use super::loss_sampler::LossSampler;
use super::profiles::{Crash, DataLoss, DirEntryLoss, LostSector};
use super::state::MemFsState;

/// Returns the state that a restart finds.
pub(super) fn crash_image(state: &MemFsState, crash: &Crash) -> MemFsState {
    let (names, files) = match crash {
        Crash::Kill => {
            let mut files = BTreeMap::new();
            for (&inode, content) in &state.files {
                files.insert(inode, FileContent::all_durable(Arc::clone(&content.live)));
            }
            (state.directories.live.clone(), files)
        }
        Crash::PowerLoss(loss) => {
            let mut sampler = LossSampler::new(loss.persisted, loss.seed);
            let names = surviving_dir_entries(state, loss.dir_entries, &mut sampler);
            let mut files = BTreeMap::new();
            for (&inode, content) in &state.files {
                let bytes = surviving_bytes(content, loss.data, &mut sampler);
                files.insert(inode, FileContent::all_durable(bytes));
            }
            (names, files)
        }
    };
    state.crash_image(Directories::all_durable(names), files)
}

/// Returns the number of pieces that a loss of this kind decides about.
pub(super) fn pending_piece_count(state: &MemFsState, data: DataLoss, dir_entries: DirEntryLoss) -> usize {
    let dir_pieces = if dir_entries == DirEntryLoss::AnySubset { state.directories.pending.len() } else { 0 };
    let file_pieces: usize = state
        .files
        .values()
        .filter(|content| !content.pending.is_empty())
        .map(|content| pieces_of_file(content, data))
        .sum();
    dir_pieces + file_pieces
}

/// Returns the number of pieces of an unsynced file.
fn pieces_of_file(content: &FileContent, data: DataLoss) -> usize {
    match data {
        DataLoss::Nothing | DataLoss::Everything => 0,
        DataLoss::Suffix | DataLoss::LengthBeforeData { .. } | DataLoss::TornLastSector => {
            content.pending.len()
        }
        DataLoss::Sectors { size, .. } => {
            content.pending.iter().map(|change| change.sector_count(size)).sum()
        }
        DataLoss::Pages { size } => content.live.len().max(content.durable.len()).div_ceil(size),
    }
}

fn surviving_dir_entries(state: &MemFsState, loss: DirEntryLoss, sampler: &mut LossSampler) -> DirTree {
    let names = &state.directories;
    let mut tree = names.durable.clone();
    match loss {
        DirEntryLoss::Nothing => return names.live.clone(),
        DirEntryLoss::Everything => {}
        DirEntryLoss::AnySubset => {
            let mut persisted: Vec<&PendingDirChange> =
                names.pending.iter().filter(|_| sampler.next_persists()).collect();
            if sampler.is_random() {
                sampler.shuffle(&mut persisted);
            }
            for pending in persisted {
                pending.change.apply(&mut tree);
            }
        }
        DirEntryLoss::NewFiles => {
            let mut lost = Vec::new();
            for PendingDirChange { call, change } in &names.pending {
                let is_new = state.last_file_sync.is_none_or(|sync| *call > sync);
                if matches!(change, DirChange::Link { .. }) && is_new {
                    lost.push(change.inode());
                }
            }
            for pending in names.pending.iter().filter(|pending| !lost.contains(&pending.change.inode())) {
                pending.change.apply(&mut tree);
            }
        }
    }
    tree
}

fn surviving_bytes(content: &FileContent, loss: DataLoss, sampler: &mut LossSampler) -> Arc<Vec<u8>> {
    if content.pending.is_empty() {
        return Arc::clone(&content.durable);
    }
    match loss {
        DataLoss::Nothing if content.has_lost_writes => Arc::new(with_changes(content, &content.pending)),
        DataLoss::Nothing => Arc::clone(&content.live),
        DataLoss::Everything => Arc::clone(&content.durable),
        DataLoss::Suffix => Arc::new(persisted_prefix(content, sampler)),
        DataLoss::Sectors { size, lost } => Arc::new(persisted_sectors(content, size, lost, sampler)),
        DataLoss::Pages { size } => Arc::new(persisted_pages(content, size, sampler)),
        DataLoss::LengthBeforeData { garbage } => Arc::new(length_before_data(content, garbage, sampler)),
        DataLoss::TornLastSector => Arc::new(torn_last_sector(content, sampler)),
    }
}

fn persisted_prefix(content: &FileContent, sampler: &mut LossSampler) -> Vec<u8> {
    let persisted = sampler.persisted_prefix_len(content.pending.len());
    with_changes(content, &content.pending[..persisted])
}

fn with_changes(content: &FileContent, changes: &[FileChange]) -> Vec<u8> {
    let mut bytes = content.durable.to_vec();
    for change in changes {
        change.apply(&mut bytes);
    }
    bytes
}

/// Decides each sector of each write. A change of length is one piece, too.
///
/// The length is a property of its own, as in the inode of a real file. A write within the length
/// of its moment does not extend the file, even if the earlier extension is lost. Its bytes then
/// stay invisible beyond the end, until a later extension persists.
fn persisted_sectors(
    content: &FileContent,
    size: usize,
    lost: LostSector,
    sampler: &mut LossSampler,
) -> Vec<u8> {
    let mut bytes = content.durable.to_vec();
    let mut live_len = bytes.len();
    let mut persisted_len = live_len;
    for change in &content.pending {
        match change {
            FileChange::SetLen(len) => {
                let is_extension = *len >= live_len;
                live_len = *len;
                if sampler.next_persists() {
                    persisted_len = *len;
                    bytes.resize(if is_extension { bytes.len().max(*len) } else { *len }, 0);
                }
            }
            FileChange::Write { offset, data } => {
                let extends = offset + data.len() > live_len;
                live_len = live_len.max(offset + data.len());
                for (start, piece) in split_into_sectors(*offset, data, size) {
                    if sampler.next_persists() {
                        write_into(&mut bytes, start, piece);
                    } else {
                        fill_lost_sector(&mut bytes, start, piece.len(), lost, sampler);
                    }
                }
                if extends {
                    persisted_len = persisted_len.max(bytes.len());
                }
            }
        }
    }
    bytes.truncate(persisted_len);
    bytes
}

/// Splits `data` at sector boundaries. Returns each piece with its offset in the file.
fn split_into_sectors(offset: usize, data: &[u8], sector: usize) -> impl Iterator<Item = (usize, &[u8])> {
    let mut next = offset;
    let mut rest = data;
    std::iter::from_fn(move || {
        let (piece, later) = rest.split_at_checked(sector - next % sector).unwrap_or((rest, &[]));
        let start = next;
        next += piece.len();
        rest = later;
        (!piece.is_empty()).then_some((start, piece))
    })
}

fn fill_lost_sector(
    bytes: &mut Vec<u8>,
    start: usize,
    len: usize,
    lost: LostSector,
    sampler: &mut LossSampler,
) {
    match lost {
        LostSector::OldBytes => {}
        LostSector::Zeros => write_into(bytes, start, &vec![0; len]),
        LostSector::Garbage => write_into(bytes, start, &sampler.random_bytes(len)),
    }
}

/// Models a page cache: each page reached the disk in its state of some moment, independently of
/// other pages.
fn persisted_pages(content: &FileContent, size: usize, sampler: &mut LossSampler) -> Vec<u8> {
    let moments = content.pending.len();
    let max_len = content.live.len().max(content.durable.len());
    let page_moments: Vec<usize> =
        (0..max_len.div_ceil(size)).map(|_| sampler.persisted_page_version(moments)).collect();
    // The length is that of the youngest page's moment.
    let youngest = page_moments.iter().copied().max().unwrap_or(0);
    let mut bytes = with_changes(content, &content.pending[..youngest]);
    for (page, &moment) in page_moments.iter().enumerate().filter(|(_, moment)| **moment < youngest) {
        let start = (page * size).min(bytes.len());
        let end = (start + size).min(bytes.len());
        let mut old_page = vec![0; end - start];
        let durable = &content.durable[start.min(content.durable.len())..end.min(content.durable.len())];
        old_page[..durable.len()].copy_from_slice(durable);
        for change in &content.pending[..moment] {
            change.apply_to_page(start, &mut old_page);
        }
        bytes[start..end].copy_from_slice(&old_page);
    }
    bytes
}

fn length_before_data(content: &FileContent, garbage: bool, sampler: &mut LossSampler) -> Vec<u8> {
    let mut bytes = persisted_prefix(content, sampler);
    let lost = content.live.len().saturating_sub(bytes.len());
    bytes.extend(if garbage { sampler.random_bytes(lost) } else { vec![0; lost] });
    bytes.truncate(content.live.len());
    bytes
}

fn torn_last_sector(content: &FileContent, sampler: &mut LossSampler) -> Vec<u8> {
    let last = content.pending.iter().rposition(|change| matches!(change, FileChange::Write { .. }));
    let Some((last, FileChange::Write { offset, data })) = last.map(|i| (i, &content.pending[i])) else {
        return content.live.to_vec();
    };
    let mut bytes = with_changes(content, &content.pending[..last]);
    let Some((start, piece)) = split_into_sectors(*offset, data, 512).last() else { return bytes };
    let persisted = sampler.uniform(piece.len());
    write_into(&mut bytes, *offset, &data[..start - offset + persisted]);
    if sampler.uniform(2) == 0 {
        write_into(&mut bytes, start + persisted, &sampler.random_bytes(piece.len() - persisted));
    }
    for change in &content.pending[last + 1..] {
        change.apply(&mut bytes);
    }
    bytes
}
