//! Commands of the Redis protocol.

use terrace_server::resp::{Limits, Parser, ProtocolError, Reply, Step};

use crate::fuzz::Target;
use crate::fuzz::input_format::InputFormat;

pub(super) const TARGET: Target = Target {
    name: "redis-protocol",
    property: "commands do not depend on the sizes of the reads, and survive another encoding",
    format: InputFormat::NoChecksums,
    executions_per_case: 20_000,
    seed_inputs: seeds,
    run,
};

/// Limits that short inputs can reach.
const LIMITS: Limits = Limits { args: 8, arg_bytes: 64, command_bytes: 256, is_authenticated: true };

/// Bound of the line that announces a length, in bytes.
const MAX_NUMBER: usize = 66;

fn seeds() -> Vec<Vec<u8>> {
    [
        &b"*2\r\n$3\r\nGET\r\n$4\r\nBern\r\n*1\r\n$4\r\nPING\r\n"[..],
        b"SET \"a\\x00b\" 'c\\'d'\r\nPING\r\n\r\n*0\r\n",
        b"*3\r\n$3\r\nSET\r\n$0\r\n\r\n$2\r\n\r\n\r\n*-1\r\n",
        b"*1\r\n*1\r\n*1\r\n$65\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ]
    .map(|input| [b"\x06", input].concat())
    .to_vec()
}

type Commands = Vec<Vec<Vec<u8>>>;

fn run(input: &[u8]) {
    // The first byte is the size of the reads.
    let Some((step, input)) = input.split_first() else { return };
    let (commands, error) = parse(input, input.len());
    assert_eq!(parse(input, usize::from(*step) + 1), (commands.clone(), error), "smaller reads");
    let mut encoded = Reply::new();
    for command in &commands {
        encoded.bulks(command);
    }
    let (decoded, error) = parse(encoded.as_bytes(), encoded.len());
    // The framing of an array is longer than that of a line.
    let is_too_long =
        error.is_some_and(|error| error.0 == "too big command" || error.0 == "invalid bulk length");
    assert!(is_too_long || decoded == commands, "{decoded:?} instead of {commands:?}");
}

/// Parses `input` in reads of `step` bytes. Returns the commands, and the error that ended them.
fn parse(input: &[u8], step: usize) -> (Commands, Option<ProtocolError>) {
    let mut parser = Parser::new();
    let mut buffer = Vec::new();
    let mut commands = Vec::new();
    for part in input.chunks(step.max(1)) {
        buffer.extend_from_slice(part);
        loop {
            match parser.advance(&mut buffer, &LIMITS) {
                Err(error) => return (commands, Some(error)),
                Ok(Step::Incomplete) => break,
                Ok(Step::Empty) => {}
                Ok(Step::Command) => commands.push(arguments(&parser, &buffer)),
            }
            assert!((1..=buffer.len()).contains(&parser.consumed()), "consumed bytes");
            buffer.drain(..parser.consumed());
            parser.begin();
        }
        assert!(buffer.len() <= LIMITS.command_bytes + MAX_NUMBER, "an unfinished command has a limit");
    }
    (commands, None)
}

fn arguments(parser: &Parser, buffer: &[u8]) -> Vec<Vec<u8>> {
    let args = parser.args();
    assert!(!args.is_empty() && args.len() <= LIMITS.args, "number of arguments");
    args.iter().map(|(begin, end)| buffer[*begin as usize..*end as usize].to_vec()).collect()
}
