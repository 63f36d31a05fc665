//! Results of a run, in the forms that people and programs read.

pub mod compare;
pub mod html;
pub mod json;
pub mod markdown;
pub mod model;
mod number_format;
pub mod summary;
pub mod table;
