//! Edit log: the last changes of the set of tables, so that the picture of the levels can go back.
//!
//! ```text
//!   edit 0   base: the oldest kept set of tables
//!   edit 1   + 9                flush
//!   edit 2   + 10 11  - 7 8     compaction       each edit has its time
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use terrace::{TableChangeCause, TableChanges, TableInfo};

/// Maximum number of kept edits.
const MAX_EDITS: usize = 10_000;
/// Maximum size of the kept edits, in bytes.
const MAX_BYTES: usize = 16 << 20;

/// Table at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableRow {
    pub(crate) number: u64,
    pub(crate) level: usize,
    pub(crate) bytes: u64,
    pub(crate) smallest: Box<[u8]>,
    pub(crate) largest: Box<[u8]>,
    /// Number of entries, if it is known.
    pub(crate) entries: Option<u64>,
    /// Milliseconds since 1970.
    pub(crate) created_at: u64,
}

impl TableRow {
    /// Describes a table on `level`.
    pub(crate) fn new(level: usize, table: TableInfo, created_at: u64) -> TableRow {
        TableRow {
            number: table.number,
            level,
            bytes: table.size,
            smallest: table.smallest.into(),
            largest: table.largest.into(),
            entries: table.entries,
            created_at,
        }
    }

    /// Memory of the row, in bytes.
    fn memory(&self) -> usize {
        size_of::<TableRow>() + self.smallest.len() + self.largest.len()
    }
}

/// Tables by their numbers.
pub(crate) type TableSet = BTreeMap<u64, Arc<TableRow>>;

/// Change of the set of tables.
#[derive(Debug)]
pub(crate) struct Edit {
    /// Milliseconds since 1970.
    pub(crate) at: u64,
    pub(crate) kind: &'static str,
    pub(crate) added: Vec<Arc<TableRow>>,
    pub(crate) removed: Vec<u64>,
    /// Level of the first removed table.
    from: Option<usize>,
}

impl Edit {
    fn apply(&self, tables: &mut TableSet) {
        for number in &self.removed {
            tables.remove(number);
        }
        tables.extend(self.added.iter().map(|row| (row.number, Arc::clone(row))));
    }

    fn memory(&self) -> usize {
        let rows: usize = self.added.iter().map(|row| row.memory()).sum();
        size_of::<Edit>() + rows + size_of::<u64>() * self.removed.len()
    }

    /// Description of the edit.
    pub(crate) fn words(&self) -> String {
        let to = self.added.first().map(|row| row.level);
        let removed = self.removed.len();
        let added = self.added.len();
        match (self.kind, self.from, to) {
            ("move", Some(from), Some(to)) => format!("move {from} > {to}: {}", tables(added)),
            ("compaction", Some(from), Some(to)) => {
                format!("compaction {from} > {to}: {} became {added}", tables(removed))
            }
            (kind, _, Some(to)) => format!("{kind}: {} on level {to}", tables(added)),
            (kind, Some(from), None) => format!("{kind}: {} of level {from} removed", tables(removed)),
            (kind, None, None) => format!("{kind}: {added} tables"),
        }
    }
}

/// True if `tables` has the table of `row` on its level.
fn has_row(tables: &TableSet, row: &TableRow) -> bool {
    tables.get(&row.number).is_some_and(|other| other.level == row.level)
}

fn tables(count: usize) -> String {
    if count == 1 { "1 table".into() } else { format!("{count} tables") }
}

/// Name of a cause.
fn kind(cause: TableChangeCause) -> &'static str {
    match cause {
        TableChangeCause::Flush => "flush",
        TableChangeCause::Compaction => "compaction",
        TableChangeCause::Move => "move",
        TableChangeCause::DeleteRange => "delete_range",
        TableChangeCause::Ingest => "ingest",
        _ => "other",
    }
}

