//! Numbers of objects. No number is given to two objects, not even after a crash.
//!
//! ```text
//!   00 "terrace.serve" 01     next:8 crc:4
//! ```
//!
//! Front ends of a shared store reserve blocks in transactions, so no two of them have the same.
//!
//! The server reserves numbers in blocks. It stores the end of a block before it uses the first
//! number of the block. The log keeps the order of writes, so a number in use is always reserved.

use terrace::{Db, WriteOptions};
use terrace_store::Store as SharedStore;
use terrace_sync::native_locks::Mutex;

use super::Backend;
use super::layout::Layout;
use super::marker;
use crate::failure::CommandResult;

/// Number of object numbers that one write reserves.
const BLOCK: u64 = 1 << 16;
/// First number of a new directory.
const FIRST: u64 = 1;
/// End of the numbers. The first byte `ff` is not a number's, so that garbage records differ.
const END: u64 = 0xff00_0000_0000_0000;

/// Source of object numbers.
#[derive(Debug)]
pub(crate) struct ObjectNumbers {
    block: Mutex<Block>,
}

/// Reserved numbers.
#[derive(Debug)]
struct Block {
    next: u64,
    /// End of the reserved numbers, not included.
    end: u64,
}

impl ObjectNumbers {
    /// Reads the end of the reserved numbers of a directory.
    pub(crate) fn load(db: &Db, layout: Layout) -> Result<ObjectNumbers, String> {
        let stored = match layout {
            Layout::Raw => None,
            Layout::Typed => db.get(marker::NUMBERS_KEY).map_err(|error| error.to_string())?,
        };
        let end = match stored {
            Some(stored) => marker::decode_number(&stored).ok_or("the counter of objects is damaged")?,
            None => FIRST,
        };
        Ok(ObjectNumbers { block: Mutex::new(Block { next: end, end }) })
    }

    /// Numbers of a front end, which reserves its first block later.
    pub(super) fn new_without_block() -> ObjectNumbers {
        ObjectNumbers { block: Mutex::new(Block { next: 0, end: 0 }) }
    }

    /// Returns an unused number.
    ///
    /// # Errors
    ///
    /// The reservation of a block failed, or it would wait and `can_wait` is false.
    pub(crate) fn allocate(&self, backend: &Backend, can_wait: bool) -> CommandResult<u64> {
        let mut block = self.block.lock();
        if block.next == block.end {
            *block = match backend {
                Backend::Database(db) => reserve(db, block.end, can_wait)?,
                Backend::Store(store) => reserve_in_store(&**store)?,
            };
        }
        block.next += 1;
        Ok(block.next - 1)
    }
}

/// Returns the block of numbers from `first` on.
fn block_from(first: u64) -> terrace::Result<Block> {
    let end = first.saturating_add(BLOCK).min(END);
    match end > first {
        true => Ok(Block { next: first, end }),
        false => Err(terrace::Error::NotSupported("the numbers of objects are exhausted".into())),
    }
}

fn reserve_in_store(store: &dyn SharedStore) -> terrace_store::Result<Block> {
    store.transact(&Default::default(), |transaction| {
        let first = match transaction.get(marker::NUMBERS_KEY)? {
            Some(stored) => marker::decode_number(&stored)
                .ok_or(terrace_store::Error::Corruption("the counter of objects".into()))?,
            None => FIRST,
        };
        let block = block_from(first)?;
        transaction.put(marker::NUMBERS_KEY, &marker::encode_number(block.end))?;
        Ok(block)
    })
}

fn reserve(db: &Db, first: u64, can_wait: bool) -> terrace::Result<Block> {
    let block = block_from(first)?;
    store_end(db, block.end, can_wait)?;
    Ok(block)
}

fn store_end(db: &Db, end: u64, can_wait: bool) -> terrace::Result<()> {
    let value = marker::encode_number(end);
    if can_wait || !db.would_wait() {
        return db.put(marker::NUMBERS_KEY, value);
    }
    let mut batch = terrace::WriteBatch::new();
    batch.put(marker::NUMBERS_KEY, value);
    db.try_write(&batch, &WriteOptions::DEFAULT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use terrace::{Env, Options};

    #[test]
    fn numbers_are_reserved_before_their_use() {
        let options = Options::default().create_if_missing(true).env(Env::in_memory());
        let db = Db::open("cities", &options).unwrap();
        let backend = Backend::Database(db.clone());
        let mut last = 0;
        for _ in 0..3 {
            let numbers = ObjectNumbers::load(&db, Layout::Typed).unwrap();
            for _ in 0..BLOCK + 5 {
                let number = numbers.allocate(&backend, false).unwrap();
                assert!(number > last, "{number} after {last}");
                last = number;
            }
            let stored = db.get(marker::NUMBERS_KEY).unwrap().unwrap();
            assert!(marker::decode_number(&stored).unwrap() > last);
        }
    }

    #[test]
    fn front_ends_have_different_numbers() {
        let store = terrace_store::open("memory:", &Default::default()).unwrap();
        let backend = Backend::Store(store);
        let front_ends = [ObjectNumbers::new_without_block(), ObjectNumbers::new_without_block()];
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..BLOCK + 5 {
            for front_end in &front_ends {
                assert!(seen.insert(front_end.allocate(&backend, true).unwrap()));
            }
        }
    }

    #[test]
    fn damaged_counter() {
        let options = Options::default().create_if_missing(true).env(Env::in_memory());
        let db = Db::open("cities", &options).unwrap();
        db.put(marker::NUMBERS_KEY, b"\0\0\0\0\0\0\0\x01abcd").unwrap();
        assert!(ObjectNumbers::load(&db, Layout::Typed).is_err());
    }
}
