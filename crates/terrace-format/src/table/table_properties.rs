//! Properties of a table: a block of its own under a name of the metaindex. LevelDB ignores it.
//!
//! ```text
//!   0           8            16         20
//!   +-----------+------------+----------+----
//!   | entries   | tombstones | "CNTS"   | nothing, or later additions
//!   +-----------+------------+----------+----
//! ```
//!
//! A search for blocks in a table without an index must not take this block for entries. The magic
//! bytes prevent that: the last four bytes of a block of entries count its restart points.

use crate::coding::get_fixed64;

/// Number of entries and tombstones of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableProperties {
    /// Number of entries, tombstones included.
    pub num_entries: u64,
    /// Number of tombstones.
    pub num_deletions: u64,
}

const PROPERTIES_MAGIC: [u8; 4] = *b"CNTS";
const PROPERTIES_MAGIC_OFFSET: usize = 16;
const PROPERTIES_SIZE: usize = 20;

impl TableProperties {
    /// Name of the block in the metaindex.
    pub const BLOCK_NAME: &str = "terrace.counts";

    /// Returns the contents of the block.
    pub fn encode(&self) -> Vec<u8> {
        [&self.num_entries.to_le_bytes()[..], &self.num_deletions.to_le_bytes(), &PROPERTIES_MAGIC].concat()
    }

    /// Decodes the contents of the block. Returns `None` if they have another form or are
    /// inconsistent. Bytes after the magic are ignored.
    pub fn decode(contents: &[u8]) -> Option<TableProperties> {
        let block = contents
            .get(..PROPERTIES_SIZE)
            .filter(|block| block[PROPERTIES_MAGIC_OFFSET..] == PROPERTIES_MAGIC)?;
        let properties =
            TableProperties { num_entries: get_fixed64(block)?, num_deletions: get_fixed64(&block[8..])? };
        (properties.num_deletions <= properties.num_entries).then_some(properties)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Block;

    const SOME: TableProperties = TableProperties { num_entries: 300, num_deletions: 2 };

    #[test]
    fn round_trips() {
        for properties in [
            SOME,
            TableProperties { num_entries: 0, num_deletions: 0 },
            TableProperties { num_entries: u64::MAX, num_deletions: u64::MAX },
        ] {
            assert_eq!(TableProperties::decode(&properties.encode()), Some(properties));
            assert!(Block::new(properties.encode()).is_err(), "valid as a block of entries");
        }
    }

    #[test]
    fn trailing_bytes_are_ignored() {
        assert_eq!(TableProperties::decode(&[SOME.encode(), vec![7; 9]].concat()), Some(SOME));
    }

    #[test]
    fn malformed_contents_are_rejected() {
        let stored = SOME.encode();
        for len in 0..PROPERTIES_SIZE {
            assert_eq!(TableProperties::decode(&stored[..len]), None, "{len} bytes");
        }
        for offset in PROPERTIES_MAGIC_OFFSET..PROPERTIES_SIZE {
            let mut other = stored.clone();
            other[offset] ^= 1;
            assert_eq!(TableProperties::decode(&other), None);
        }
        assert_eq!(
            TableProperties::decode(&TableProperties { num_entries: 1, num_deletions: 2 }.encode()),
            None
        );
    }
}
