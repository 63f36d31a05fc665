//! Cases of tables: their levels, their structure, and additional blocks.

use terrace_format::compress::{SNAPPY, ZSTD};

use super::{ExpectedOutcome, FormatCase, expect_entries};
use crate::crafted::{CraftedDb, CraftedFilter, CraftedTable};

/// Returns a table with seven keys in three blocks. One key also has an older version.
fn seven_keys() -> CraftedTable {
    ('a'..='g').fold(CraftedTable::new(), |table, letter| {
        let key = format!("key-{letter}");
        let sequence = u64::from(letter);
        let table = table.put(&key, sequence, &letter.to_string().repeat(9));
        if letter == 'c' { table.put(&key, 5, "older") } else { table }
    })
}

fn seven_key_entries() -> Vec<(String, String)> {
    ('a'..='g').map(|letter| (format!("key-{letter}"), letter.to_string().repeat(9))).collect()
}

/// Creates cases with the table at level 0 and at level 3, which must give the same contents.
fn at_levels_0_and_3(name: &'static str, table: &CraftedTable) -> [FormatCase; 2] {
    [0, 3].map(|level| {
        FormatCase::new(name, CraftedDb::new().table(level, 9, table), expect_entries(&seven_key_entries()))
    })
}

pub(super) fn cases() -> Vec<FormatCase> {
    let mut cases = Vec::new();
    for (name, table) in [
        ("a plain table", seven_keys()),
        ("snappy", seven_keys().codec(&SNAPPY)),
        ("LevelDB's filter format", seven_keys().filter(CraftedFilter::PerRange)),
        ("one filter for the whole table", seven_keys().filter(CraftedFilter::WholeTable)),
        ("a filter with 31 probes", seven_keys().filter(CraftedFilter::ReservedProbeCount)),
        ("bytes after the handles of the index", seven_keys().index_value_suffix(b"first key, head array")),
        ("gaps between the blocks", seven_keys().block_gap(100)),
        (
            "unknown meta blocks",
            seven_keys().meta_block("a.hash.index", b"...").meta_block("z.properties", b".."),
        ),
        ("a filter with another name", seven_keys().meta_block("filter.some.other.Filter", b"...")),
        ("bytes before the first restart point", seven_keys().unreachable_prefix()),
        (
            "all of these features",
            seven_keys()
                .filter(CraftedFilter::WholeTable)
                .index_value_suffix(b"x")
                .block_gap(9)
                .meta_block("m", b"m")
                .unreachable_prefix(),
        ),
    ] {
        cases.extend(at_levels_0_and_3(name, &table));
    }
    cases.extend(at_levels_0_and_3("zstd", &seven_keys().codec(&ZSTD)).map(FormatCase::leveldb_disagrees));
    let unknown = CraftedDb::new().table(2, 9, &seven_keys().block_type(9));
    cases.push(FormatCase::new("an unknown block type", unknown, ExpectedOutcome::ReadFails));
    cases.extend((2..7).map(at_level));
    cases.extend([
        many_at_level_0(),
        run_at_every_level(),
        old_file_with_a_higher_number(),
        overlapping_level_0(),
        old_table_extension(),
    ]);
    cases
}

fn at_level(level: usize) -> FormatCase {
    FormatCase::new(
        "a table at a deep level",
        CraftedDb::new().table(level, 9, &seven_keys()),
        expect_entries(&seven_key_entries()),
    )
}

fn many_at_level_0() -> FormatCase {
    let mut database = CraftedDb::new();
    for n in 1..=20 {
        let table =
            CraftedTable::new().put("all", n, &format!("from {n}")).put(&format!("own-{n:02}"), 100 + n, "x");
        database = database.table(0, 10 + n, &table);
    }
    let mut entries = vec![("all".to_owned(), "from 20".to_owned())];
    entries.extend((1..=20).map(|n| (format!("own-{n:02}"), "x".to_owned())));
    FormatCase::new("more tables at level 0 than LevelDB allows", database, expect_entries(&entries))
}

/// One sorted run per level over the same keys: newer versions above older ones, and tombstones
/// above the deleted entries.
fn run_at_every_level() -> FormatCase {
    let mut database = CraftedDb::new();
    for level in 1..7 {
        let sequence = 100 - level as u64;
        let table = CraftedTable::new().put("all", sequence, &format!("level {level}"));
        let table = table.put(&format!("at-{level}"), sequence, "x");
        let table = if level % 2 == 1 { table.delete(&format!("at-{}", level + 1), sequence) } else { table };
        database = database.table(level, 20 - level as u64, &table);
    }
    let entries = [("all", "level 1"), ("at-1", "x"), ("at-3", "x"), ("at-5", "x")];
    FormatCase::new("a sorted run at every level", database, expect_entries(&entries))
}

/// Get in stock LevelDB trusts the number of a level-0 table, and its iterator the sequence number.
fn old_file_with_a_higher_number() -> FormatCase {
    let database = CraftedDb::new().table(0, 10, &CraftedTable::new().put("k", 50, "new")).table(
        0,
        11,
        &CraftedTable::new().put("k", 7, "old"),
    );
    FormatCase::new("an older table with a higher number", database, expect_entries(&[("k", "new")]))
        .leveldb_disagrees()
}

/// Tables of level 0, some disjoint and some overlapping.
fn overlapping_level_0() -> FormatCase {
    let database = CraftedDb::new()
        .table(0, 10, &CraftedTable::new().put("a", 1, "1").put("c", 2, "1"))
        .table(0, 11, &CraftedTable::new().put("d", 3, "2").put("f", 4, "2"))
        .table(0, 12, &CraftedTable::new().put("b", 5, "3").put("d", 6, "3").delete("f", 7))
        .table(0, 13, &CraftedTable::new().put("x", 8, "4"));
    let entries = [("a", "1"), ("b", "3"), ("c", "1"), ("d", "3"), ("x", "4")];
    FormatCase::new("overlapping tables at level 0", database, expect_entries(&entries))
}

fn old_table_extension() -> FormatCase {
    let table = seven_keys();
    let database = CraftedDb::new().table(1, 9, &table).rename_file("000009.ldb", "000009.sst");
    FormatCase::new("a table with the old extension", database, expect_entries(&seven_key_entries()))
}
