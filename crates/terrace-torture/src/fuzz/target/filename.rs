//! File names.

use terrace_format::filename::FileName;

use crate::fuzz::Target;
use crate::fuzz::input_format::InputFormat;

pub(super) const TARGET: Target = Target {
    name: "filename",
    property: "a valid file name contains no path, and survives another formatting and parsing",
    format: InputFormat::NoChecksums,
    executions_per_case: 20_000,
    seed_inputs: seeds,
    run,
};

fn seeds() -> Vec<Vec<u8>> {
    let names = [
        "CURRENT",
        "LOCK",
        "LOG",
        "LOG.old",
        "000005.log",
        "000007.ldb",
        "7.sst",
        "000009.dbtmp",
        "MANIFEST-000002",
    ];
    let hostile =
        ["../000005.log", "000005.log/..", "18446744073709551616.ldb", "+7.ldb", "7.ldb.", "MANIFEST--1"];
    names.iter().chain(&hostile).map(|name| name.as_bytes().to_vec()).collect()
}

fn run(input: &[u8]) {
    let name = String::from_utf8_lossy(input);
    let Some(file) = FileName::parse(&name) else { return };
    assert!(!name.contains(['/', '\\', '\0']), "a path: {name:?}");
    let formatted = file.to_string();
    assert_eq!(FileName::parse(&formatted), Some(file), "{name:?} is formatted as {formatted:?}");
    // A number may have any count of leading zeros.
    let number = |name: &str| {
        name.chars().filter(char::is_ascii_digit).collect::<String>().trim_start_matches('0').to_owned()
    };
    assert_eq!(number(&name), number(&formatted));
}
