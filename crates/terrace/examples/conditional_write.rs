//! Conditional writes: a batch that is applied only if certain keys are unchanged.
//!
//! ```sh
//! cargo run --example conditional_write -- /tmp/conditions
//! ```

use terrace::{Db, Error, Options, Result, Unchanged, WriteBatch};

/// Puts a key that does not exist. Returns false if it exists.
fn put_if_absent(db: &Db, key: &str, value: &str) -> Result<bool> {
    let snapshot = db.snapshot();
    if snapshot.get(key)?.is_some() {
        return Ok(false);
    }
    let mut batch = WriteBatch::new();
    batch.put(key, value);
    let unchanged = Unchanged { since: &snapshot, keys: &[key.as_bytes().into()], ranges: &[] };
    match db.write_if(&batch, &unchanged) {
        Ok(_) => Ok(true),
        Err(Error::Conflict { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

fn main() -> Result<()> {
    let directory = std::env::args().nth(1).unwrap_or_else(|| "conditions".into());
    let db = Db::open(directory, &Options::default().create_if_missing(true))?;
    println!("lock taken: {}", put_if_absent(&db, "lock", "mine")?);
    println!("taken again: {}", put_if_absent(&db, "lock", "yours")?);

    db.put("stock", "5")?;
    let snapshot = db.snapshot();
    db.put("stock", "4")?; // another writer
    let unchanged = Unchanged { since: &snapshot, keys: &[b"stock".into()], ranges: &[] };
    let mut batch = WriteBatch::new();
    batch.put("stock", "3");
    if let Err(error) = db.write_if(&batch, &unchanged) {
        println!("changed meanwhile: {error}");
    }
    db.close()
}
