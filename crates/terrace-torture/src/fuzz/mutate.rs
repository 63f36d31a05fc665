//! Random changes of inputs, which prefer values that readers often handle wrongly.
//!
//! ```text
//!   one file     1 to 6 changes, then usually valid checksums
//!   an archive   the same for one of its files; or a file is removed, copied from another archive,
//!                or renumbered. Then usually valid checksums in all files
//! ```

use std::collections::BTreeMap;

use terrace_format::coding::{put_varint64, varint_len};
use terrace_format::filename::FileName;
use terrace_testkit::rng::Rng;

use super::input_format::InputFormat;
use super::{MAX_INPUT_LEN, archive};

/// Changes `input`, sometimes with parts of one of `donors`.
pub fn mutate(format: InputFormat, input: &mut Vec<u8>, donors: &[Vec<u8>], rng: &mut Rng) {
    let donor = rng.below(donors.len().max(1) as u64) as usize;
    let donor = donors.get(donor).map_or(&[][..], |donor| donor);
    match format {
        InputFormat::Archive => *input = mutate_archive(input, donor, rng),
        format => mutate_file(format, input, donor, rng),
    }
    input.truncate(MAX_INPUT_LEN);
}

fn mutate_file(format: InputFormat, file: &mut Vec<u8>, donor: &[u8], rng: &mut Rng) {
    // After a resize of a table, most of its handles point to wrong offsets.
    let resize_one_in = if format == InputFormat::Table { 16 } else { 3 };
    for _ in 0..=rng.skewed(5) {
        if rng.one_in(resize_one_in) {
            resize(file, donor, rng);
        } else {
            overwrite(file, rng);
        }
    }
    if !rng.one_in(8) {
        format.fix_checksums(file);
    }
}

fn mutate_archive(archive_bytes: &[u8], donor: &[u8], rng: &mut Rng) -> Vec<u8> {
    let files = archive::decode(archive_bytes);
    let Some((name, bytes)) = pick_file(&files, rng) else { return donor.to_vec() };
    let mut changed: BTreeMap<String, Vec<u8>> =
        files.iter().map(|(name, bytes)| (name.clone(), bytes.to_vec())).collect();
    match rng.below(16) {
        0 => drop(changed.remove(name)),
        1 => drop(changed.insert(mutate_file_name(name, rng), bytes.to_vec())),
        2 => {
            let donor_files = archive::decode(donor);
            changed.extend(pick_file(&donor_files, rng).map(|(name, bytes)| (name.clone(), bytes.to_vec())));
        }
        _ => {
            let mut bytes = bytes.to_vec();
            mutate_file(InputFormat::for_file(name), &mut bytes, donor, rng);
            changed.insert(name.clone(), bytes);
        }
    }
    if !rng.one_in(8) {
        for (name, bytes) in &mut changed {
            InputFormat::for_file(name).fix_checksums(bytes);
        }
    }
    archive::encode(&changed)
}

fn pick_file<'a, 'b>(
    files: &'a BTreeMap<String, &'b [u8]>,
    rng: &mut Rng,
) -> Option<(&'a String, &'a &'b [u8])> {
    let nth = rng.below(files.len().max(1) as u64) as usize;
    files.iter().nth(nth)
}

/// Returns a name of the same kind with a near or distant number, or a name of another kind.
fn mutate_file_name(name: &str, rng: &mut Rng) -> String {
    let old = FileName::parse(name).and_then(|file| file.number()).unwrap_or(9);
    let small = rng.below(12);
    let number = rng.pick(&[old.wrapping_add(1), old.saturating_sub(1), small, 0, u64::MAX / 2, u64::MAX]);
    let kinds = [FileName::Log, FileName::Table, FileName::OldTable, FileName::Manifest, FileName::Temp];
    let kind = match FileName::parse(name) {
        Some(FileName::Log(_)) => FileName::Log,
        Some(FileName::Table(_)) if !rng.one_in(3) => FileName::Table,
        _ => rng.pick(&kinds),
    };
    kind(number).to_string()
}

/// Boundary values of integer types, lengths and offsets.
static INTERESTING_NUMBERS: &[u64] = &[
    0,
    1,
    4,
    5,
    7,
    8,
    16,
    48,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0x8000,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_fffa,
    0xffff_ffff,
    0x1_0000_0000,
    (1 << 56) - 1,
    1 << 56,
    1 << 63,
    u64::MAX - 5,
    u64::MAX - 4,
    u64::MAX,
];

