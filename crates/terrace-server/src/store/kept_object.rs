//! Object that a worker keeps for the next read of the same key.
//!
//! ```text
//!   HGET k a   reads the record of k, then the field
//!   HGET k b   unchanged database: reads the field only
//! ```
//!
//! The number of the object is of use only in the state that it was read from, so a read gets it
//! only while the database is unchanged. Pipelines and clients that read the same objects profit.

use terrace::{Db, StateStamp};

use super::object::Object;

/// Maximum size of a kept key, in bytes.
const MAX_KEY: usize = 512;

/// Place for the kept object of a thread.
#[derive(Debug, Default)]
pub(super) struct KeptObject {
    /// Key of the record.
    record_key: Vec<u8>,
    /// Object of the record, and the state that has it.
    object: Option<(Object, StateStamp)>,
}

impl KeptObject {
    /// Keeps `object`, which the record with the key `record_key` names in the state of `stamp`.
    pub(super) fn set(&mut self, record_key: &[u8], object: &Object, stamp: StateStamp) {
        self.object = None;
        if record_key.len() <= MAX_KEY {
            self.record_key.clear();
            self.record_key.extend_from_slice(record_key);
            self.object = Some((*object, stamp));
        }
    }

    /// Returns the object that the record with the key `record_key` names in the present state of
    /// `db`, if it is the kept one.
    pub(super) fn get(&self, record_key: &[u8], db: &Db) -> Option<Object> {
        let (object, stamp) = self.object?;
        (self.record_key == record_key && db.is_unchanged_since(stamp)).then_some(object)
    }
}

#[cfg(test)]
mod tests {
    use terrace::{Env, Options};

    use super::super::layout::ValueType;
    use super::*;

    #[test]
    fn kept_for_the_same_key_and_state() {
        let options = Options::default().create_if_missing(true).env(Env::in_memory());
        let db = Db::open("kept", &options).unwrap();
        let object = Object::new(ValueType::Hash, 7);
        let mut kept = KeptObject::default();
        assert_eq!(kept.get(b"", &db), None);
        kept.set(b"a", &object, db.state_stamp());
        assert_eq!(kept.get(b"a", &db), Some(object));
        assert_eq!(kept.get(b"b", &db), None);
        db.put(b"x", b"").unwrap();
        assert_eq!(kept.get(b"a", &db), None, "another state");
        kept.set(&[0; MAX_KEY + 1], &object, db.state_stamp());
        assert_eq!(kept.get(&[0; MAX_KEY + 1], &db), None, "a long key");
    }
}
