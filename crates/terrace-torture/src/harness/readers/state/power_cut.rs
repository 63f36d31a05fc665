//! The files that a power cut leaves.
//!
//! Terrace loses power in the in-memory file system. LevelDB needs real files, so its log loses its
//! end. A log with a gap is left out, as in `leveldb-after-power-cut`: other readers continue after
//! the gap, and Terrace does not.

use std::path::Path;

use terrace_testkit::differential::OpResult;
use terrace_testkit::rng::Rng;

use super::Writer;
use crate::harness::leveldb_interop::{
    EngineKind, cut_power_of_terrace, may_have_log_hole, truncate_leveldb_log,
};

pub(super) fn leave(writer: &Writer, rng: &mut Rng, dir: &Path) -> OpResult<Option<String>> {
    let workload = writer.draw_workload(20);
    let origin = match writer.engine {
        EngineKind::Terrace => cut_power_of_terrace(&workload, rng, dir)?,
        EngineKind::LevelDb => truncate_leveldb_log(writer.stock, &workload, rng, dir)?,
    };
    let may_have_hole = may_have_log_hole(dir).map_err(|error| error.to_string())?;
    let is_comparable = dir.join("CURRENT").exists() && !may_have_hole;
    Ok(is_comparable.then(|| format!("{origin}, [{}]", workload.settings)))
}
