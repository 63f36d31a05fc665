//! Key schemes of known programs, for directories in the raw layout.
//!
//! A row names the keys of one program by its public documentation. The scheme of a directory is
//! detected from keys that only this program has, or from its comparator.

use super::indexed_db;
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
    KeyScheme { is_used: indexed_db::is_indexed_db, name: indexed_db::key_name },
    KeyScheme { is_used: |store| has_key(store, BITCOIN_OBFUSCATION), name: bitcoin_coins },
    KeyScheme { is_used: is_bitcoin_index, name: bitcoin_index },
    KeyScheme { is_used: |store| has_any_key(store, BEDROCK_KEYS), name: bedrock },
    KeyScheme { is_used: |store| has_key(store, b"next-map-id"), name: session_storage },
    KeyScheme { is_used: |store| has_key(store, b"VERSION"), name: local_storage },
];

/// True if a bytewise directory has the key. A damaged block reads as if the key was missing.
fn has_key(store: &Store, key: &[u8]) -> bool {
    store.is_bytewise() && store.db().is_ok_and(|db| db.contains(key).unwrap_or(false))
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
    let last_file =
        if has_key(store, b"l") { store.db().ok().and_then(|db| db.get(b"l").ok().flatten()) } else { None };
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

/// Begins of the keys of Minecraft Bedrock that are text.
static BEDROCK_NAMES: &[(&[u8], &str)] = &[
    (b"~local_player", "Bedrock: local player"),
    (b"player_", "Bedrock: player"),
    (b"map_", "Bedrock: map"),
    (b"actorprefix", "Bedrock: entity"),
    (b"digp", "Bedrock: entities of a chunk"),
    (b"VILLAGE_", "Bedrock: village"),
    (b"structuretemplate_", "Bedrock: structure"),
    (b"tickingarea_", "Bedrock: ticking area"),
    (b"Overworld", "Bedrock: dimension"),
    (b"Nether", "Bedrock: dimension"),
    (b"TheEnd", "Bedrock: dimension"),
    (b"AutonomousEntities", "Bedrock: entities of the world"),
    (b"BiomeData", "Bedrock: biomes"),
    (b"LevelChunkMetaDataDictionary", "Bedrock: metadata of chunks"),
    (b"mobevents", "Bedrock: events of mobs"),
    (b"portals", "Bedrock: portals"),
    (b"schedulerWT", "Bedrock: wandering trader"),
    (b"scoreboard", "Bedrock: scoreboard"),
];

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
    (55, "Bedrock: data of a conversion"),
    (56, "Bedrock: border blocks"),
    (57, "Bedrock: spawn areas"),
    (58, "Bedrock: random ticks"),
    (59, "Bedrock: checksums"),
    (60, "Bedrock: seed"),
    (61, "Bedrock: blending done"),
    (62, "Bedrock: heights of the blending"),
    (63, "Bedrock: hash of the metadata"),
    (64, "Bedrock: data of the blending"),
    (65, "Bedrock: version of the entities"),
    (118, "Bedrock: chunk version (old)"),
];

/// Minecraft Bedrock: the coordinates of a chunk, the dimension unless it is the overworld, a tag,
/// and the number of a subchunk.
fn bedrock(key: &[u8]) -> Option<&'static str> {
    /// Tag of subchunks.
    const SUBCHUNK: u8 = 47;
    if let Some((_, name)) = BEDROCK_NAMES.iter().find(|(begin, _)| key.starts_with(begin)) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_browsers() {
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
