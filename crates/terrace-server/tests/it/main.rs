//! Tests of the whole server: a client of the test speaks to it over a socket.
// Tests fail by panicking, and they look at files and wait outside of the simulated world.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod client;
mod connections;
mod databases;
mod expiry;
mod failures;
mod hostile_input;
mod idle_connections;
mod kill;
mod model;
mod process;
mod pubsub;
mod raw_layout;
mod real_clients;
mod server;
mod stock_leveldb;
mod strings;
mod transactions;
