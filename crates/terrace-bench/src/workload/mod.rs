//! The workloads that engines execute.

pub mod expected_values;
pub mod keys;
pub mod ops;
pub mod phase_spec;
pub mod suites;
