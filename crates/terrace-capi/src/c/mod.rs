//! The C interface, directly over the crate `terrace`.
//!
//! ```text
//!   leveldb_t                database, point, property     leveldb_cache_t         cache
//!   leveldb_iterator_t       iterator                      leveldb_comparator_t    comparator
//!   leveldb_snapshot_t       snapshot                      leveldb_filterpolicy_t  filter
//!   leveldb_writebatch_t     batch                         leveldb_env_t           env
//!   leveldb_options_t        options                       leveldb_logger_t        logger
//!   leveldb_read- and        access
//!   leveldb_writeoptions_t                                 versions, free          library
//! ```
//!
//! What each function does stands in `include/leveldb/c.h` and `include/terrace/terrace.h`. Handles are boxes; null is
//! `None`, so that nothing here can follow it. What an object was given (a comparator, a cache, a snapshot) it shares,
//! so the order in which a program destroys things does not matter.

mod batch;
mod cache;
mod callback_state;
mod comparator;
mod database;
mod env;
mod filter;
mod get_put_delete;
mod iterator;
mod library;
mod logger;
mod options;
mod property;
mod read_write_options;
mod snapshot;
