//! The file CURRENT.

use terrace_format::filename::current;

use crate::fuzz::Target;
use crate::fuzz::input_format::InputFormat;

pub(super) const TARGET: Target = Target {
    name: "current",
    property: "CURRENT is valid only in the form in which it is written",
    format: InputFormat::NoChecksums,
    executions_per_case: 20_000,
    seed_inputs: || {
        [b"MANIFEST-000002\n".as_slice(), b"MANIFEST-18446744073709551615\n", b"../MANIFEST-000002\n"]
            .map(<[u8]>::to_vec)
            .to_vec()
    },
    run,
};

fn run(input: &[u8]) {
    match current::decode(input) {
        Ok(number) => assert_eq!(current::encode(number), input),
        Err(error) => {
            assert!(error.offset <= input.len() as u64, "{error} at {}", error.offset);
            assert!(error.to_string().len() < 1000, "a long message about a long CURRENT");
        }
    }
}