/// Last edits.
#[derive(Debug, Default)]
pub(crate) struct EditLog {
    /// Tables after edit 0.
    base: Arc<TableSet>,
    base_at: u64,
    edits: VecDeque<Arc<Edit>>,
    current: Arc<TableSet>,
    /// Number of all edits, forgotten ones included.
    total: u64,
    bytes: usize,
}

/// Tables after an edit: a set, and the edits to apply. The engine waits for the lock of the log,
/// so a reader applies them without it.
#[derive(Debug)]
pub(crate) struct TablesAfter {
    base: Arc<TableSet>,
    edits: Vec<Arc<Edit>>,
    /// Time of the edit.
    pub(crate) at: u64,
}

impl TablesAfter {
    /// Returns the set of tables.
    pub(crate) fn apply(self) -> Arc<TableSet> {
        if self.edits.is_empty() {
            return self.base;
        }
        let mut tables = Arc::unwrap_or_clone(self.base);
        self.edits.iter().for_each(|edit| edit.apply(&mut tables));
        Arc::new(tables)
    }
}

impl EditLog {
    /// Number of all edits, forgotten ones included. It identifies the current set of tables.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Number of kept edits, edit 0 included.
    pub(crate) fn len(&self) -> usize {
        1 + self.edits.len()
    }

    /// Begins with the tables `base` if no edit came after the number `total`. Returns false
    /// otherwise.
    pub(crate) fn start(&mut self, total: u64, base: TableSet, at: u64) -> bool {
        if self.total != total {
            return false;
        }
        let base = Arc::new(base);
        *self = EditLog { current: Arc::clone(&base), base, base_at: at, total, ..EditLog::default() };
        true
    }

    /// Records an edit.
    pub(crate) fn record(&mut self, changes: &TableChanges, at: u64) {
        let added = changes.added.iter().map(|(level, table)| {
            // A moved table keeps its time and its count.
            let before = self.current.get(&table.number);
            let mut row = TableRow::new(*level, table.clone(), before.map_or(at, |row| row.created_at));
            row.entries = row.entries.or(before.and_then(|row| row.entries));
            Arc::new(row)
        });
        let edit = Edit {
            at,
            kind: kind(changes.cause),
            added: added.collect(),
            removed: changes.removed.iter().map(|(_, number)| *number).collect(),
            from: changes.removed.first().map(|(level, _)| *level),
        };
        self.push(edit);
    }

    /// Records the difference to the tables `tables` of another process.
    pub(crate) fn record_difference(&mut self, tables: &TableSet, at: u64) {
        let added: Vec<Arc<TableRow>> =
            tables.values().filter(|row| !has_row(&self.current, row)).cloned().collect();
        let removed: Vec<&Arc<TableRow>> =
            self.current.values().filter(|row| !has_row(tables, row)).collect();
        if added.is_empty() && removed.is_empty() {
            return;
        }
        let is_move =
            added.len() == removed.len() && removed.iter().all(|row| tables.contains_key(&row.number));
        let kind = match (removed.is_empty(), added.is_empty()) {
            (true, _) => "flush",
            (false, true) => "delete_range",
            _ if is_move => "move",
            _ => "compaction",
        };
        let from = removed.iter().map(|row| row.level).min();
        let removed = removed.iter().map(|row| row.number).collect();
        self.push(Edit { at, kind, added, removed, from });
    }

    fn push(&mut self, edit: Edit) {
        edit.apply(Arc::make_mut(&mut self.current));
        self.bytes += edit.memory();
        self.total += 1;
        self.edits.push_back(Arc::new(edit));
        while self.len() > MAX_EDITS || self.bytes > MAX_BYTES {
            let Some(oldest) = self.edits.pop_front() else { break };
            self.bytes -= oldest.memory();
            self.base_at = oldest.at;
            oldest.apply(Arc::make_mut(&mut self.base));
        }
    }

    /// Current tables.
    pub(crate) fn newest(&self) -> TablesAfter {
        let at = self.edits.back().map_or(self.base_at, |edit| edit.at);
        TablesAfter { base: Arc::clone(&self.current), edits: Vec::new(), at }
    }