fn interesting_number(file: &[u8], rng: &mut Rng) -> u64 {
    match rng.below(4) {
        0 => (file.len() as u64).wrapping_add(rng.below(64)).wrapping_sub(32),
        1 => rng.skewed(u64::MAX >> 1),
        _ => rng.pick(INTERESTING_NUMBERS).wrapping_add(rng.below(3)).wrapping_sub(1),
    }
}

/// Returns an offset in `file`, which is not empty. Offsets near both ends are more likely, because
/// headers and footers are there.
fn random_offset(file: &[u8], rng: &mut Rng) -> usize {
    let last = file.len() as u64 - 1;
    let offset = match rng.below(4) {
        0 => rng.below(64).min(last),
        1 => last - rng.below(64).min(last),
        _ => rng.below(last + 1),
    };
    offset as usize
}

/// Changes bytes but not the length.
fn overwrite(file: &mut [u8], rng: &mut Rng) {
    if file.is_empty() {
        return;
    }
    let offset = random_offset(file, rng);
    match rng.below(8) {
        0 | 1 => file[offset] ^= 1 << rng.below(8),
        2 => file[offset] = rng.next_u64() as u8,
        3 => file[offset] = file[offset].wrapping_add(rng.below(9) as u8).wrapping_sub(4),
        4 => {
            let from = random_offset(file, rng);
            let len = (rng.skewed(64) as usize).min(file.len() - offset.max(from));
            file.copy_within(from..from + len, offset);
        }
        5 => {
            let number = interesting_number(file, rng).to_le_bytes();
            let width = rng.pick(&[2, 4, 8]).min(file.len() - offset);
            file[offset..offset + width].copy_from_slice(&number[..width]);
        }
        _ => {
            let number = interesting_number(file, rng);
            let mut varint = Vec::new();
            if varint_len(number) <= file.len() - offset {
                put_varint64(&mut varint, number);
                file[offset..offset + varint.len()].copy_from_slice(&varint);
            }
        }
    }
}

/// Removes or inserts bytes.
fn resize(file: &mut Vec<u8>, donor: &[u8], rng: &mut Rng) {
    let offset = if file.is_empty() { 0 } else { random_offset(file, rng) };
    let len = rng.skewed(256) as usize;
    match rng.below(7) {
        0 => drop(file.drain(offset..(offset + len).min(file.len()))),
        1 => file.truncate(offset),
        2 => drop(file.splice(offset..offset, std::iter::repeat_n(rng.next_u64() as u8, len))),
        3 => {
            let part = file[offset..(offset + len).min(file.len())].to_vec();
            file.splice(offset..offset, part);
        }
        4 => {
            let mut varint = Vec::new();
            put_varint64(&mut varint, interesting_number(file, rng));
            file.splice(offset..offset, varint);
        }
        5 => file.extend(std::iter::repeat_n(0, len)),
        _ if donor.is_empty() => file.push(rng.next_u64() as u8),
        _ => {
            let from = random_offset(donor, rng);
            let part = &donor[from..(from + len).min(donor.len())];
            file.splice(offset..offset, part.iter().copied());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzz::TARGETS;

    /// Otherwise most inputs would fail at their first checksum.
    #[test]
    fn most_mutated_inputs_have_valid_checksums() {
        for target in TARGETS.iter().filter(|target| target.format != InputFormat::NoChecksums) {
            let seeds = (target.seed_inputs)();
            let mut rng = Rng::new(1);
            let mut valid = 0;
            for _ in 0..400 {
                let mut input = seeds[rng.below(seeds.len() as u64) as usize].clone();
                mutate(target.format, &mut input, &seeds, &mut rng);
                valid += u32::from(target.format.checksums_match(&input) == Some(true));
            }
            assert!(valid >= 200, "{}: {valid} of 400", target.name);
        }
    }

    #[test]
    fn mutation_is_deterministic() {
        let mutated = |seed| {
            let mut input = vec![7; 300];
            let mut rng = Rng::new(seed);
            for _ in 0..50 {
                mutate(InputFormat::Log, &mut input, &[vec![1, 2, 3]], &mut rng);
            }
            input
        };
        assert_eq!(mutated(1), mutated(1));
        assert_ne!(mutated(1), mutated(2));
    }

    #[test]
    fn inputs_of_any_length_are_mutated() {
        let mut rng = Rng::new(2);
        for format in [InputFormat::NoChecksums, InputFormat::Log, InputFormat::Table, InputFormat::Archive] {
            for mut input in [vec![], vec![1], vec![2; MAX_INPUT_LEN]] {
                for _ in 0..200 {
                    mutate(format, &mut input, &[], &mut rng);
                }
                assert!(input.len() <= MAX_INPUT_LEN);
            }
        }
    }
}
