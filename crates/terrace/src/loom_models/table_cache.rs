//! Model of two readers of two tables, of which only one can be open at a time.

use std::path::Path;

use terrace_format::comparator::bytewise;
use terrace_format::key::{InternalComparator, InternalKey, ValueType};
use terrace_format::key_order::KeyOrder;
use terrace_sync::thread;

use super::whole_database;
use crate::cache::{BlockCache, new_cache_id};
use crate::options::Options;
use crate::stats::Statistics;
use crate::sync::Arc;
use crate::table::{
    BlockReadOptions, LookupKey, TableCache, TableHandle, TableLookup, TableReader, TableReaderContext,
    TableRef, TableWriter,
};

/// Table with a single key, its file number.
struct SingleKeyTable {
    number: u64,
    size: u64,
    key: InternalKey,
    handle: Arc<TableHandle>,
}

impl SingleKeyTable {
    fn write(options: &Options, number: u64) -> SingleKeyTable {
        let order = options.table_options(&InternalComparator::new(bytewise()));
        let mut writer = TableWriter::create(&options.env, Path::new("/"), number, &order).unwrap();
        let key = InternalKey::new(&[number as u8], 1, ValueType::Value);
        writer.add(key.as_bytes(), &[number as u8]).unwrap();
        let size = writer.finish().unwrap().unwrap().file.size;
        SingleKeyTable { number, size, key, handle: Arc::default() }
    }

    fn read(&self, tables: &TableCache) {
        let target = InternalKey::new(&[self.number as u8], 1, ValueType::FOR_SEEK);
        let read = BlockReadOptions { fill_cache: true, verify_checksums: false, only_in_memory: false };
        let file = TableRef {
            handle: &self.handle,
            number: self.number,
            size: self.size,
            smallest: &self.key,
            largest: &self.key,
        };
        let mut found = None;
        let key = LookupKey::new(target.as_bytes());
        let lookup = TableReader::get(
            tables.guard(file, read).unwrap(),
            key,
            true,
            read,
            |_| unreachable!("the search index suffices for the internal key order"),
            &mut found,
        );
        assert_eq!(lookup.unwrap(), TableLookup::Found);
        assert_eq!(found.unwrap().value(), [self.number as u8]);
    }
}

pub(super) fn two_readers() {
    // The table cache leaves ten descriptors for other files.
    let env = whole_database::env(whole_database::files());
    let options = Options { env, max_open_files: 11, ..whole_database::options() };
    let files = Arc::new([1, 2].map(|number| SingleKeyTable::write(&options, number)));
    let context = TableReaderContext {
        order: KeyOrder::Internal,
        filter_policy: None,
        cache: BlockCache::new(0),
        cache_id: new_cache_id(),
        metrics: Statistics::default(),
        memory: Arc::default(),
    };
    let tables = Arc::new(TableCache::new(Path::new("/"), &options, Arc::new(context), Box::new(|_| ())));
    let other = {
        let files = Arc::clone(&files);
        let tables = Arc::clone(&tables);
        thread::spawn(move || [0, 1].map(|i| files[i].read(&tables)))
    };
    for i in [0, 1, 0] {
        files[i].read(&tables);
    }
    other.join().unwrap();
    files[1].read(&tables);
}
