//! Mutants: deliberate bugs that the attacks on Terrace must find.
//!
//! The code calls `mutant!` with a name at each deliberate bug. An ordinary build replaces the call
//! with `false`. A build with `--cfg terrace_mutants` replaces it with a call of `is_active`, which
//! compares the name with the environment variable `TERRACE_MUTANT`. The crate `terrace-torture`
//! has the table of all bugs and of the attacks that must find them.

/// Returns true in a process with the named deliberate bug. In an ordinary build, it is the
/// constant `false`.
#[cfg(not(terrace_mutants))]
#[macro_export]
macro_rules! mutant {
    ($name:ident) => {
        false
    };
}

/// Returns true in a process with the named deliberate bug.
#[cfg(terrace_mutants)]
#[macro_export]
macro_rules! mutant {
    ($name:ident) => {
        $crate::mutants::is_active(stringify!($name))
    };
}

/// Returns true if the environment variable `TERRACE_MUTANT` of this process is `name`.
#[cfg(terrace_mutants)]
pub fn is_active(name: &str) -> bool {
    use std::sync::OnceLock;
    static ACTIVE: OnceLock<Option<String>> = OnceLock::new();
    ACTIVE.get_or_init(|| std::env::var("TERRACE_MUTANT").ok()).as_deref() == Some(name)
}
