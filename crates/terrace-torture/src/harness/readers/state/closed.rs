//! A cleanly closed database, after a workload of any length.

use std::path::Path;

use terrace_testkit::differential::OpResult;
use terrace_testkit::rng::Rng;

use super::{OPERATIONS_PER_CASE, Writer};

pub(super) fn leave(writer: &Writer, rng: &mut Rng, dir: &Path) -> OpResult<Option<String>> {
    let workload = writer.draw_workload(0);
    let operations = rng.skewed(OPERATIONS_PER_CASE as u64) as usize;
    writer.run_and_close(&workload, operations, dir)?;
    let reopened = rng.one_in(3);
    if reopened {
        writer.run_and_close(&workload, 0, dir)?;
    }
    let suffix = if reopened { ", opened and closed again" } else { "" };
    Ok(Some(format!("closed after {operations} operations{suffix}, [{}]", workload.settings)))
}
