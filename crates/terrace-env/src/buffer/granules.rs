//! Which granules of a region are taken: a bit for each.

use super::arena::REGION;

/// In bytes. A piece takes half of one too many.
pub(super) const GRANULE: usize = 256;

pub(super) const GRANULES: usize = REGION / GRANULE;
const WORD: usize = u64::BITS as usize;

/// Those of one region.
pub(super) struct Granules {
    taken: Box<[u64]>,
    free: usize,
    /// No run of free ones is longer.
    longest: usize,
    /// Every one before this is taken.
    lowest: usize,
}

impl Granules {
    /// All free.
    pub(super) fn new() -> Granules {
        let taken = vec![0; GRANULES / WORD].into_boxed_slice();
        Granules { taken, free: GRANULES, longest: GRANULES, lowest: 0 }
    }

    pub(super) fn all_free(&self) -> bool {
        self.free == GRANULES
    }

    /// No run of free ones is longer.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    /// Takes the first `count` free ones that stand side by side, of which there are none or `count` behind what this returns.
    pub(super) fn take(&mut self, count: usize) -> Option<usize> {
        if count > self.longest {
            return None;
        }
        let (mut start, mut longest) = (self.next(self.lowest, false), 0);
        self.lowest = start;
        while start < GRANULES {
            let end = self.next(start, true);
            if end - start >= count {
                self.set(start, count, true);
                self.free -= count;
                return Some(start);
            }
            longest = longest.max(end - start);
            start = self.next(end, false);
        }
        self.longest = longest;
        None
    }

    /// Makes `count` of them free from `start` on, which were taken.
    pub(super) fn give_back(&mut self, start: usize, count: usize) {
        self.set(start, count, false);
        self.free += count;
        self.lowest = self.lowest.min(start);
        self.longest = self.longest.max(self.next(start, true) - self.free_before(start));
    }

    /// The first from `at` on that is taken, or is not; their number if there is none.
    fn next(&self, at: usize, taken: bool) -> usize {
        let like = |word: &u64| if taken { *word } else { !*word };
        let Some(first) = self.taken.get(at / WORD) else { return GRANULES };
        let bits = like(first) & u64::MAX << (at % WORD);
        if bits != 0 {
            return at / WORD * WORD + bits.trailing_zeros() as usize;
        }
        let behind = at / WORD + 1;
        match self.taken[behind..].iter().position(|word| like(word) != 0) {
            Some(more) => (behind + more) * WORD + like(&self.taken[behind + more]).trailing_zeros() as usize,
            None => GRANULES,
        }
    }

    /// Where the free ones begin that end before `at`.
    fn free_before(&self, at: usize) -> usize {
        let (word, below) = (at / WORD, (1 << (at % WORD)) - 1);
        let bits = self.taken.get(word).map_or(0, |bits| bits & below);
        if bits != 0 {
            return word * WORD + bits.ilog2() as usize + 1;
        }
        let last = self.taken[..word].iter().rposition(|bits| *bits != 0);
        last.map_or(0, |last| last * WORD + self.taken[last].ilog2() as usize + 1)
    }

    fn set(&mut self, start: usize, count: usize, taken: bool) {
        let (mut at, end) = (start, start + count);
        while at < end {
            let (word, from) = (at / WORD, at % WORD);
            let upto = WORD.min(from + end - at);
            let bits = u64::MAX << from & u64::MAX >> (WORD - upto);
            let was = self.taken[word] & bits;
            debug_assert_eq!(was, if taken { 0 } else { bits }, "granules {start} to {end}");
            self.taken[word] ^= bits;
            at += upto - from;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_that_suffices() {
        let mut granules = Granules::new();
        assert_eq!([100, 30, 70].map(|count| granules.take(count)), [Some(0), Some(100), Some(130)]);
        granules.give_back(100, 30);
        assert_eq!(
            [31, 20, 11, 10].map(|count| granules.take(count)),
            [Some(200), Some(100), Some(231), Some(120)]
        );
    }

    #[test]
    fn neighbours_that_are_free_are_one() {
        let mut granules = Granules::new();
        let places = [64, 1, 63, 128].map(|count| (granules.take(count).unwrap(), count));
        let rest = GRANULES - 256;
        assert_eq!(granules.take(rest), Some(256));
        assert_eq!((granules.take(1), granules.longest()), (None, 0));
        for (at, longest) in [(1, 1), (3, 128), (0, 128), (2, 256)] {
            let (start, count) = places[at];
            granules.give_back(start, count);
            assert_eq!(granules.longest(), longest);
        }
        assert_eq!((granules.take(257), granules.take(256)), (None, Some(0)));
        granules.give_back(0, 256);
        granules.give_back(256, rest);
        assert!(granules.all_free());
        assert_eq!(granules.take(GRANULES), Some(0));
    }
}
