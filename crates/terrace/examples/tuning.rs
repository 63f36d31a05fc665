//! Sets options, compacts, and reads the properties: `cargo run --example tuning -- DIRECTORY`

use std::error::Error;
use std::sync::Arc;

use terrace::{BlockCache, BloomFilterPolicy, Db, Options, compress};

fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::args().nth(1).ok_or("usage: tuning DIRECTORY")?;
    let options = Options::default()
        .create_if_missing(true)
        // Several databases may share one cache.
        .block_cache(BlockCache::new(64 << 20))
        // More bits per key make fewer reads of tables that lack the key.
        .filter_policy(Arc::new(BloomFilterPolicy::new(14)))
        // Larger memtables make fewer tables, and take more memory.
        .write_buffer_size(16 << 20)
        // Larger blocks compress better; smaller blocks make single reads faster.
        .block_size(16 << 10)
        .compression(&compress::SNAPPY);
    let db = Db::open(directory, &options)?;
    for n in 0..50_000_u32 {
        db.put(n.to_be_bytes(), format!("value number {n}").as_bytes())?;
    }

    // Not needed in operation: compactions run in the background.
    db.compact_range(None, None)?;
    let mut tables = Vec::new();
    for level in db.levels() {
        tables.push(level.files.len().to_string());
    }
    println!("tables: {}", tables.join(" "));
    let sizes = db.approximate_sizes(&[(&[], &25_000_u32.to_be_bytes()), (&[], &[0xff])])?;
    println!("half of the keys take {} % of the bytes", sizes[0] * 100 / sizes[1]);
    println!("memory: {} bytes", db.property("leveldb.approximate-memory-usage").unwrap_or_default());
    Ok(())
}
