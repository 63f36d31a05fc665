//! Tables: where they lie, how they are built, what else is in them.

use terrace_format::compress::{SNAPPY, ZSTD};

use super::{Case, Outcome, holds};
use crate::fabricate::{Fabricated, Filter, Table};

/// Seven keys in three blocks, one of them with an older version behind it.
fn seven() -> Table {
    ('a'..='g').fold(Table::new(), |table, letter| {
        let (key, sequence) = (format!("key-{letter}"), u64::from(letter));
        let table = table.put(&key, sequence, &letter.to_string().repeat(9));
        if letter == 'c' { table.put(&key, 5, "older") } else { table }
    })
}

fn seven_entries() -> Vec<(String, String)> {
    ('a'..='g').map(|letter| (format!("key-{letter}"), letter.to_string().repeat(9))).collect()
}

/// A shape of table must not matter: it is read at level 0 and at level 3.
fn shape(name: &'static str, table: &Table) -> [Case; 2] {
    [0, 3].map(|level| Case::new(name, Fabricated::new().table(level, 9, table), holds(&seven_entries())))
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, table) in [
        ("a plain table", seven()),
        ("snappy", seven().codec(&SNAPPY)),
        ("LevelDB's own filter", seven().filter(Filter::PerRange)),
        ("one filter for the whole table", seven().filter(Filter::WholeTable)),
        ("a filter with 31 probes", seven().filter(Filter::Unknown)),
        ("bytes behind the handles of the index", seven().index_extra(b"first key, head array")),
        ("gaps between the blocks", seven().gap(100)),
        ("unknown meta blocks", seven().meta("a.hash.index", b"...").meta("z.properties", b"..")),
        ("a filter of another name", seven().meta("filter.some.other.Filter", b"...")),
        ("bytes in front of the first restart point", seven().hidden()),
        ("all of it", seven().filter(Filter::WholeTable).index_extra(b"x").gap(9).meta("m", b"m").hidden()),
    ] {
        cases.extend(shape(name, &table));
    }
    cases.extend(shape("zstd", &seven().codec(&ZSTD)).map(Case::not_by_stock));
    let unknown = Fabricated::new().table(2, 9, &seven().stored_type(9));
    cases.push(Case::new("an unknown block type", unknown, Outcome::Unreadable));
    cases.extend((2..7).map(at_level));
    cases.extend([
        many_at_level_0(),
        tiers(),
        old_file_with_a_higher_number(),
        overlapping_level_0(),
        old_name(),
    ]);
    cases
}

fn at_level(level: usize) -> Case {
    Case::new("a table at a deep level", Fabricated::new().table(level, 9, &seven()), holds(&seven_entries()))
}

fn many_at_level_0() -> Case {
    let mut database = Fabricated::new();
    for n in 1..=20 {
        let table =
            Table::new().put("all", n, &format!("from {n}")).put(&format!("own-{n:02}"), 100 + n, "x");
        database = database.table(0, 10 + n, &table);
    }
    let mut entries = vec![("all".to_owned(), "from 20".to_owned())];
    entries.extend((1..=20).map(|n| (format!("own-{n:02}"), "x".to_owned())));
    Case::new("more files at level 0 than LevelDB lets be", database, holds(&entries))
}

/// One sorted run at each level, all over the same keys: newer above older, and deletes above what they delete.
fn tiers() -> Case {
    let mut database = Fabricated::new();
    for level in 1..7 {
        let sequence = 100 - level as u64;
        let table = Table::new().put("all", sequence, &format!("level {level}"));
        let table = table.put(&format!("at-{level}"), sequence, "x");
        let table = if level % 2 == 1 { table.delete(&format!("at-{}", level + 1), sequence) } else { table };
        database = database.table(level, 20 - level as u64, &table);
    }
    let entries = [("all", "level 1"), ("at-1", "x"), ("at-3", "x"), ("at-5", "x")];
    Case::new("a sorted run at every level", database, holds(&entries))
}

/// Get in stock LevelDB trusts the number of a level-0 file, its iterator the sequence.
fn old_file_with_a_higher_number() -> Case {
    let database = Fabricated::new().table(0, 10, &Table::new().put("k", 50, "new")).table(
        0,
        11,
        &Table::new().put("k", 7, "old"),
    );
    Case::new("an older file with a higher number", database, holds(&[("k", "new")])).not_by_stock()
}

/// Level 0 in pieces: some disjoint, some overlapping.
fn overlapping_level_0() -> Case {
    let database = Fabricated::new()
        .table(0, 10, &Table::new().put("a", 1, "1").put("c", 2, "1"))
        .table(0, 11, &Table::new().put("d", 3, "2").put("f", 4, "2"))
        .table(0, 12, &Table::new().put("b", 5, "3").put("d", 6, "3").delete("f", 7))
        .table(0, 13, &Table::new().put("x", 8, "4"));
    let entries = [("a", "1"), ("b", "3"), ("c", "1"), ("d", "3"), ("x", "4")];
    Case::new("level 0 in pieces", database, holds(&entries))
}

fn old_name() -> Case {
    let table = seven();
    let database = Fabricated::new().table(1, 9, &table).rename("000009.ldb", "000009.sst");
    Case::new("a table under the old name", database, holds(&seven_entries()))
}
