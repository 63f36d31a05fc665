//! Merge of overlapping tables into disjoint ones. All versions and tombstones stay; duplicates of
//! an entry become one.

use terrace_format::key;
use terrace_format::key_order::KeyOrder;

use super::level_assignment::split_into_sorted_runs;
use super::recovered_table::RecoveredTable;
use super::table_output::{TableOutput, UnfinishedTable};
use crate::cache::{self, BlockCache};
use crate::error::Result;
use crate::internal_iterator::InternalIterator;
use crate::iterator::{ChildIter, MergingIter};
use crate::stats::Statistics;
use crate::sync::Arc;
use crate::table::{BlockReadOptions, TableCache, TableReaderContext};
use crate::version::{FileMeta, Version};

/// Merges `group` into new tables. Returns none in a dry run, which has not written its inputs.
pub(super) fn merge_tables(
    output: &mut TableOutput<'_>,
    group: &[RecoveredTable],
) -> Result<Vec<RecoveredTable>> {
    if output.dry_run {
        return Ok(Vec::new());
    }
    let mut input = MergingIter::new(output.order.clone(), merge_inputs(output, group));
    let mut merged = Vec::new();
    let mut writer: Option<UnfinishedTable> = None;
    let mut last_user_key = Vec::new();
    input.seek_to_first();
    while input.valid() {
        let user_key = key::user_key(input.key());
        let is_full = writer.as_ref().is_some_and(|writer| writer.size() >= output.options.base_file_size());
        // All versions of a key stay in one table: a point lookup searches one table per sorted
        // level.
        if is_full && output.order.user_comparator().compare(&last_user_key, user_key).is_ne() {
            merged.extend(writer.take().map(UnfinishedTable::finish).transpose()?.flatten());
        }
        last_user_key.clear();
        last_user_key.extend_from_slice(user_key);
        let table = match &mut writer {
            Some(table) => table,
            empty => empty.insert(output.start_table(group[0].source)?),
        };
        table.add(&output.order, input.key(), input.value())?;
        input.next();
    }
    input.status()?;
    merged.extend(writer.map(UnfinishedTable::finish).transpose()?.flatten());
    Ok(merged)
}

fn merge_inputs(output: &TableOutput<'_>, group: &[RecoveredTable]) -> Vec<ChildIter> {
    let context = TableReaderContext {
        order: KeyOrder::from(&output.order),
        filter_policy: None,
        cache: BlockCache::new(0),
        cache_id: cache::new_cache_id(),
        metrics: Statistics::default(),
        memory: Arc::default(),
    };
    let table_cache =
        Arc::new(TableCache::new(output.directory, output.options, Arc::new(context), Box::new(|_| ())));
    let version = Version::empty(output.order.clone());
    let read = BlockReadOptions::BULK;
    split_into_sorted_runs(group, &output.order)
        .into_iter()
        .flat_map(|run| {
            let files = run.into_iter().map(|table| FileMeta::new(table.file, 0)).collect();
            // Level 1 stands for any sorted level: its iterator opens one table of a run at a time.
            version.child_iters_of_files(1, files, &table_cache, read)
        })
        .collect()
}
