//! Scans a range of keys, a prefix, and backwards: `cargo run --example range_scan -- DIRECTORY`

use std::error::Error;

use terrace::{Db, Options};

fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::args().nth(1).ok_or("usage: range_scan DIRECTORY")?;
    let db = Db::open(directory, &Options::default().create_if_missing(true))?;
    for day in 1..=28 {
        db.put(format!("2024-01-{day:02}").as_bytes(), b"January")?;
        db.put(format!("2024-02-{day:02}").as_bytes(), b"February")?;
    }

    for entry in db.range("2024-01-27".."2024-02-03") {
        println!("{}", String::from_utf8(entry?.0)?);
    }

    println!("February: {} days", db.prefix("2024-02-").count());
    for entry in db.prefix("2024-02-").rev().take(2) {
        println!("backwards: {}", String::from_utf8(entry?.0)?);
    }

    // A cursor can seek. It borrows the current entry and copies nothing.
    let mut cursor = db.raw_iter();
    cursor.seek(b"2024-01-30");
    println!("first key from 2024-01-30: {}", String::from_utf8_lossy(cursor.key()));
    Ok(cursor.status()?)
}
