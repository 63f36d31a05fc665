//! Key schemes of known programs, for directories in the raw layout.
//!
//! A row names the keys of one program by its public documentation. The scheme of a directory is
//! detected from keys that only this program has.

use crate::store::{Layout, Store};

/// Names of keys.
#[derive(Debug)]
pub(super) struct KeySchemes {
    scheme: Option<&'static KeyScheme>,
}

/// Key scheme of a program.
#[derive(Debug)]
struct KeyScheme {
    /// True for the directory of the program.
    is_used: fn(&Store) -> bool,
    /// Meaning of a key and its value.
    name: fn(&[u8], &[u8]) -> Option<&'static str>,
}

impl KeySchemes {
    /// Finds the scheme of a directory.
    pub(super) fn new(store: &Store) -> KeySchemes {
        let is_raw = store.layout == Layout::Raw;
        KeySchemes { scheme: SCHEMES.iter().find(|scheme| is_raw && (scheme.is_used)(store)) }
    }

    /// Returns the meaning of a key.
    pub(super) fn name(&self, key: &[u8], value: &[u8]) -> Option<&'static str> {
        (self.scheme?.name)(key, value)
    }
}

/// Key schemes.
static SCHEMES: &[KeyScheme] = &[];
