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
pub struct TableProperties {
    /// All of them.
    pub num_entries: u64,
    /// Those that are deletes.
    pub num_deletions: u64,
}

const PROPERTIES_MAGIC: [u8; 4] = *b"CNTS";
const PROPERTIES_MAGIC_OFFSET: usize = 16;
const PROPERTIES_SIZE: usize = 20;

impl TableProperties {
    /// The name of the block.
    pub const BLOCK_NAME: &str = "terrace.counts";

    /// The contents of the block.
    pub fn encode(&self) -> Vec<u8> {
        [&self.num_entries.to_le_bytes()[..], &self.num_deletions.to_le_bytes(), &PROPERTIES_MAGIC].concat()
    }

    /// From the contents of the block; None if they are of another kind or contradict themselves. What stands behind the
    /// mark is ignored.
    pub fn decode(contents: &[u8]) -> Option<TableProperties> {
        let block = contents
            .get(..PROPERTIES_SIZE)
            .filter(|block| block[PROPERTIES_MAGIC_OFFSET..] == PROPERTIES_MAGIC)?;
        let counts =
            TableProperties { num_entries: get_fixed64(block)?, num_deletions: get_fixed64(&block[8..])? };
        (counts.num_deletions <= counts.num_entries).then_some(counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Block;

    const SOME: TableProperties = TableProperties { num_entries: 300, num_deletions: 2 };

    #[test]
    fn round_trips() {
        for counts in [
            SOME,
            TableProperties { num_entries: 0, num_deletions: 0 },
            TableProperties { num_entries: u64::MAX, num_deletions: u64::MAX },
        ] {
            assert_eq!(TableProperties::decode(&counts.encode()), Some(counts));
            assert!(Block::new(counts.encode()).is_err(), "it could be taken for entries");
        }
    }

    #[test]
    fn trailing_bytes_are_ignored() {
        assert_eq!(TableProperties::decode(&[SOME.encode(), vec![7; 9]].concat()), Some(SOME));
    }

    #[test]
    fn malformed_contents_are_rejected() {
        let stored = SOME.encode();
        (0..PROPERTIES_SIZE)
            .for_each(|len| assert_eq!(TableProperties::decode(&stored[..len]), None, "{len} bytes"));
        for at in PROPERTIES_MAGIC_OFFSET..PROPERTIES_SIZE {
            let mut other = stored.clone();
            other[at] ^= 1;
            assert_eq!(TableProperties::decode(&other), None);
        }
        assert_eq!(
            TableProperties::decode(&TableProperties { num_entries: 1, num_deletions: 2 }.encode()),
            None
        );
    }
}
