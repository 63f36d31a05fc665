//! Tests of the whole server: a client of the test speaks to it over a socket.
// Tests fail by panicking, and they look at files and wait outside of the simulated world.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

mod blocking;
mod client;
mod connections;
mod databases;
mod dump;
mod expiry;
mod failures;
mod front_end_faults;
#[cfg(target_os = "linux")]
mod front_end_memory;
mod front_ends;
mod hostile_input;
mod http_client;
mod hyperloglog;
#[cfg(target_os = "linux")]
mod idle_connections;
mod key_events;
mod kill;
mod ledger;
mod metrics;
mod model;
mod objects;
mod observation;
mod ordered;
mod ordered_model;
mod output_limits;
mod page;
mod page_changes;
mod page_directories;
mod page_document;
mod page_in_browser;
mod page_trust;
mod page_views;
mod power_cuts;
mod process;
mod pubsub;
mod raw_layout;
mod real_clients;
mod redis_corner_cases;
mod scripts;
mod series;
mod server;
mod shared_store;
mod stock_leveldb;
mod streams;
mod strings;
mod suites;
mod tls;
mod transactions;
mod users;
