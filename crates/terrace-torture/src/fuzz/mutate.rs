//! Changes inputs: at random, but knowing what readers of bytes stumble over, and where checksums are.
//!
//! ```text
//!   one file    1 to 6 changes, then its checksums are made right, mostly
//!   a pack      the same to one of its files; or a file goes, comes from another pack, or takes another number.
//!               Then the checksums of all are made right
//! ```

use std::collections::BTreeMap;

use terrace_format::coding::{put_varint64, varint_len};
use terrace_format::filename::FileName;
use terrace_testkit::rng::Rng;

use super::form::Form;
use super::{INPUT_MAX, pack};

/// Changes `input`, perhaps with parts of one of `donors`.
pub fn mutate(form: Form, input: &mut Vec<u8>, donors: &[Vec<u8>], rng: &mut Rng) {
    let donor = rng.below(donors.len().max(1) as u64) as usize;
    let donor = donors.get(donor).map_or(&[][..], |donor| donor);
    match form {
        Form::Pack => *input = mutate_pack(input, donor, rng),
        form => mutate_file(form, input, donor, rng),
    }
    input.truncate(INPUT_MAX);
}

fn mutate_file(form: Form, file: &mut Vec<u8>, donor: &[u8], rng: &mut Rng) {
    // Of a table whose parts have moved nothing is where its handles say.
    let resize_one_in = if form == Form::Table { 16 } else { 3 };
    for _ in 0..=rng.skewed(5) {
        if rng.one_in(resize_one_in) {
            resize(file, donor, rng);
        } else {
            overwrite(file, rng);
        }
    }
    if !rng.one_in(8) {
        form.mend(file);
    }
}

fn mutate_pack(pack: &[u8], donor: &[u8], rng: &mut Rng) -> Vec<u8> {
    let files = pack::decode(pack);
    let Some((name, bytes)) = one_of(&files, rng) else { return donor.to_vec() };
    let mut changed: BTreeMap<String, Vec<u8>> =
        files.iter().map(|(name, bytes)| (name.clone(), bytes.to_vec())).collect();
    match rng.below(16) {
        0 => drop(changed.remove(name)),
        1 => drop(changed.insert(other_name(name, rng), bytes.to_vec())),
        2 => {
            let given = pack::decode(donor);
            changed.extend(one_of(&given, rng).map(|(name, bytes)| (name.clone(), bytes.to_vec())));
        }
        _ => {
            let mut bytes = bytes.to_vec();
            mutate_file(Form::of_file(name), &mut bytes, donor, rng);
            changed.insert(name.clone(), bytes);
        }
    }
    if !rng.one_in(8) {
        changed.iter_mut().for_each(|(name, bytes)| Form::of_file(name).mend(bytes));
    }
    pack::encode(&changed)
}

fn one_of<'a, 'b>(
    files: &'a BTreeMap<String, &'b [u8]>,
    rng: &mut Rng,
) -> Option<(&'a String, &'a &'b [u8])> {
    let nth = rng.below(files.len().max(1) as u64) as usize;
    files.iter().nth(nth)
}

