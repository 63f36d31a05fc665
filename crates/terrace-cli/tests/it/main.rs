//! Tests of the program as its users see it: command lines in; output, messages and exit codes out.

mod bad_input;
mod bench;
mod cli_test;
mod damage;
mod dump_file;
mod entries;
#[cfg(all(feature = "server", feature = "store"))]
mod etcd_cluster;
mod foreign_codecs;
mod help;
mod leveldb_interop;
mod live;
mod maintenance;
#[cfg(feature = "server")]
mod page_stalls;
mod restricted_process;
#[cfg(feature = "server")]
mod serve;
mod shell;
#[cfg(feature = "store")]
mod stores;
mod tour;
#[cfg(feature = "server")]
mod view;
