//! The targets, a row each.

use super::Target;

mod batch;
mod block;
mod codec;
mod coding;
mod contents;
mod current;
mod directory;
mod edit;
mod filter;
mod footer;
mod key;
mod log;
mod manifest;
mod name;
mod operations;
mod order;
mod repair;
mod table;

/// Every target, from the smallest thing that is read to the largest.
pub static TARGETS: &[Target] = &[
    coding::TARGET,
    key::TARGET,
    order::TARGET,
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
    edit::TARGET,
    manifest::TARGET,
    current::TARGET,
    name::TARGET,
    directory::TARGET,
    repair::TARGET,
    operations::TARGET,
];
