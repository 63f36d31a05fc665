//! Scans a range of keys, a prefix, and backwards: `cargo run --example range_scan -- DIRECTORY`

use std::error::Error;

use terrace::{Db, Options, ReadOptions};

fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::args().nth(1).ok_or("usage: range_scan DIRECTORY")?;
    let db = Db::open(directory, &Options { create_if_missing: true, ..Options::default() })?;
    for day in 1..=28 {
        db.put(format!("2024-01-{day:02}").as_bytes(), b"January")?;
        db.put(format!("2024-02-{day:02}").as_bytes(), b"February")?;
    }

    // The lower bound is inclusive, and the upper bound is exclusive.
    let week = ReadOptions {
        lower_bound: Some(b"2024-01-27".to_vec()),
        upper_bound: Some(b"2024-02-03".to_vec()),
        ..ReadOptions::default()
    };
    for entry in db.iter_with(&week).into_forward() {
        println!("{}", String::from_utf8(entry?.0)?);
    }

    let february = ReadOptions { prefix: Some(b"2024-02-".to_vec()), ..ReadOptions::default() };
    println!("February: {} days", db.iter_with(&february).into_forward().count());
    for entry in db.iter_with(&february).into_backward().take(2) {
        println!("backwards: {}", String::from_utf8(entry?.0)?);
    }

    // A cursor can seek. It borrows the current entry and copies nothing.
    let mut cursor = db.iter();
    cursor.seek(b"2024-01-30");
    println!("first key from 2024-01-30: {}", String::from_utf8_lossy(cursor.key()));
    Ok(cursor.status()?)
}
