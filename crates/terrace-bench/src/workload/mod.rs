//! What is done to an engine.

pub mod description;
pub mod expect;
pub mod keys;
pub mod ops;
pub mod suites;
