//! Tests of the program as its users see it: command lines in; output, messages and exit codes out.

mod bad_input;
mod bench;
mod cli_test;
mod damage;
mod dump_file;
mod entries;
#[cfg(all(feature = "server", feature = "store", unix))]
mod etcd_cluster;
mod foreign_codecs;
mod help;
mod interrupted_bench;
mod leveldb_interop;
mod live;
mod maintenance;
#[cfg(all(feature = "server", unix))]
mod page_stalls;
mod restricted_process;
#[cfg(all(feature = "server", unix))]
mod serve;
mod shell;
#[cfg(feature = "store")]
mod stores;
mod tour;
#[cfg(all(feature = "server", unix))]
mod view;
