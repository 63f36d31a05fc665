//! Internal keys.

use terrace_format::key::{self, InternalKey, Kind, MAX_SEQUENCE};

use crate::fuzz::Target;
use crate::fuzz::form::Form;

pub(super) const TARGET: Target = Target {
    name: "key",
    shows: "an internal key that parses is made of its parts again",
    form: Form::Plain,
    runs: 20_000,
    seeds,
    run,
};

fn seeds() -> Vec<Vec<u8>> {
    let key = |user: &[u8], sequence, kind| InternalKey::new(user, sequence, kind).as_bytes().to_vec();
    vec![key(b"CH/Bern", 7, Kind::Put), key(b"", MAX_SEQUENCE, Kind::Delete), b"short".to_vec()]
}

fn run(input: &[u8]) {
    assert_eq!(key::user_key(input).len(), input.len().saturating_sub(key::TRAILER_SIZE));
    match key::parse(input) {
        Ok(parsed) => {
            let again = InternalKey::new(parsed.user_key, parsed.sequence, parsed.kind);
            assert_eq!(again.as_bytes(), input);
            let decoded = InternalKey::decode(input).expect("what parses decodes");
            assert_eq!((decoded.user_key(), decoded.sequence()), (parsed.user_key, parsed.sequence));
            assert_eq!(key::trailer(input), key::pack(parsed.sequence, parsed.kind));
        }
        Err(flaw) => {
            assert!(flaw.at <= input.len() as u64, "{flaw} at {}", flaw.at);
            assert!(InternalKey::decode(input).is_err(), "decodes, but does not parse: {flaw}");
        }
    }
}
