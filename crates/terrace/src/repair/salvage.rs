//! Reading tables and logs that may be damaged, and what can be read of them into new tables.
//!
//! ```text
//!   table   index good   every block that it leads to, but for damaged ones
//!           index bad    blocks found by their checksums               (blocks)
//!   log                  every whole record: damage is passed over
//! ```
//!
//! Entries keep their sequence numbers: nothing is newer or older than it was.

use std::path::Path;

use terrace_env::{Access, RandomAccessFile};
use terrace_format::batch::BatchOp;
use terrace_format::filename::FileName;
use terrace_format::filter::OfUserKeys;
use terrace_format::key::{self, Kind, Sequence};

use super::blocks;
use super::piece::{Piece, Tally};
use super::workshop::{Draft, Workshop};
use crate::error::{Error, Result};
use crate::memtable::Memtable;
use crate::sync::Arc;
use crate::verify::{Harm, Logged, Met, Problem, Row, TableWalk, walk_log};
use crate::walk::InternalIterator;

/// What a table is like.
pub(super) struct Inspected {
    pub(super) size: u64,
    pub(super) tally: Tally,
    pub(super) damage: Vec<Problem>,
    /// Blocks that can't be read.
    pub(super) lost: u64,
    /// The index does not lead to all of them.
    pub(super) unindexed: bool,
    /// Keys are not in the order of the comparator.
    pub(super) disorder: bool,
    /// Stock LevelDB can read every block.
    pub(super) portable: bool,
}

/// Reads all of `table`.
pub(super) fn inspect(shop: &Workshop<'_>, table: FileName) -> Result<Inspected> {
    let path = shop.path(table);
    let file = shop.env().fs.open_random(&path, Access::Read)?;
    let mut seen = Inspected {
        size: file.len(),
        tally: Tally::default(),
        damage: Vec::new(),
        lost: 0,
        unindexed: false,
        disorder: false,
        portable: true,
    };
    walk(shop, &*file, &path).run(&mut |met| {
        match met {
            Met::Entry { key, .. } => seen.tally.add(key),
            Met::Block { portable, .. } => seen.portable &= portable,
            Met::Damage { kind, found } => {
                seen.lost += u64::from(kind == Harm::Lost);
                seen.unindexed |= kind == Harm::Unindexed;
                seen.disorder |= kind == Harm::Disorder;
                seen.damage.push(Problem::of(table, Error::Corruption(found)));
            }
        }
        Ok(())
    })?;
    Ok(seen)
}

fn walk<'a>(shop: &'a Workshop<'_>, file: &'a dyn RandomAccessFile, path: &'a Path) -> TableWalk<'a> {
    let filter = shop.options.filter_policy.clone().map(|policy| Arc::new(OfUserKeys(policy)) as _);
    TableWalk { file, path, order: &shop.order, filter }
}

/// What came of a rescue.
#[derive(Default)]
pub(super) struct Rescued {
    pub(super) pieces: Vec<Piece>,
    pub(super) entries: u64,
}

/// Copies what can be read of `table`: usually into one new table, into more if its keys are out of order.
pub(super) fn rescue_table(shop: &mut Workshop<'_>, table: FileName) -> Result<Rescued> {
    let path = shop.path(table);
    let file = shop.env().fs.open_random(&path, Access::Read)?;
    let order = shop.order.clone();
    let filter = None;
    let walk = TableWalk { file: &*file, path: &path, order: &order, filter };
    let mut rescue = Rescue::new(shop, table);
    let unknown_from = walk.run(&mut |met| match met {
        Met::Entry { key, value } => rescue.entry(key, value),
        Met::Block { .. } | Met::Damage { .. } => Ok(()),
    })?;
    if let Some(from) = unknown_from {
        blocks::search(&*file, &path, &order, from, &mut |key, value| rescue.entry(key, value))?;
    }
    rescue.finish()
}

/// Reads `logs`, given in their order, the next of `row`. Returns what is wrong with them.
pub(super) fn inspect_logs(shop: &Workshop<'_>, logs: &[u64], row: &mut Row) -> Result<Vec<Problem>> {
    let mut damage = Vec::new();
    for &number in logs {
        let name = FileName::Log(number);
        walk_log(shop.env(), &shop.path(name), row, &mut |met| {
            if let Logged::Damage(found) = met {
                damage.push(Problem::of(name, Error::Corruption(found)));
            }
            Ok(())
        })?;
    }
    Ok(damage)
}

/// Copies what can be read of log `number`, the next of `row`, into new tables, in the order of the writes.
pub(super) fn rescue_log(shop: &mut Workshop<'_>, number: u64, row: &mut Row) -> Result<Rescued> {
    let name = FileName::Log(number);
    let path = shop.path(name);
    let env = shop.env();
    let mut rescue = Rescue::new(shop, name);
    walk_log(env, &path, row, &mut |met| match met {
        Logged::Batch(batch) => {
            let operations = batch.iter().map(|operation| match operation {
                BatchOp::Put { key, value } => (key, Some(value)),
                BatchOp::Delete { key } => (key, None),
            });
            rescue.unsorted(batch.sequence(), operations)
        }
        Logged::Damage(_) => Ok(()),
    })?;
    rescue.finish()
}

/// Entries on their way into new tables.
struct Rescue<'a, 'b> {
    shop: &'a mut Workshop<'b>,
    from: FileName,
    /// For entries that come in their order.
    sorted: Option<Draft>,
    /// For those that do not.
    unsorted: Arc<Memtable>,
    done: Rescued,
}

impl<'a, 'b> Rescue<'a, 'b> {
    fn new(shop: &'a mut Workshop<'b>, from: FileName) -> Rescue<'a, 'b> {
        let unsorted = Memtable::new(shop.order.clone());
        Rescue { shop, from, sorted: None, unsorted, done: Rescued::default() }
    }

    /// Takes an entry that should come behind the one before.
    fn entry(&mut self, internal: &[u8], value: &[u8]) -> Result<()> {
        let draft = match &mut self.sorted {
            Some(draft) => draft,
            none => none.insert(self.shop.draft(self.from)?),
        };
        if draft.add(&self.shop.order, internal, value)? {
            return Ok(());
        }
        let Ok(parsed) = key::parse(internal) else { return Ok(()) };
        let value = (parsed.kind == Kind::Put).then_some(value);
        self.unsorted(parsed.sequence, std::iter::once((parsed.user_key, value)))
    }

    /// Takes operations with the numbers from `sequence` on.
    fn unsorted<'k>(
        &mut self,
        sequence: Sequence,
        operations: impl Iterator<Item = (&'k [u8], Option<&'k [u8]>)>,
    ) -> Result<()> {
        self.unsorted.insert(sequence, operations);
        if self.unsorted.bytes() > self.shop.options.memtable_size() {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        let empty = Memtable::new(self.shop.order.clone());
        let full = std::mem::replace(&mut self.unsorted, empty);
        let mut draft = self.shop.draft(self.from)?;
        let mut entries = full.iter();
        entries.seek_to_first();
        while entries.valid() {
            draft.add(&self.shop.order, entries.key(), entries.value())?;
            entries.next();
        }
        self.take(draft)
    }

    fn take(&mut self, draft: Draft) -> Result<()> {
        self.done.entries += draft.entries();
        self.done.pieces.extend(draft.finish()?);
        Ok(())
    }

    fn finish(mut self) -> Result<Rescued> {
        if let Some(draft) = self.sorted.take() {
            self.take(draft)?;
        }
        if !self.unsorted.is_empty() {
            self.flush()?;
        }
        Ok(self.done)
    }
}
