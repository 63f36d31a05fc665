//! Fingerprints of states, and values that identify their write.

use std::collections::BTreeMap;

use terrace_testkit::rng::{Rng, splitmix};

/// Key and value, as a store returns them.
pub type Entry = (Vec<u8>, Vec<u8>);

/// Number of a value, in the order of generation.
pub type ValueId = u32;

/// All values of a script. The first bytes of a value are its number.
#[derive(Debug, Default)]
pub struct ValuePool {
    values: Vec<Vec<u8>>,
}

const VALUE_ID_LEN: usize = size_of::<ValueId>();

impl ValuePool {
    /// Generates a value of at least `len` bytes: compressible text or incompressible noise.
    pub fn generate(&mut self, len: usize, rng: &mut Rng) -> ValueId {
        let id = self.values.len() as ValueId;
        let mut value = id.to_le_bytes().to_vec();
        let mut word = rng.next_u64();
        let noise = rng.one_in(2);
        while value.len() < len.max(VALUE_ID_LEN) {
            value.extend_from_slice(&word.to_le_bytes());
            if noise {
                word = splitmix(&mut word);
            }
        }
        self.values.push(value);
        id
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Returns true if there are no values.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns the total length of all values in bytes.
    pub fn total_bytes(&self) -> usize {
        self.values.iter().map(Vec::len).sum()
    }

    /// Returns the bytes of a value.
    pub fn bytes(&self, id: ValueId) -> &[u8] {
        &self.values[id as usize]
    }

    /// Returns the number of the value with these bytes.
    fn identify(&self, bytes: &[u8]) -> Option<ValueId> {
        let id = ValueId::from_le_bytes(*bytes.first_chunk()?);
        (self.values.get(id as usize)? == bytes).then_some(id)
    }
}

/// Contents of a store: the value of each key.
pub type State = BTreeMap<Vec<u8>, ValueId>;

/// Converts `entries` to a state. Returns an error for unordered keys and for values that were
/// never written.
pub fn parse_state(entries: &[Entry], values: &ValuePool) -> Result<State, String> {
    let mut state = State::new();
    for (key, value) in entries {
        let name = key.escape_ascii();
        let id = values.identify(value).ok_or_else(|| {
            let start = value[..value.len().min(24)].escape_ascii();
            format!("{name} has a value that was never written: {} bytes, \"{start}\"...", value.len())
        })?;
        if state.last_key_value().is_some_and(|(last, _)| last >= key) {
            return Err(format!("{name} is not after the previous key"));
        }
        state.insert(key.clone(), id);
    }
    Ok(state)
}

/// Returns a hash of a state, independent of the order of keys.
pub fn fingerprint(state: &State) -> u64 {
    let hashes = state.iter().map(|(key, &id)| {
        let mut mix = u64::from(id) ^ u64::from(terrace_format::crc::value(key)) << 32;
        splitmix(&mut mix)
    });
    hashes.fold(0, u64::wrapping_add)
}

/// Describes the keys with different values in the two states.
pub fn describe_difference(expected: &State, found: &State) -> String {
    let keys: std::collections::BTreeSet<_> = expected.keys().chain(found.keys()).collect();
    let differ = keys.into_iter().filter(|key| expected.get(*key) != found.get(*key));
    let show = |id: Option<&ValueId>| id.map_or("absent".to_owned(), |id| format!("value {id}"));
    let lines: Vec<String> = differ
        .map(|key| {
            let found = show(found.get(key));
            let expected = show(expected.get(key));
            format!("{}: {found} instead of {expected}", key.escape_ascii())
        })
        .collect();
    lines.join("; ")
}
