//! What the tests of Terrace stand on.
//!
//! ```text
//!   rng, settings      numbers and option sets from a seed
//!   op, model, run     random operations as data, what they should answer, and the comparison
//!   stock              the distribution's LevelDB, loaded at run time
//!   fabricate          databases assembled byte by byte
//! ```
//!
//! For tests only: failures panic, and files are made without the environment's rules. The engine is not known here;
//! it is a [`run::DatabaseUnderTest`] like the stock library.

pub mod crafted;
pub mod differential;
pub mod model;
pub mod op;
pub mod rng;
pub mod settings;
pub mod stock_leveldb;
