//! Integration tests of the public API: one binary, one module for each topic.
//!
//! ```text
//!   ascending_keys         several ascending sequences of keys are written once
//!   bad_input              errors for bad directories, files, disks and arguments; no data is lost
//!   bulk_load              loads of unsorted entries agree with an ordered map
//!   backups                backups store each table once and restore what they saved
//!   checkpoints            copies of databases in every state; refused targets
//!   codecs                 builds without a codec report it and lose nothing
//!   compaction_style       both styles keep all entries, and the tree settles after a load
//!   conditional_writes     a conditional write notices every other write
//!   conformance            the cases that all bindings run
//!   debug_texts            `Debug` texts are short
//!   delete_range           removal of a key range, whole tables at once
//!   descriptors            file descriptors of databases that are open and idle
//!   events                 events and statistics agree with the info log and with each other
//!   follower_directories   directories of RocksDB, without permission, and on a read-only mount
//!   followers              readers beside a writer see its states and never go back
//!   hidden_versions        iterators over keys with many hidden versions
//!   hostile_directories    links, special files and holes; nothing outside of a directory changes
//!   ingest                 tables are added all at once, and never beside older versions of a key
//!   leftover_files         failures leave no unneeded files and no waiting threads
//!   leveldb_bugs           bugs of LevelDB 1.23 that Terrace does not have
//!   leveldb_interop        LevelDB and Terrace exclude each other and give the same errors
//!   leveldb_user_reports   reports of LevelDB users: corruption, lost files, undead keys
//!   maintenance            small manifests, reclaimed space, shared caches, the info log
//!   memory_budget          memory of a database stays within its budget
//!   nonblocking_calls      calls that never wait use no file and agree with those that wait
//!   nonstandard_files      files that LevelDB reads but never writes
//!   opening                files that open and close write
//!   other_platforms        platforms write the same tables and open databases of each other
//!   point_reads            all read methods agree with an ordered map
//!   raw_blocks             uncompressed blocks are searched in the mapping of their table
//!   read_compaction        wasted probes trigger compactions, in proportion to their cost
//!   recovery_report        an open reports the end of each log, and missing data
//!   regressions            regression tests
//!   repair                 repaired databases hold the entries of an ordered map
//!   shared_budget          databases of a process share one memory budget
//!   space_reclaim          background compactions reclaim the space of deleted entries
//!   subcompactions         compactions on several threads
//!   system_errors          texts of the errors of the system
//!   threads                concurrent readers and writers see consistent states
//!   transactions           transactions are isolated and agree with an ordered map
//!   windows                names, open files and locks of Windows
//!   write_stalls           write stalls are counted and logged
//!   wrong_tables           exchanged, lengthened and cut table files give no wrong answer
//! ```

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod ascending_keys;
mod backups;
mod bad_input;
mod bulk_load;
mod checkpoints;
mod codecs;
mod compaction_style;
mod conditional_writes;
mod conformance;
mod debug_texts;
mod delete_range;
mod descriptors;
mod events;
mod files;
mod follower_directories;
mod followers;
mod hidden_versions;
mod hostile_directories;
mod ingest;
mod leftover_files;
mod leveldb_bugs;
mod leveldb_interop;
mod leveldb_user_reports;
mod maintenance;
mod memory_budget;
mod nonblocking_calls;
mod nonstandard_files;
mod opening;
mod other_platforms;
mod point_reads;
mod process;
mod raw_blocks;
mod read_compaction;
mod recovery_report;
mod regressions;
mod repair;
mod shared_budget;
mod space_reclaim;
mod subcompactions;
mod system_errors;
mod threads;
mod transactions;
mod windows;
mod write_stalls;
mod wrong_tables;
