//! Opens a directory of LevelDB or Terrace without a change to it, and prints its statistics:
//! `cargo run --example inspect_leveldb -- DIRECTORY`

use std::error::Error;

use terrace::{Db, Options};

fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::args().nth(1).ok_or("usage: inspect_leveldb DIRECTORY")?;
    // A read-only open writes no file: it keeps what it recovers from the log in memory.
    let db = Db::open_read_only(directory, &Options::default())?;

    for level in db.levels() {
        let bytes: u64 = level.files.iter().map(|file| file.size).sum();
        println!("level {}: {} tables, {bytes} bytes", level.level, level.files.len());
    }

    let mut entries = 0_u64;
    let mut bytes = 0;
    let mut cursor = db.raw_iter();
    cursor.seek_to_first();
    while cursor.valid() {
        entries += 1;
        bytes += cursor.key().len() + cursor.value().len();
        cursor.next();
    }
    // An error ends an iteration as the last key does; only the status tells them apart.
    cursor.status()?;
    println!("{entries} entries, {bytes} bytes of keys and values");
    println!("{}", db.property("leveldb.stats").unwrap_or_default());
    Ok(())
}
