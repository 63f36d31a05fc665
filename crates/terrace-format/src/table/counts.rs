//! What a table holds, in numbers: a block of its own, which the metaindex names and LevelDB passes over.
//!
//! ```text
//!   0           8           16         20
//!   +-----------+-----------+----------+----
//!   | entries   | deletes   | "CNTS"   | nothing, or what is added one day
//!   +-----------+-----------+----------+----
//! ```
//!
//! The mark tells it from a block of entries, whose last four bytes are the number of its restart points, to who looks for
//! blocks in a table without an index.

use crate::coding::get_fixed64;

/// How many entries a table of internal keys has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// All of them.
    pub entries: u64,
    /// Those that are deletes.
    pub deletes: u64,
}

const MARK: [u8; 4] = *b"CNTS";
const MARK_AT: usize = 16;
const SIZE: usize = 20;

impl Counts {
    /// The name of the block.
    pub const NAME: &str = "terrace.counts";

    /// The contents of the block.
    pub fn encode(&self) -> Vec<u8> {
        [&self.entries.to_le_bytes()[..], &self.deletes.to_le_bytes(), &MARK].concat()
    }

    /// From the contents of the block; None if they are of another kind or contradict themselves. What stands behind the
    /// mark is ignored.
    pub fn decode(contents: &[u8]) -> Option<Counts> {
        let block = contents.get(..SIZE).filter(|block| block[MARK_AT..] == MARK)?;
        let counts = Counts { entries: get_fixed64(block)?, deletes: get_fixed64(&block[8..])? };
        (counts.deletes <= counts.entries).then_some(counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Block;

    const SOME: Counts = Counts { entries: 300, deletes: 2 };

    #[test]
    fn there_and_back() {
        for counts in
            [SOME, Counts { entries: 0, deletes: 0 }, Counts { entries: u64::MAX, deletes: u64::MAX }]
        {
            assert_eq!(Counts::decode(&counts.encode()), Some(counts));
            assert!(Block::new(counts.encode()).is_err(), "it could be taken for entries");
        }
    }

    #[test]
    fn what_comes_one_day_is_passed_over() {
        assert_eq!(Counts::decode(&[SOME.encode(), vec![7; 9]].concat()), Some(SOME));
    }

    #[test]
    fn others_say_nothing() {
        let stored = SOME.encode();
        (0..SIZE).for_each(|len| assert_eq!(Counts::decode(&stored[..len]), None, "{len} bytes"));
        for at in MARK_AT..SIZE {
            let mut other = stored.clone();
            other[at] ^= 1;
            assert_eq!(Counts::decode(&other), None);
        }
        assert_eq!(Counts::decode(&Counts { entries: 1, deletes: 2 }.encode()), None);
    }
}
