//! Anomalies of concurrent transactions: which of them plain calls and each isolation level allow.
//!
//! Each function runs two transactions, interleaved in one thread, and returns true if their result
//! is one that no serial order has. The output is the table of `docs/guide/transactions.md`.
//!
//! ```sh
//! cargo run --example anomalies -- /tmp/anomalies
//! ```

use terrace::{Db, Isolation, Options, ReadOptions, Result, Transaction, TransactionOptions, WriteBatch};

/// Access to the database without a transaction, or in one.
enum Access {
    Plain(Db, WriteBatch),
    Transaction(Box<Transaction>),
}

impl Access {
    fn get(&mut self, key: &str) -> Result<String> {
        let value = match self {
            Access::Plain(db, _) => db.get(key)?,
            Access::Transaction(transaction) => transaction.get(key)?,
        };
        Ok(String::from_utf8(value.unwrap_or_default()).unwrap_or_default())
    }

    fn count(&mut self, prefix: &str) -> Result<usize> {
        Ok(match self {
            Access::Plain(db, _) => db.prefix(prefix).count(),
            Access::Transaction(transaction) => {
                transaction.iter_with(&ReadOptions::default().prefix(prefix))?.count()
            }
        })
    }

    fn put(&mut self, key: &str, value: &str) -> Result<()> {
        match self {
            Access::Plain(_, batch) => {
                batch.put(key, value);
                Ok(())
            }
            Access::Transaction(transaction) => transaction.put(key, value),
        }
    }

    /// Returns false after a conflict.
    fn commit(self) -> Result<bool> {
        let committed = match self {
            Access::Plain(db, batch) => db.write(&batch),
            Access::Transaction(transaction) => transaction.commit().map(drop),
        };
        match committed {
            Err(error) if error.is_retryable() => Ok(false),
            committed => committed.map(|()| true),
        }
    }
}

/// Interleaves two transactions.
type Interleaving = fn(&Db, Access, Access) -> Result<bool>;

/// Two writers write the same keys, and the keys end with values of different writers.
fn dirty_write(db: &Db, mut first: Access, mut second: Access) -> Result<bool> {
    first.put("x", "first")?;
    second.put("x", "second")?;
    second.put("y", "second")?;
    first.put("y", "first")?;
    second.commit()?;
    first.commit()?;
    Ok(db.get("x")? != db.get("y")?)
}

/// A reader sees a value whose writer rolls back.
fn aborted_read(_: &Db, mut writer: Access, mut reader: Access) -> Result<bool> {
    writer.put("x", "rolled back")?;
    let seen = reader.get("x")?;
    drop(writer);
    Ok(reader.commit()? && seen == "rolled back")
}

/// A reader sees a value that its writer replaces before the commit.
fn intermediate_read(_: &Db, mut writer: Access, mut reader: Access) -> Result<bool> {
    writer.put("x", "intermediate")?;
    let seen = reader.get("x")?;
    writer.put("x", "final")?;
    writer.commit()?;
    Ok(reader.commit()? && seen == "intermediate")
}

/// Each of two transactions sees the write of the other one.
fn circular_information_flow(_: &Db, mut first: Access, mut second: Access) -> Result<bool> {
    first.put("x", "first")?;
    second.put("y", "second")?;
    let seen = (first.get("y")?, second.get("x")?);
    Ok(first.commit()? && second.commit()? && seen == ("second".into(), "first".into()))
}

/// A reader sees one of two keys before, and the other one after a transfer between them.
fn read_skew(db: &Db, mut reader: Access, mut writer: Access) -> Result<bool> {
    db.put("x", "50")?;
    db.put("y", "50")?;
    let x = reader.get("x")?;
    writer.put("x", "20")?;
    writer.put("y", "80")?;
    writer.commit()?;
    let y = reader.get("y")?;
    Ok(reader.commit()? && (x, y) == ("50".into(), "80".into()))
}

/// Two transactions add one to a counter, and it grows by one.
fn lost_update(db: &Db, mut first: Access, mut second: Access) -> Result<bool> {
    db.put("counter", "0")?;
    let seen = [first.get("counter")?, second.get("counter")?];
    for (access, seen) in [&mut first, &mut second].into_iter().zip(seen) {
        let next = seen.parse().unwrap_or(0) + 1;
        access.put("counter", &next.to_string())?;
    }
    Ok(first.commit()? && second.commit()? && db.get("counter")?.as_deref() == Some(b"1"))
}

/// Two doctors are on call. Each sees the other one, and leaves.
fn write_skew(db: &Db, mut first: Access, mut second: Access) -> Result<bool> {
    db.put("anna", "on call")?;
    db.put("ben", "on call")?;
    for (doctor, own, other) in [(&mut first, "anna", "ben"), (&mut second, "ben", "anna")] {
        if doctor.get(other)? == "on call" {
            doctor.put(own, "at home")?;
        }
    }
    Ok(first.commit()? && second.commit()?)
}

/// A transaction stores a count of keys, and another writer adds one of them meanwhile.
fn phantom(db: &Db, mut counting: Access, mut writer: Access) -> Result<bool> {
    db.put("order/1", "")?;
    let count = counting.count("order/")?;
    writer.put("order/2", "")?;
    writer.commit()?;
    counting.put("orders", &count.to_string())?;
    Ok(counting.commit()? && db.prefix("order/").count() != count)
}

static ANOMALIES: &[(&str, Interleaving)] = &[
    ("dirty write (G0)", dirty_write),
    ("aborted read (G1a)", aborted_read),
    ("intermediate read (G1b)", intermediate_read),
    ("circular information flow (G1c)", circular_information_flow),
    ("read skew (G-single)", read_skew),
    ("lost update", lost_update),
    ("write skew (G2-item)", write_skew),
    ("phantom (G2)", phantom),
];

fn main() -> Result<()> {
    let directory = std::env::args().nth(1).unwrap_or_else(|| "anomalies".into());
    let db = Db::open(directory, &Options::default().create_if_missing(true))?;
    let begin = |isolation: Option<Isolation>| match isolation {
        None => Access::Plain(db.clone(), WriteBatch::new()),
        Some(level) => {
            let options = TransactionOptions::default().isolation(level);
            Access::Transaction(Box::new(db.begin(&options)))
        }
    };
    println!("| anomaly (Adya, 1999) | plain calls | `Isolation::Snapshot` | `Isolation::Serializable` |");
    println!("|---|---|---|---|");
    for (name, interleave) in ANOMALIES {
        print!("| {name} |");
        for isolation in [None, Some(Isolation::Snapshot), Some(Isolation::Serializable)] {
            db.delete_range::<&str>(..)?;
            let occurs = interleave(&db, begin(isolation), begin(isolation))?;
            print!(" {} |", if occurs { "possible" } else { "no" });
        }
        println!();
    }
    db.close()
}
