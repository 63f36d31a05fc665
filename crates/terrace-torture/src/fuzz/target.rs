//! The list of fuzz targets.

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
mod ingest;
mod internal_key;
mod log;
mod manifest;
mod operations;
mod redis_protocol;
mod repair;
mod table;
mod version_edit;

/// All fuzz targets, ordered by the size of the structure that they read.
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
    ingest::TARGET,
    version_edit::TARGET,
    manifest::TARGET,
    current::TARGET,
    filename::TARGET,
    directory::TARGET,
    repair::TARGET,
    operations::TARGET,
    redis_protocol::TARGET,
];
