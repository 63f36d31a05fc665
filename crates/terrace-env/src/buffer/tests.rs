use std::collections::VecDeque;

use super::arena::REGION;
use super::*;
use crate::random::{Random, SeededRandom};

fn with(len: usize, byte: u8) -> Buffer {
    let mut buffer = Buffer::of(len, Buffer::default());
    buffer.fill(byte);
    buffer
}

#[track_caller]
fn check(buffer: &Buffer, byte: u8) {
    assert!(buffer.iter().all(|found| *found == byte), "{byte} was overwritten");
}

/// Buffers of all sizes come and go; those that are there keep what was written to them.
fn churn(seed: u64, rounds: usize, kept: usize) {
    let random = SeededRandom::new(seed);
    let mut buffers: Vec<(Buffer, u8)> = Vec::new();
    for round in 0..rounds {
        let byte = round as u8;
        let len = match random.below(20) {
            0 => random.below(2 * Buffer::PIECE_MAX as u64),
            1..4 => random.below(300),
            _ => 4000 + random.below(1000),
        };
        if buffers.len() < kept {
            buffers.push((with(len as usize, byte), byte));
            continue;
        }
        let at = random.below(kept as u64) as usize;
        let (old, was) = std::mem::take(&mut buffers[at]);
        check(&old, was);
        let mut buffer =
            if random.below(2) == 0 { Buffer::of(len as usize, old) } else { with(len as usize, byte) };
        buffer.fill(byte);
        assert_eq!(buffer.len(), len as usize, "seed {seed}");
        buffers[at] = (buffer, byte);
    }
    buffers.iter().for_each(|(buffer, byte)| check(buffer, *byte));
}

#[test]
fn nobody_writes_to_what_is_anothers() {
    for seed in 0..10 {
        churn(seed, 5_000, 300);
    }
}

#[test]
fn on_many_threads() {
    std::thread::scope(|scope| {
        (0..4).for_each(|seed| drop(scope.spawn(move || churn(100 + seed, 10_000, 200))));
    });
}

#[test]
fn goes_back_on_another_thread() {
    let buffer = with(5000, 7);
    std::thread::scope(|scope| {
        scope.spawn(move || check(&buffer, 7));
    });
}

#[test]
fn capacities() {
    for (len, capacity) in
        [(0, 0), (1, 256), (256, 256), (4097, 4352), (Buffer::PIECE_MAX, Buffer::PIECE_MAX)]
    {
        let buffer = with(len, 1);
        assert_eq!((buffer.len(), buffer.capacity()), (len, capacity));
        assert_eq!(buffer.piece.is_some(), len > 0);
        assert!(len == 0 || (buffer.as_ptr() as usize).is_multiple_of(GRANULE));
    }
    let large = with(Buffer::PIECE_MAX + 1, 1);
    assert!(large.piece.is_none() && large.capacity() == Buffer::PIECE_MAX + 1);
    let mut spacious = Vec::with_capacity(100);
    spacious.extend([1, 2, 3]);
    let fitted = Buffer::from(spacious);
    assert_eq!((&*fitted, fitted.capacity()), (&[1, 2, 3][..], 3));
}

#[test]
fn memory_that_suffices_is_used_again() {
    let old = with(5000, 1);
    let place = old.as_ptr();
    let same = Buffer::of(4500, old);
    assert_eq!((same.as_ptr(), same.len(), same.capacity()), (place, 4500, 5120));
    let same = Buffer::of(5120, same);
    assert_eq!((same.as_ptr(), same.len()), (place, 5120));
    let larger = Buffer::of(5121, same);
    assert_eq!(larger.capacity(), 5376);
    let smaller = Buffer::of(1000, larger);
    assert_eq!(smaller.capacity(), 1024, "most of it would be wasted");
    let heap = Buffer::of(90, Buffer::from(vec![1; 100]));
    assert_eq!((heap.len(), heap.capacity()), (90, 100));
}

/// Pieces as a cache has them, the oldest first.
struct Cache {
    arena: Arena,
    pieces: VecDeque<(Piece, usize)>,
    /// Of the pieces, in bytes.
    weight: usize,
    /// Of a hundred that go, so many are not the oldest but any.
    scattered: u64,
    random: SeededRandom,
}

