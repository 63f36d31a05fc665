//! A writer, and a follower that reads beside it.
//!
//! ```sh
//! cargo run --example followers -- /tmp/cities
//! ```
//!
//! Both are in one process here. The follower may be in another one: it takes no lock.

use std::time::Duration;

use terrace::{Db, Error, FollowOptions, Options, ReadOptions, Result};

fn text(value: Option<Vec<u8>>) -> String {
    value.map_or("-".to_owned(), |bytes| String::from_utf8_lossy(&bytes).into_owned())
}

fn main() -> Result<()> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "followed-cities".into());
    let options = Options::default().create_if_missing(true);
    let db = Db::open(&path, &options)?;
    db.put("CH/Bern", "46.95,7.45")?;

    let follower = Db::follow(&path, &options, &FollowOptions::default())?;
    println!("Bern: {}", text(follower.get("CH/Bern")?));

    // After `catch_up`, reads see each write that has returned.
    db.put("CH/Chur", "46.85,9.53")?;
    let sequence = follower.catch_up()?;
    println!("Chur: {}, sequence number {sequence}", text(follower.get("CH/Chur")?));

    // A snapshot keeps its state, whatever the writer flushes and compacts.
    let before = ReadOptions::default().snapshot(follower.snapshot());
    db.delete("CH/Bern")?;
    db.compact_range(None, None)?;
    follower.catch_up()?;
    println!("Bern now: {}", text(follower.get("CH/Bern")?));
    println!("Bern before: {}", text(follower.get_with("CH/Bern", &before)?));

    // Each read of this follower catches up first.
    let every = FollowOptions::default().every(Duration::ZERO);
    let fresh = Db::follow(&path, &options, &every)?;
    db.put("CH/Thun", "46.76,7.63")?;
    println!("Thun: {}", text(fresh.get("CH/Thun")?));

    match follower.put("CH/Basel", "47.56,7.59") {
        Err(Error::NotSupported(reason)) => println!("a write: {reason}"),
        other => println!("a write: {other:?}"),
    }
    Ok(())
}
