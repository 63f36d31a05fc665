//! The output of a reader that runs in another process: for each entry the key and the value, each
//! after its length in four bytes, little-endian.

use std::process::Command;

use terrace_testkit::differential::{Entry, OpResult};

/// Size of the length of a key or a value, in bytes.
const LENGTH_SIZE: usize = 4;

/// Runs a reader and decodes its output.
pub(super) fn run_reader(command: &mut Command) -> OpResult<Vec<Entry>> {
    decode(&run_program(command)?).ok_or_else(|| format!("{command:?}: incomplete output"))
}

/// Runs a program and returns its output. If it fails, the last line of its standard error is the
/// reason.
pub(super) fn run_program(command: &mut Command) -> OpResult<Vec<u8>> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let reason = text.lines().rfind(|line| !line.trim().is_empty());
    Err(reason.map_or_else(|| format!("{command:?}: {}", output.status), str::to_owned))
}

/// Decodes entries. Returns None if the output is incomplete.
fn decode(mut output: &[u8]) -> Option<Vec<Entry>> {
    let mut entries = Vec::new();
    while !output.is_empty() {
        entries.push((take_bytes(&mut output)?, take_bytes(&mut output)?));
    }
    Some(entries)
}

fn take_bytes(output: &mut &[u8]) -> Option<Vec<u8>> {
    let (length, rest) = output.split_first_chunk::<LENGTH_SIZE>()?;
    let (bytes, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    *output = rest;
    Some(bytes.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incomplete_output_is_rejected() {
        let output = [1, 0, 0, 0, b'k', 2, 0, 0, 0, b'v', b'w'];
        assert_eq!(decode(&output), Some(vec![(b"k".to_vec(), b"vw".to_vec())]));
        for len in 1..output.len() {
            assert_eq!(decode(&output[..len]), None, "{len} bytes");
        }
    }

    #[test]
    fn failure_of_a_program_is_its_last_error_line() {
        let refused = run_program(Command::new("sh").args(["-c", "echo a; echo b >&2; echo c >&2; exit 1"]));
        assert_eq!(refused, Err("c".into()));
        let aborted = run_program(Command::new("sh").args(["-c", "kill -ABRT $$"]));
        assert!(aborted.as_ref().is_err_and(|error| error.ends_with("signal: 6 (SIGABRT)")), "{aborted:?}");
    }
}
