//! What came out of a run, in the forms that people and programs read.

pub mod html;
pub mod model;
