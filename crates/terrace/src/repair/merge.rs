//! Several tables that overlap into some that do not. Every version stays, deletes too; the same entry twice becomes one.

use terrace_format::key;
use terrace_format::order::Order;

use super::piece::Piece;
use super::place::runs;
use super::workshop::{Draft, Workshop};
use crate::cache::{self, BlockCache};
use crate::error::Result;
use crate::iter::{MergeIter, Source};
use crate::logger::NoLogger;
use crate::metrics::Metrics;
use crate::sync::Arc;
use crate::tables::{BlockRead, TableCache, TableContext};
use crate::version::{FileMeta, Version};
use crate::walk::InternalIterator;

/// Merges `group`. A dry run has not written what would be read, and makes nothing.
pub(super) fn merge(shop: &mut Workshop<'_>, group: &[Piece]) -> Result<Vec<Piece>> {
    if shop.dry_run {
        return Ok(Vec::new());
    }
    let mut input = MergeIter::new(shop.order.clone(), sources(shop, group));
    let mut pieces = Vec::new();
    let mut draft: Option<Draft> = None;
    let mut last = Vec::new();
    input.seek_to_first();
    while input.valid() {
        let user_key = key::user_key(input.key());
        let full = draft.as_ref().is_some_and(|draft| draft.size() >= shop.options.table_size());
        // Never between two versions of a key: a look-up asks one table of a level.
        if full && shop.order.user().compare(&last, user_key).is_ne() {
            pieces.extend(draft.take().map(Draft::finish).transpose()?.flatten());
        }
        last.clear();
        last.extend_from_slice(user_key);
        let table = match &mut draft {
            Some(table) => table,
            none => none.insert(shop.draft(group[0].from)?),
        };
        table.add(&shop.order, input.key(), input.value())?;
        input.next();
    }
    input.status()?;
    pieces.extend(draft.map(Draft::finish).transpose()?.flatten());
    Ok(pieces)
}

fn sources(shop: &Workshop<'_>, group: &[Piece]) -> Vec<Source> {
    let context = TableContext {
        order: Order::from(&shop.order),
        filter_policy: None,
        cache: BlockCache::new(0),
        instance: cache::instance(),
        metrics: Metrics::default(),
        memory: Arc::default(),
    };
    let (logger, context) = (Arc::new(NoLogger), Arc::new(context));
    let tables = Arc::new(TableCache::new(shop.directory, shop.options, logger, context, Box::new(|_| ())));
    let version = Version::empty(shop.order.clone());
    let read = BlockRead { fill_cache: false };
    let files = |run: Vec<Piece>| run.into_iter().map(|piece| FileMeta::new(piece.file)).collect();
    // As a sorted level: one table of a run is open at a time.
    let source = |run| version.runs(1, files(run), &tables, read);
    runs(group, &shop.order).into_iter().flat_map(source).collect()
}
