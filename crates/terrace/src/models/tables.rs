//! Two readers of two tables, of which only one may be open at a time.

use std::path::Path;

use terrace_env::mem::MemFs;
use terrace_format::comparator::bytewise;
use terrace_format::key::{InternalComparator, InternalKey, Kind};
use terrace_format::order::Order;
use terrace_sync::thread;

use super::whole;
use crate::cache::{BlockCache, instance};
use crate::logger::NoLogger;
use crate::metrics::Metrics;
use crate::options::Options;
use crate::sync::Arc;
use crate::tables::{Answer, BlockRead, TableCache, TableContext, TableRef, TableSlot, TableWriter, Target};

/// The table of file `number`, whose only key is its number.
struct File {
    number: u64,
    size: u64,
    key: InternalKey,
    slot: Arc<TableSlot>,
}

impl File {
    fn write(options: &Options, number: u64) -> File {
        let order = options.table_options(&InternalComparator::new(bytewise()));
        let mut writer = TableWriter::create(&options.env, Path::new("/"), number, &order).unwrap();
        let key = InternalKey::new(&[number as u8], 1, Kind::Put);
        writer.add(key.as_bytes(), &[number as u8]).unwrap();
        let size = writer.finish().unwrap().unwrap().file.size;
        File { number, size, key, slot: Arc::default() }
    }

    fn read(&self, tables: &TableCache) {
        let target = InternalKey::new(&[self.number as u8], 1, Kind::SEEK);
        let read = BlockRead { fill_cache: true };
        let file = TableRef {
            slot: &self.slot,
            number: self.number,
            size: self.size,
            smallest: &self.key,
            largest: &self.key,
        };
        let mut found = None;
        let looked = tables.read(file, |table| {
            let target = Target::new(target.as_bytes());
            table.get(target, true, read, |_| unreachable!("one version of one key"), &mut found)
        });
        assert_eq!(looked.unwrap(), Answer::Found);
        assert_eq!(found.unwrap().value(), [self.number as u8]);
    }
}

pub(super) fn two_readers() {
    // Ten descriptors are for other things.
    let env = whole::env(Arc::new(MemFs::new()));
    let options = Options { env, max_open_files: 11, ..whole::options() };
    let files = Arc::new([1, 2].map(|number| File::write(&options, number)));
    let context = TableContext {
        order: Order::Internal,
        filter_policy: None,
        cache: BlockCache::new(0),
        instance: instance(),
        metrics: Metrics::default(),
        memory: Arc::default(),
    };
    let tables = Arc::new(TableCache::new(
        Path::new("/"),
        &options,
        Arc::new(NoLogger),
        Arc::new(context),
        Box::new(|_| ()),
    ));
    let other = {
        let (files, tables) = (Arc::clone(&files), Arc::clone(&tables));
        thread::spawn(move || [0, 1].map(|at| files[at].read(&tables)))
    };
    [0, 1, 0].into_iter().for_each(|at| files[at].read(&tables));
    other.join().unwrap();
    files[1].read(&tables);
}
