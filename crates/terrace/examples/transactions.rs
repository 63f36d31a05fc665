//! Transfers between accounts, and the two isolation levels.
//!
//! ```sh
//! cargo run --example transactions -- /tmp/accounts
//! ```

use terrace::{Db, Isolation, Options, ReadOptions, Result, TransactionOptions};

fn balance(value: Option<Vec<u8>>) -> u64 {
    value.and_then(|bytes| String::from_utf8(bytes).ok()?.parse().ok()).unwrap_or(0)
}

/// Moves money, if there is enough. Returns true if it did.
fn transfer(db: &Db, from: &str, to: &str, amount: u64) -> Result<bool> {
    db.transact(|transaction| {
        let from_balance = balance(transaction.get(from)?);
        let to_balance = balance(transaction.get(to)?);
        if from_balance < amount {
            return Ok(false);
        }
        transaction.put(from, (from_balance - amount).to_string())?;
        transaction.put(to, (to_balance + amount).to_string())?;
        Ok(true)
    })
}

/// Two doctors may leave if the other one stays. Returns how many remain on call.
fn doctors_on_call(db: &Db, isolation: Isolation) -> Result<usize> {
    db.put("on call/1", "")?;
    db.put("on call/2", "")?;
    let options = TransactionOptions::default().isolation(isolation);
    let all = ReadOptions::default().prefix("on call/");
    let mut first = db.begin(&options);
    let mut second = db.begin(&options);
    for (transaction, own) in [(&mut first, "on call/1"), (&mut second, "on call/2")] {
        if transaction.iter_with(&all)?.count() == 2 {
            transaction.delete(own)?;
        }
    }
    first.commit()?;
    if let Err(error) = second.commit() {
        println!("{isolation:?}: {error}");
    }
    Ok(db.prefix("on call/").count())
}

fn main() -> Result<()> {
    let directory = std::env::args().nth(1).unwrap_or_else(|| "accounts".into());
    let db = Db::open(directory, &Options::default().create_if_missing(true))?;
    db.put("anna", "100")?;
    db.put("ben", "100")?;
    for _ in 0..50 {
        transfer(&db, "anna", "ben", 3)?;
        transfer(&db, "ben", "anna", 2)?;
    }
    println!("sum: {}", balance(db.get("anna")?) + balance(db.get("ben")?));
    for isolation in [Isolation::Snapshot, Isolation::Serializable] {
        println!("{isolation:?}: {} on call", doctors_on_call(&db, isolation)?);
    }
    db.close()
}
