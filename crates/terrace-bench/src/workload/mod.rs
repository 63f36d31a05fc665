//! What is done to an engine.

pub mod description;
