//! How things are measured.

pub mod child;
pub mod histogram;
pub mod machine;
pub mod phase;
pub mod plan;
pub mod protocol;
pub mod resources;
pub mod rounds;
pub mod windows;
mod worker;