impl Cache {
    fn new(scattered: u64) -> Cache {
        let (arena, random) = (Arena::new(), SeededRandom::new(1));
        Cache { arena, pieces: VecDeque::new(), weight: 0, scattered, random }
    }

    /// Takes a piece of `len` bytes; others go, so that no more than `CAPACITY` bytes are there.
    fn take(&mut self, len: usize) {
        let count = len.div_ceil(GRANULE);
        while self.weight + count * GRANULE > CAPACITY {
            self.lose_one();
        }
        let (piece, _) = self.arena.take(count).expect("memory for a test");
        self.pieces.push_back((piece, count));
        self.weight += count * GRANULE;
    }

    fn lose_one(&mut self) {
        if self.random.below(100) < self.scattered {
            let any = self.random.below(self.pieces.len() as u64) as usize;
            self.pieces.swap(0, any);
        }
        let (piece, count) = self.pieces.pop_front().expect("a piece");
        self.weight -= count * GRANULE;
        drop(self.arena.give_back(piece, count));
    }

    /// The most that it has from the system while six times what fits goes through it, of pieces of `least..most` bytes, and what
    /// it has then; in hundredths of `CAPACITY`.
    fn held(&mut self, least: usize, most: usize) -> (usize, usize) {
        let (mut passed, mut held) = (0, 0);
        while passed < 6 * CAPACITY {
            let len = least + self.random.below((most - least) as u64) as usize;
            self.take(len);
            held = held.max(self.arena.size());
            passed += len;
        }
        (held * 100 / CAPACITY, self.arena.size() * 100 / CAPACITY)
    }
}

/// Of the pieces together, in bytes. A region is an eighth of it.
const CAPACITY: usize = 16 << 20;

#[track_caller]
fn check_held(scattered: u64, rows: &[((usize, usize), usize)], ever: usize) {
    let mut cache = Cache::new(scattered);
    for ((least, most), then) in rows {
        let held = cache.held(*least, *most);
        assert!(
            held.0 <= ever && held.1 <= *then,
            "{held:?} % is held for pieces of {least} to {most} bytes"
        );
    }
    while !cache.pieces.is_empty() {
        cache.lose_one();
    }
    assert_eq!(cache.arena.size(), REGION, "one is kept");
}

/// Blocks of a cache become larger and smaller, as values do in the life of a database.
#[test]
fn sizes_change_and_the_oldest_go() {
    let sizes =
        [(4000, 5000), (4500, 5500), (2000, 2500), (8000, 9000), (300, 6000), (20_000, 30_000), (4000, 4800)];
    check_held(0, &sizes.map(|size| (size, 125)), 125);
}

/// Where every piece is as likely to go, those that stay are between those that went, and larger ones find little room there.
#[test]
fn sizes_change_and_any_go() {
    let similar = [(4000, 5000), (4500, 5500), (2000, 2500)].map(|size| (size, 125));
    check_held(100, &similar, 125);
    let others = [((8000, 9000), 150), ((20_000, 30_000), 165), ((4000, 4800), 125)];
    check_held(100, &[&similar[..], &others].concat(), 165);
}

#[test]
fn a_region_that_comes_free_goes_back() {
    let mut arena = Arena::new();
    let whole = REGION / GRANULE;
    let regions = [0; 3].map(|_| arena.take(whole).unwrap().0);
    assert_eq!(arena.size(), 3 * REGION);
    assert!(arena.give_back(regions[1], whole).is_none());
    assert!(arena.give_back(regions[0], whole).is_some());
    assert_eq!(arena.size(), 2 * REGION);
    let again = arena.take(1).unwrap().0;
    assert_eq!(again, regions[1], "what was kept");
    assert!(arena.give_back(regions[2], whole).is_none(), "that is in use again, so this is kept");
    assert_eq!(arena.take(whole).unwrap().0, regions[2]);
    assert_eq!(arena.take(whole).unwrap().0, regions[0], "a place that had become free");
}
