//! The C interface, `leveldb_*` and `terrace_*`, directly over the crate `terrace`.
