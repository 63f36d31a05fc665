//! A bulk load, and the ingest of a table that was written in advance.
//!
//! ```sh
//! cargo run --example loading -- /tmp/numbers
//! ```

use std::path::PathBuf;

use terrace::{Db, IngestOptions, LoadOptions, Options, SortedTable, bulk_load};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = PathBuf::from(std::env::args().nth(1).ok_or("usage: loading DIRECTORY")?);
    let options = Options::default().create_if_missing(true);
    let db = Db::open(&directory, &options)?;

    let entries = (0..100_000u32).map(|n| {
        let key = format!("number/{:010}", n.wrapping_mul(2_654_435_761));
        Ok::<_, terrace::Error>((key, n.to_string()))
    });
    let report = bulk_load(&db, entries, &LoadOptions::default())?;
    assert!(report.is_ingested);
    println!("{} keys", report.keys);

    let file = directory.with_file_name("swiss.ldb");
    let mut table = SortedTable::create(&file, &options)?;
    table.add("CH/Bern", "46.95,7.45")?;
    table.add("CH/Chur", "46.85,9.53")?;
    table.finish()?;
    db.ingest(&[&file], &IngestOptions::default())?;
    assert_eq!(db.get("CH/Chur")?.as_deref(), Some(b"46.85,9.53".as_slice()));
    println!("{} entries", db.iter().count());
    Ok(())
}
