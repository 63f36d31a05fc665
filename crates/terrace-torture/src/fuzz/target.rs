//! The targets, a row each.

use super::Target;

mod batch;
mod block;
mod codec;
mod coding;
mod comparator;
mod current;
mod db_checks;
mod directory;
mod filename;
mod filter;
mod footer;
mod internal_key;
mod log;
mod manifest;
mod operations;
mod repair;
mod table;
mod version_edit;

/// Every target, from the smallest thing that is read to the largest.
pub static TARGETS: &[Target] = &[
    coding::TARGET,
    internal_key::TARGET,
    comparator::TARGET,
    batch::TARGET,
    log::TARGET,
    block::TARGET,
    filter::TARGET,
    codec::SNAPPY,
    codec::ZSTD,
    codec::ZLIB,
    codec::DEFLATE,
    footer::TARGET,
    table::TARGET,
    version_edit::TARGET,
    manifest::TARGET,
    current::TARGET,
    filename::TARGET,
    directory::TARGET,
    repair::TARGET,
    operations::TARGET,
];
