//! Native part of Terrace for Java: the functions of the class `org.terracedb.Native`.
//!
//! ```text
//!   Java    TerraceDB, TerraceIterator, ..  check arguments, encode batches
//!           NativeHandle                    counts the callers of a handle, and frees it
//!           Native                          declares the functions
//!   --------------------------------------------------------------------------------
//!   Rust    registration                    table of all functions, JNI_OnLoad
//!           database, cursor, transaction   one engine call for each function
//!           call                            errors and panics become exceptions
//!           raw                             every call of the virtual machine, all unsafe code
//! ```
//!
//! The functions translate and decide nothing. They copy bytes between the arrays of Java and the
//! engine, so no thread holds an array of Java while the engine may wait.

mod call;
mod callbacks;
mod cursor;
mod database;
mod maintenance;
mod options;
mod raw;
mod registration;
mod transaction;
