//! The C interface, directly over the crate `terrace`.
//!
//! ```text
//!   leveldb_t               database, property, get_put_delete   leveldb_cache_t        cache
//!   leveldb_iterator_t      iterator                             leveldb_comparator_t   comparator
//!   leveldb_snapshot_t      snapshot                             leveldb_filterpolicy_t filter
//!   leveldb_writebatch_t    batch                                leveldb_env_t          env
//!   leveldb_options_t       options                              leveldb_logger_t       logger
//!   checkpoints, backups    checkpoint
//!   leveldb_readoptions_t,  read_write_options
//!   leveldb_writeoptions_t                                       versions, free         library
//! ```
//!
//! `include/leveldb/c.h` and `include/terrace/terrace.h` document the functions. Handles are boxes,
//! and a null handle is `None`, so it is never dereferenced. An object shares the ownership of its
//! parts (comparator, cache, snapshot), so a program may destroy its objects in any order.

mod batch;
mod cache;
mod callback_state;
mod checkpoint;
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
