//! Internal keys.

use terrace_format::key::{self, InternalKey, MAX_SEQUENCE_NUMBER, ValueType};

use crate::fuzz::Target;
use crate::fuzz::input_format::InputFormat;

pub(super) const TARGET: Target = Target {
    name: "internal-key",
    property: "an internal key that parses is equal to the encoding of its parts",
    format: InputFormat::NoChecksums,
    executions_per_case: 20_000,
    seed_inputs: seeds,
    run,
};

fn seeds() -> Vec<Vec<u8>> {
    let key = |user: &[u8], sequence, kind| InternalKey::new(user, sequence, kind).as_bytes().to_vec();
    vec![
        key(b"CH/Bern", 7, ValueType::Value),
        key(b"", MAX_SEQUENCE_NUMBER, ValueType::Deletion),
        b"short".to_vec(),
    ]
}

fn run(input: &[u8]) {
    assert_eq!(key::user_key(input).len(), input.len().saturating_sub(key::KEY_TRAILER_SIZE));
    match key::parse(input) {
        Ok(parsed) => {
            let encoded = InternalKey::new(parsed.user_key, parsed.sequence, parsed.value_type);
            assert_eq!(encoded.as_bytes(), input);
            let decoded = InternalKey::decode(input).expect("a key that parses also decodes");
            assert_eq!((decoded.user_key(), decoded.sequence()), (parsed.user_key, parsed.sequence));
            assert_eq!(key::trailer(input), key::pack_sequence_and_type(parsed.sequence, parsed.value_type));
        }
        Err(error) => {
            assert!(error.offset <= input.len() as u64, "{error} at {}", error.offset);
            assert!(InternalKey::decode(input).is_err(), "decodes, but does not parse: {error}");
        }
    }
}
