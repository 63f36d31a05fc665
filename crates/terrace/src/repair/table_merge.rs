//! Several tables that overlap into some that do not. Every version stays, deletes too; the same entry twice becomes one.

use terrace_format::key;
use terrace_format::key_order::KeyOrder;

use super::level_assignment::split_into_sorted_runs;
use super::recovered_table::RecoveredTable;
use super::table_output::{TableOutput, UnfinishedTable};
use crate::cache::{self, BlockCache};
use crate::error::Result;
use crate::info_log::NoLogger;
use crate::internal_iterator::InternalIterator;
use crate::iterator::{ChildIter, MergingIter};
use crate::stats::Statistics;
use crate::sync::Arc;
use crate::table::{BlockReadOptions, TableCache, TableReaderContext};
use crate::version::{FileMeta, Version};

/// Merges `group`. A dry run has not written what would be read, and makes nothing.
pub(super) fn merge_tables(
    shop: &mut TableOutput<'_>,
    group: &[RecoveredTable],
) -> Result<Vec<RecoveredTable>> {
    if shop.dry_run {
        return Ok(Vec::new());
    }
    let mut input = MergingIter::new(shop.order.clone(), merge_inputs(shop, group));
    let mut pieces = Vec::new();
    let mut draft: Option<UnfinishedTable> = None;
    let mut last = Vec::new();
    input.seek_to_first();
    while input.valid() {
        let user_key = key::user_key(input.key());
        let full = draft.as_ref().is_some_and(|draft| draft.size() >= shop.options.base_file_size());
        // Never between two versions of a key: a look-up asks one table of a level.
        if full && shop.order.user_comparator().compare(&last, user_key).is_ne() {
            pieces.extend(draft.take().map(UnfinishedTable::finish).transpose()?.flatten());
        }
        last.clear();
        last.extend_from_slice(user_key);
        let table = match &mut draft {
            Some(table) => table,
            none => none.insert(shop.start_table(group[0].source)?),
        };
        table.add(&shop.order, input.key(), input.value())?;
        input.next();
    }
    input.status()?;
    pieces.extend(draft.map(UnfinishedTable::finish).transpose()?.flatten());
    Ok(pieces)
}

fn merge_inputs(shop: &TableOutput<'_>, group: &[RecoveredTable]) -> Vec<ChildIter> {
    let context = TableReaderContext {
        order: KeyOrder::from(&shop.order),
        filter_policy: None,
        cache: BlockCache::new(0),
        cache_id: cache::new_cache_id(),
        metrics: Statistics::default(),
        memory: Arc::default(),
    };
    let (logger, context) = (Arc::new(NoLogger), Arc::new(context));
    let tables = Arc::new(TableCache::new(shop.directory, shop.options, logger, context, Box::new(|_| ())));
    let version = Version::empty(shop.order.clone());
    let read = BlockReadOptions { fill_cache: false };
    let files = |run: Vec<RecoveredTable>| run.into_iter().map(|piece| FileMeta::new(piece.file)).collect();
    // As a sorted level: one table of a run is open at a time.
    let source = |run| version.child_iters_of_files(1, files(run), &tables, read);
    split_into_sorted_runs(group, &shop.order).into_iter().flat_map(source).collect()
}
