//! Key schemes of known programs, for directories in the raw layout.
//!
//! A row names the keys of one program by its public documentation. The scheme of a directory is
//! detected from keys that only this program has, or from its comparator.

use crate::store::{Layout, Store};

/// Names of keys of one directory.
#[derive(Debug)]
pub(super) struct KeySchemes {
    scheme: Option<&'static KeyScheme>,
}

/// Key scheme of a program.
#[derive(Debug)]
struct KeyScheme {
    is_used: fn(&Store) -> bool,
    /// Meaning of a key.
    name: fn(&[u8]) -> Option<&'static str>,
}

impl KeySchemes {
    /// Finds the scheme of a directory.
    pub(super) fn new(store: &Store) -> KeySchemes {
        let is_raw = store.layout == Layout::Raw;
        KeySchemes { scheme: SCHEMES.iter().find(|scheme| is_raw && (scheme.is_used)(store)) }
    }

    /// Returns the meaning of a key.
    pub(super) fn name(&self, key: &[u8]) -> Option<&'static str> {
        (self.scheme?.name)(key)
    }
}

/// Key schemes.
static SCHEMES: &[KeyScheme] = &[
    KeyScheme { is_used: |store| store.comparator().name() == "idb_cmp1", name: indexed_db },
    KeyScheme { is_used: |store| has_key(store, BITCOIN_OBFUSCATION), name: bitcoin_coins },
    KeyScheme { is_used: is_bitcoin_index, name: bitcoin_index },
    KeyScheme { is_used: |store| has_any_key(store, BEDROCK_KEYS), name: bedrock },
    KeyScheme { is_used: |store| has_key(store, b"next-map-id"), name: session_storage },
    KeyScheme { is_used: |store| has_key(store, b"VERSION"), name: local_storage },
];

/// True if a bytewise directory has the key. A damaged block reads as if the key was missing.
fn has_key(store: &Store, key: &[u8]) -> bool {
    store.is_bytewise() && store.db.contains(key).unwrap_or(false)
}

fn has_any_key(store: &Store, keys: &[&[u8]]) -> bool {
    keys.iter().any(|key| has_key(store, key))
}

/// Key of Bitcoin Core's chain state with the bytes that hide its values.
const BITCOIN_OBFUSCATION: &[u8] = b"\x0e\x00obfuscate_key";

/// Bitcoin Core, `chainstate`.
fn bitcoin_coins(key: &[u8]) -> Option<&'static str> {
    match key {
        BITCOIN_OBFUSCATION => Some("Bitcoin: key that hides the values"),
        [b'C', rest @ ..] if rest.len() > 32 => Some("Bitcoin: unspent output"),
        [b'c', rest @ ..] if rest.len() == 32 => Some("Bitcoin: unspent outputs of a transaction"),
        b"B" => Some("Bitcoin: best block"),
        b"H" => Some("Bitcoin: blocks of an unfinished flush"),
        _ => None,
    }
}

/// Bitcoin Core, `blocks/index`: it has the number of its last block file.
fn is_bitcoin_index(store: &Store) -> bool {
    /// Size of the number, in bytes.
    const NUMBER: usize = 4;
    let last_file = if has_key(store, b"l") { store.db.get(b"l").ok().flatten() } else { None };
    last_file.is_some_and(|value| value.len() == NUMBER)
}

/// Bitcoin Core, `blocks/index`.
fn bitcoin_index(key: &[u8]) -> Option<&'static str> {
    match key {
        [b'b', rest @ ..] if rest.len() == 32 => Some("Bitcoin: block index"),
        [b'f', rest @ ..] if rest.len() == 4 => Some("Bitcoin: block file"),
        [b't', rest @ ..] if rest.len() == 32 => Some("Bitcoin: transaction"),
        [b'F', ..] => Some("Bitcoin: flag"),
        b"l" => Some("Bitcoin: last block file"),
        b"R" => Some("Bitcoin: reindexing"),
        _ => None,
    }
}

/// Keys of which each Bedrock world has one.
static BEDROCK_KEYS: &[&[u8]] = &[b"~local_player", b"BiomeData", b"AutonomousEntities", b"mobevents"];

/// Tags of chunk keys of Minecraft Bedrock.
static BEDROCK_TAGS: &[(u8, &str)] = &[
    (43, "Bedrock: heights and biomes (3D)"),
    (44, "Bedrock: chunk version"),
    (45, "Bedrock: heights and biomes (2D)"),
    (46, "Bedrock: heights and biomes (old)"),
    (47, "Bedrock: blocks of a subchunk"),
    (48, "Bedrock: terrain (old)"),
    (49, "Bedrock: block entities"),
    (50, "Bedrock: entities"),
    (51, "Bedrock: pending ticks"),
    (52, "Bedrock: extra block data (old)"),
    (53, "Bedrock: biome state"),
    (54, "Bedrock: finalized state"),
    (56, "Bedrock: border blocks"),
    (57, "Bedrock: spawn areas"),
    (58, "Bedrock: random ticks"),
    (59, "Bedrock: checksums"),
    (118, "Bedrock: chunk version (old)"),
];

