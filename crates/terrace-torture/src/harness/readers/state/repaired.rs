//! A database that was closed, damaged and repaired.

use std::path::Path;

use terrace::{Env, RepairOptions, repair};
use terrace_testkit::differential::OpResult;
use terrace_testkit::rng::Rng;
use terrace_testkit::settings::Settings;

use super::{OPERATIONS_PER_CASE, Writer};
use crate::database_under_test::options_from_settings;
use crate::harness::leveldb_interop::{EngineKind, inflict_damage};

pub(super) fn leave(writer: &Writer, rng: &mut Rng, dir: &Path) -> OpResult<Option<String>> {
    let workload = writer.draw_workload(0);
    writer.run_and_close(&workload, OPERATIONS_PER_CASE, dir)?;
    // This open removes tables that an iterator kept until the close.
    writer.run_and_close(&workload, 0, dir)?;
    let damage = inflict_damage(dir, rng).map_err(|error| error.to_string())?;
    let origin = format!("repaired after damage ({damage}), [{}]", workload.settings);
    match repair_with(writer, &workload.settings, dir) {
        Ok(()) => Ok(Some(origin)),
        // LevelDB's repair fails for some damage.
        Err(_) if writer.engine == EngineKind::LevelDb => Ok(None),
        Err(error) => Err(format!("{origin}: {error}")),
    }
}

fn repair_with(writer: &Writer, settings: &Settings, dir: &Path) -> OpResult<()> {
    match writer.engine {
        EngineKind::LevelDb => {
            // Paranoid checks make LevelDB verify checksums. Without them it keeps damaged values.
            let settings = Settings { paranoid_checks: true, ..settings.clone() };
            writer.stock.repair(dir, &settings).map_err(|error| error.text)
        }
        EngineKind::Terrace => {
            let options = options_from_settings(settings, &Env::system());
            let repaired = repair(dir, &options, &RepairOptions::default());
            repaired.map(drop).map_err(|error| error.to_string())
        }
    }
}
