//! Batches of writes.

use terrace_format::batch::{self, BatchOp, WriteBatch};

use crate::fuzz::Target;
use crate::fuzz::input_format::InputFormat;

pub(super) const TARGET: Target = Target {
    name: "batch",
    property: "a valid batch has the stated number of operations, and survives another encoding",
    format: InputFormat::NoChecksums,
    executions_per_case: 20_000,
    seed_inputs: seeds,
    run,
};

fn seeds() -> Vec<Vec<u8>> {
    let mut batch = WriteBatch::new();
    batch.put(b"CH/Bern", b"46.95,7.45");
    batch.delete(b"CH/Berne");
    batch.put(b"", [7; 200]);
    batch.set_sequence(1000);
    vec![WriteBatch::new().as_bytes().to_vec(), batch.as_bytes().to_vec()]
}

fn run(input: &[u8]) {
    let batch = match batch::validate(input) {
        Ok(batch) => batch,
        Err(error) => return assert!(error.offset <= input.len() as u64, "{error} at {}", error.offset),
    };
    let ops: Vec<BatchOp<'_>> = batch.iter().take(input.len()).collect();
    assert_eq!(ops.len(), batch.len(), "operations");
    let mut rebuilt = WriteBatch::new();
    for op in &ops {
        match *op {
            BatchOp::Put { key, value } => rebuilt.put(key, value),
            BatchOp::Delete { key } => rebuilt.delete(key),
        };
    }
    rebuilt.set_sequence(batch.sequence());
    assert!(rebuilt.as_bytes().len() <= input.len(), "the rebuilt batch is longer");
    let decoded = WriteBatch::from_bytes(rebuilt.as_bytes().to_vec()).expect("a rebuilt batch is valid");
    assert!(decoded.iter().eq(ops), "the rebuilt batch has other operations");
    assert_eq!(decoded.sequence(), batch.sequence());
}