/// A name of the same kind with a number nearby, or far off; or of another kind.
fn other_name(name: &str, rng: &mut Rng) -> String {
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

/// Numbers at which arithmetic changes its mind.
static NUMBERS: &[u64] = &[
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

fn number(file: &[u8], rng: &mut Rng) -> u64 {
    match rng.below(4) {
        0 => (file.len() as u64).wrapping_add(rng.below(64)).wrapping_sub(32),
        1 => rng.skewed(u64::MAX >> 1),
        _ => rng.pick(NUMBERS).wrapping_add(rng.below(3)).wrapping_sub(1),
    }
}

/// Somewhere in `file`, which is not empty; its ends more often, since what leads to the rest stands there.
fn place(file: &[u8], rng: &mut Rng) -> usize {
    let last = file.len() as u64 - 1;
    let at = match rng.below(4) {
        0 => rng.below(64).min(last),
        1 => last - rng.below(64).min(last),
        _ => rng.below(last + 1),
    };
    at as usize
}

/// Changes bytes, and not their count.
fn overwrite(file: &mut [u8], rng: &mut Rng) {
    if file.is_empty() {
        return;
    }
    let at = place(file, rng);
    match rng.below(8) {
        0 | 1 => file[at] ^= 1 << rng.below(8),
        2 => file[at] = rng.next_u64() as u8,
        3 => file[at] = file[at].wrapping_add(rng.below(9) as u8).wrapping_sub(4),
        4 => {
            let from = place(file, rng);
            let len = (rng.skewed(64) as usize).min(file.len() - at.max(from));
            file.copy_within(from..from + len, at);
        }
        5 => {
            let number = number(file, rng).to_le_bytes();
            let width = rng.pick(&[2, 4, 8]).min(file.len() - at);
            file[at..at + width].copy_from_slice(&number[..width]);
        }
        _ => {
            let (mut varint, number) = (Vec::new(), number(file, rng));
            if varint_len(number) <= file.len() - at {
                put_varint64(&mut varint, number);
                file[at..at + varint.len()].copy_from_slice(&varint);
            }
        }
    }
}

/// Takes bytes out, or puts some in.
fn resize(file: &mut Vec<u8>, donor: &[u8], rng: &mut Rng) {
    let at = if file.is_empty() { 0 } else { place(file, rng) };
    let len = rng.skewed(256) as usize;
    match rng.below(7) {
        0 => drop(file.drain(at..(at + len).min(file.len()))),
        1 => file.truncate(at),
        2 => drop(file.splice(at..at, std::iter::repeat_n(rng.next_u64() as u8, len))),
        3 => {
            let part = file[at..(at + len).min(file.len())].to_vec();
            file.splice(at..at, part);
        }
        4 => {
            let mut varint = Vec::new();
            put_varint64(&mut varint, number(file, rng));
            file.splice(at..at, varint);
        }
        5 => file.extend(std::iter::repeat_n(0, len)),
        _ if donor.is_empty() => file.push(rng.next_u64() as u8),
        _ => {
            let from = place(donor, rng);
            let part = &donor[from..(from + len).min(donor.len())];
            file.splice(at..at, part.iter().copied());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzz::TARGETS;

    /// Without this most inputs would stop at their first checksum.
    #[test]
    fn most_inputs_pass_their_checksums() {
        for target in TARGETS.iter().filter(|target| target.form != Form::Plain) {
            let seeds = (target.seeds)();
            let mut rng = Rng::new(1);
            let mut passed = 0;
            for _ in 0..400 {
                let mut input = seeds[rng.below(seeds.len() as u64) as usize].clone();
                mutate(target.form, &mut input, &seeds, &mut rng);
                passed += u32::from(target.form.passes(&input) == Some(true));
            }
            assert!(passed >= 200, "{}: {passed} of 400", target.name);
        }
    }

    #[test]
    fn a_seed_repeats() {
        let changed = |seed| {
            let (mut input, mut rng) = (vec![7; 300], Rng::new(seed));
            (0..50).for_each(|_| mutate(Form::Log, &mut input, &[vec![1, 2, 3]], &mut rng));
            input
        };
        assert_eq!(changed(1), changed(1));
        assert_ne!(changed(1), changed(2));
    }

    #[test]
    fn nothing_is_too_short_or_too_long() {
        let mut rng = Rng::new(2);
        for form in [Form::Plain, Form::Log, Form::Table, Form::Pack] {
            for input in [vec![], vec![1], vec![2; INPUT_MAX]] {
                let mut input = input;
                (0..200).for_each(|_| mutate(form, &mut input, &[], &mut rng));
                assert!(input.len() <= INPUT_MAX);
            }
        }
    }
}
