//! Tests of the whole server: a client of the test speaks to it over a socket.

mod client;
mod connections;
mod databases;
mod expiry;
mod hostile_input;
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
