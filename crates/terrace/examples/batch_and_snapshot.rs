//! Writes several keys atomically, and reads an earlier state.
//!
//! `cargo run --example batch_and_snapshot -- DIRECTORY`

use std::error::Error;

use terrace::{Db, Options, WriteBatch, WriteOptions};

fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::args().nth(1).ok_or("usage: batch_and_snapshot DIRECTORY")?;
    let db = Db::open(directory, &Options::default().create_if_missing(true))?;
    db.put(b"account/anna", b"100")?;
    db.put(b"account/ben", b"0")?;

    // The snapshot keeps the current state readable. It holds no lock and stops no writer.
    let before = db.snapshot();

    // A reader, or a database after a power cut, has the whole batch or nothing of it.
    let mut transfer = WriteBatch::new();
    transfer.put("account/anna", "70").put("account/ben", "30").put("transfer/1", "anna ben 30");
    // With `sync`, the batch is on the disk when the call returns.
    db.write_with(&transfer, &WriteOptions::default().sync(true))?;

    for name in ["account/anna", "account/ben", "transfer/1"] {
        let text = |value: Option<Vec<u8>>| String::from_utf8(value.unwrap_or_else(|| b"-".to_vec()));
        println!("{name}: {} -> {}", text(before.get(name)?)?, text(db.get(name)?)?);
    }
    Ok(())
}