    /// Tables after edit `edit`. None for an edit that is not kept.
    pub(crate) fn tables_after(&self, edit: usize) -> Option<TablesAfter> {
        if edit >= self.len() {
            return None;
        }
        let edits: Vec<Arc<Edit>> = self.edits.iter().take(edit).cloned().collect();
        let at = edits.last().map_or(self.base_at, |edit| edit.at);
        Some(TablesAfter { base: Arc::clone(&self.base), edits, at })
    }

    /// Table `number` of the current set.
    pub(crate) fn table(&self, number: u64) -> Option<Arc<TableRow>> {
        self.current.get(&number).cloned()
    }

    /// Edits from number `from` on. Edit 0 stands for the tables at the begin.
    pub(crate) fn edits(&self, from: usize, count: usize) -> Vec<(usize, Arc<Edit>)> {
        let base =
            Edit { at: self.base_at, kind: "open", added: Vec::new(), removed: Vec::new(), from: None };
        let all = std::iter::once(Arc::new(base)).chain(self.edits.iter().cloned());
        all.enumerate().skip(from).take(count).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(number: u64) -> TableInfo {
        TableInfo::new(number, 10, b"a".to_vec(), b"z".to_vec())
    }

    fn set(rows: &[(usize, u64)], at: u64) -> TableSet {
        rows.iter()
            .map(|(level, number)| (*number, Arc::new(TableRow::new(*level, info(*number), at))))
            .collect()
    }

    fn shown(tables: &TableSet) -> Vec<(usize, u64)> {
        tables.values().map(|row| (row.level, row.number)).collect()
    }

    #[test]
    fn tables_after_each_edit() {
        let mut log = EditLog::default();
        assert!(log.start(0, set(&[(0, 1)], 5), 5));
        log.record_difference(&set(&[(0, 1), (0, 2)], 6), 6);
        log.record_difference(&set(&[(1, 3)], 7), 7);
        log.record_difference(&set(&[(1, 3)], 8), 8);
        log.record_difference(&set(&[(2, 3)], 9), 9);
        let words: Vec<String> = log.edits(0, 10).iter().map(|(_, edit)| edit.words()).collect();
        assert_eq!(
            words,
            [
                "open: 0 tables",
                "flush: 1 table on level 0",
                "compaction 0 > 1: 2 tables became 1",
                "move 1 > 2: 1 table"
            ]
        );
        let after = |edit| {
            log.tables_after(edit).map(|after| {
                let at = after.at;
                (shown(&after.apply()), at)
            })
        };
        assert_eq!(after(0), Some((vec![(0, 1)], 5)));
        assert_eq!(after(1), Some((vec![(0, 1), (0, 2)], 6)));
        assert_eq!(after(2), Some((vec![(1, 3)], 7)));
        assert_eq!(after(3), Some((vec![(2, 3)], 9)));
        assert_eq!(after(4), None);
        let newest = log.newest();
        assert_eq!((newest.at, shown(&newest.apply())), (9, vec![(2, 3)]));
    }

    #[test]
    fn oldest_edits_are_forgotten() {
        let mut log = EditLog::default();
        for number in 0..MAX_EDITS as u64 + 100 {
            log.record_difference(&set(&[(0, number)], number), number);
        }
        assert_eq!((log.len(), log.total()), (MAX_EDITS, MAX_EDITS as u64 + 100));
        assert_eq!(shown(&log.tables_after(0).unwrap().apply()), [(0, 100)]);
        assert!(!log.start(0, TableSet::new(), 0));
    }

    #[test]
    fn long_keys_are_bounded() {
        let mut log = EditLog::default();
        for number in 0..100 {
            let table = TableInfo::new(number, 1, vec![b'a'; 1 << 20], Vec::new());
            let row = Arc::new(TableRow::new(0, table, 0));
            log.record_difference(&TableSet::from([(number, row)]), 0);
        }
        assert!(log.bytes <= MAX_BYTES && log.len() < 20, "{} bytes, {} edits", log.bytes, log.len());
    }
}
