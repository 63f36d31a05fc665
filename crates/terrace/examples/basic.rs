//! Opens a database, writes, reads and iterates: `cargo run --example basic -- DIRECTORY`

use std::error::Error;

use terrace::{Db, Options};

fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::args().nth(1).ok_or("usage: basic DIRECTORY")?;
    let db = Db::open(directory, &Options::default().create_if_missing(true))?;

    db.put(b"CH/Bern", b"46.95,7.45")?;
    db.put(b"CH/Chur", b"46.85,9.53")?;
    db.put(b"AT/Wien", b"48.21,16.37")?;
    db.delete(b"CH/Chur")?;

    // A missing key is no error.
    let bern = db.get(b"CH/Bern")?.ok_or("no Bern")?;
    println!("Bern is at {}", String::from_utf8(bern)?);
    println!("Chur is {}", if db.contains(b"CH/Chur")? { "present" } else { "absent" });

    // Entries come in the order of their keys.
    for entry in db.iter() {
        let (key, value) = entry?;
        println!("{} {}", String::from_utf8(key)?, String::from_utf8(value)?);
    }

    // The last handle closes the database when it is dropped; `close` also returns the errors.
    db.close()?;
    Ok(())
}
