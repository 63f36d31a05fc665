//! Integration tests: one binary, one module for each topic.
//!
//! ```text
//!   conformance      the same cases on every engine
//!   migrations       copies between all engines, also after an interruption and beside a writer
//!   random_calls     random calls on every engine agree with the engine `memory:`
//!   addresses        wrong addresses and prefixes are errors, and nothing is written
//!   tls_files        unusable certificates and keys are errors before a connection
//!   etcd_limits      limits of etcd are checked before a request
//!   etcd_access      TLS, users and passwords
//!   etcd_answers     commits whose answers are lost
//!   etcd_requests    number of requests of each call
//!   etcd_speed       figures of the design note, on demand
//!   etcd_faults      histories of clients while servers die, stop and disappear
//!   tikv_limits      limits of TiKV; large values; age of snapshots
//!   tikv_access      TLS
//!   tikv_answers     commits whose answers are lost
//!   tikv_requests    number of requests of each call, for any number of regions
//!   tikv_safe_point  removal of old versions
//!   tikv_simulation  figures of the design note, on demand
//!   tikv_faults      histories of clients while regions split, leaders move, stores stop
//! ```
//!
//! `cluster` starts etcd, and `proxy` stands between a client and a server. `tikv_double` starts a
//! program that speaks TiKV's protocol; `TIKV_PD_ADDRS` names the placement drivers of a real
//! cluster. Tests that lack a server print NOT TESTED.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    reason = "tests stand outside of the store: they start servers, wait for them, and fail if those fail"
)]

mod addresses;
#[cfg(any(feature = "etcd", feature = "tikv"))]
mod authority;
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
#[cfg(any(feature = "etcd", feature = "tikv"))]
mod history;
mod migrations;
#[cfg(feature = "etcd")]
mod proxy;
mod random_calls;
#[cfg(feature = "tikv")]
mod tikv_access;
#[cfg(feature = "tikv")]
mod tikv_answers;
#[cfg(feature = "tikv")]
mod tikv_double;
#[cfg(feature = "tikv")]
mod tikv_faults;
#[cfg(feature = "tikv")]
mod tikv_limits;
#[cfg(feature = "tikv")]
mod tikv_requests;
#[cfg(feature = "tikv")]
mod tikv_safe_point;
#[cfg(feature = "tikv")]
mod tikv_simulation;
#[cfg(any(feature = "etcd", feature = "tikv"))]
mod tls_files;
