//! Integration tests: one binary, one module for each topic.
//!
//! ```text
//!   conformance      the same cases on every engine
//!   migrations       copies between all engines, also after an interruption and beside a writer
//!   random_calls     random calls on every engine agree with the engine `memory:`
//!   addresses        wrong addresses and prefixes are errors, and nothing is written
//!   etcd_limits      limits of etcd are checked before a request
//!   etcd_access      TLS, users and passwords
//!   etcd_answers     commits whose answers are lost
//!   etcd_requests    number of requests of each call
//!   etcd_speed       figures of the design note, on demand
//!   etcd_faults      histories of clients while servers die, stop and disappear
//! ```
//!
//! `cluster` starts etcd, and `proxy` stands between a client and a server. Without etcd, the tests
//! print NOT TESTED.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    reason = "tests stand outside of the store: they start servers, wait for them, and fail if those fail"
)]

mod addresses;
#[cfg(feature = "etcd")]
mod cluster;
mod conformance;
#[cfg(feature = "etcd")]
mod etcd_access;
#[cfg(feature = "etcd")]
mod etcd_answers;
#[cfg(feature = "etcd")]
mod etcd_faults;
#[cfg(feature = "etcd")]
mod etcd_limits;
#[cfg(feature = "etcd")]
mod etcd_requests;
#[cfg(feature = "etcd")]
mod etcd_speed;
mod fixture;
#[cfg(feature = "etcd")]
mod history;
mod migrations;
#[cfg(feature = "etcd")]
mod proxy;
mod random_calls;
