//! Batches of writes.

use terrace_format::batch::{self, BatchOp, WriteBatch};

use crate::fuzz::Target;
use crate::fuzz::input_format::InputFormat;

pub(super) const TARGET: Target = Target {
    name: "batch",
    property: "a batch that is taken holds as many operations as it says, and is made of them again",
    format: InputFormat::NoChecksums,
    executions_per_case: 20_000,
    seed_inputs: seeds,
    run,
};

fn seeds() -> Vec<Vec<u8>> {
    let mut batch = WriteBatch::new();
    batch.put(b"CH/Bern", b"46.95,7.45");
    batch.delete(b"CH/Berne");
    batch.put(b"", &[7; 200]);
    batch.set_sequence(1000);
    vec![WriteBatch::new().as_bytes().to_vec(), batch.as_bytes().to_vec()]
}

fn run(input: &[u8]) {
    let batch = match batch::validate(input) {
        Ok(batch) => batch,
        Err(flaw) => return assert!(flaw.offset <= input.len() as u64, "{flaw} at {}", flaw.offset),
    };
    let ops: Vec<BatchOp<'_>> = batch.iter().take(input.len()).collect();
    assert_eq!(ops.len(), batch.len(), "operations");
    let mut again = WriteBatch::new();
    for op in &ops {
        match *op {
            BatchOp::Put { key, value } => again.put(key, value),
            BatchOp::Delete { key } => again.delete(key),
        }
    }
    again.set_sequence(batch.sequence());
    assert!(again.as_bytes().len() <= input.len(), "grew when it was made again");
    let back = WriteBatch::from_bytes(again.as_bytes().to_vec()).expect("what was made is taken");
    assert!(back.iter().eq(ops), "other operations when it was made again");
    assert_eq!(back.sequence(), batch.sequence());
}