/// Minecraft Bedrock: the coordinates of a chunk, the dimension unless it is the overworld, a tag,
/// and the number of a subchunk.
fn bedrock(key: &[u8]) -> Option<&'static str> {
    /// Tag of subchunks.
    const SUBCHUNK: u8 = 47;
    let names: [(&[u8], &str); 5] = [
        (b"~local_player", "Bedrock: local player"),
        (b"player_", "Bedrock: player"),
        (b"map_", "Bedrock: map"),
        (b"actorprefix", "Bedrock: entity"),
        (b"digp", "Bedrock: entities of a chunk"),
    ];
    if let Some((_, name)) = names.iter().find(|(begin, _)| key.starts_with(begin)) {
        return Some(name);
    }
    let tag = match key.len() {
        9 | 13 => key.last(),
        10 | 14 => key.get(key.len() - 2).filter(|tag| **tag == SUBCHUNK),
        _ => None,
    }?;
    BEDROCK_TAGS.iter().find(|(known, _)| known == tag).map(|(_, name)| *name)
}

/// Local Storage of Chromium.
fn local_storage(key: &[u8]) -> Option<&'static str> {
    match key {
        b"VERSION" => Some("Local Storage: version"),
        [b'_', rest @ ..] if rest.contains(&0) => Some("Local Storage: item of an origin"),
        key if key.starts_with(b"META:") => Some("Local Storage: size of an origin"),
        key if key.starts_with(b"METAACCESS:") => Some("Local Storage: last access of an origin"),
        _ => None,
    }
}

/// Session Storage of Chromium.
fn session_storage(key: &[u8]) -> Option<&'static str> {
    match key {
        b"next-map-id" => Some("Session Storage: next map"),
        b"version" => Some("Session Storage: version"),
        key if key.starts_with(b"namespace-") => Some("Session Storage: map of an origin"),
        key if key.starts_with(b"map-") => Some("Session Storage: item"),
        _ => None,
    }
}

/// IndexedDB of Chromium. The first byte holds the sizes of three numbers: the database, the object
/// store and the index.
fn indexed_db(key: &[u8]) -> Option<&'static str> {
    /// Number of the first index of a program.
    const FIRST_INDEX: u64 = 30;
    let (sizes, rest) = key.split_first()?;
    let sizes = [(sizes >> 5) + 1, (sizes >> 2 & 7) + 1, (sizes & 3) + 1];
    let mut rest = rest;
    let mut numbers = [0u64; 3];
    for (number, size) in numbers.iter_mut().zip(sizes) {
        let (bytes, after) = rest.split_at_checked(size.into())?;
        *number = bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
        rest = after;
    }
    Some(match (numbers, rest.first()) {
        ([0, 0, 0], Some(0)) => "IndexedDB: schema version",
        ([0, 0, 0], Some(1)) => "IndexedDB: last database number",
        ([0, 0, 0], Some(2)) => "IndexedDB: data version",
        ([0, 0, 0], Some(201)) => "IndexedDB: database name",
        ([0, ..], _) => "IndexedDB: global metadata",
        ([_, 0, 0], Some(50)) => "IndexedDB: object store",
        ([_, 0, 0], Some(100)) => "IndexedDB: index",
        ([_, 0, 0], Some(200)) => "IndexedDB: object store name",
        ([_, 0, 0], Some(201)) => "IndexedDB: index name",
        ([_, 0, 0], _) => "IndexedDB: database metadata",
        ([_, _, 1], _) => "IndexedDB: record",
        ([_, _, 2], _) => "IndexedDB: version of a record",
        ([_, _, 3], _) => "IndexedDB: blobs of a record",
        ([_, _, index], _) if index >= FIRST_INDEX => "IndexedDB: index entry",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_browsers() {
        assert_eq!(indexed_db(&[0, 0, 0, 0, 201]), Some("IndexedDB: database name"));
        assert_eq!(indexed_db(&[0, 1, 0, 0, 50, 1]), Some("IndexedDB: object store"));
        assert_eq!(indexed_db(&[0, 1, 1, 1, 3]), Some("IndexedDB: record"));
        assert_eq!(indexed_db(&[0, 1, 1, 30, 3]), Some("IndexedDB: index entry"));
        // A number of two bytes.
        assert_eq!(indexed_db(&[1 << 5, 0, 1, 1, 1, 3]), Some("IndexedDB: record"));
        assert_eq!(indexed_db(&[0xff, 1]), None);
        assert_eq!(local_storage(b"_https://a\0\x01k"), Some("Local Storage: item of an origin"));
        assert_eq!(session_storage(b"map-1-k"), Some("Session Storage: item"));
    }

    #[test]
    fn keys_of_games_and_nodes() {
        assert_eq!(bedrock(&[0, 0, 0, 0, 1, 0, 0, 0, 47, 3]), Some("Bedrock: blocks of a subchunk"));
        assert_eq!(bedrock(&[0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 44]), Some("Bedrock: chunk version"));
        assert_eq!(bedrock(&[0; 9]), None);
        assert_eq!(bitcoin_index(&[b'b'; 33]), Some("Bitcoin: block index"));
        assert_eq!(bitcoin_coins(&[b'C'; 34]), Some("Bitcoin: unspent output"));
        assert_eq!(bitcoin_coins(b"C"), None);
    }
}
