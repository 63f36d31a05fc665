//! Losses that the rules of LevelDB and goleveldb cause without Terrace.
//!
//! An acknowledged write may be missing only if a row of [`KNOWN_LOSSES`] explains it. No row
//! explains a loss if Terrace wrote the batch, or had the database open after it.

use super::engine::Engine;

/// Circumstances of the loss of one batch.
#[derive(Debug, Clone)]
pub(super) struct Loss {
    /// Engine that wrote the batch.
    pub(super) author: Engine,
    /// Engines of the turns from the write to the last one before the loss was found.
    pub(super) holders: Vec<Engine>,
    /// Engine that opened the database without the batch.
    pub(super) finder: Engine,
    /// True if an earlier write of the same turn failed.
    pub(super) follows_failed_write: bool,
    /// True if the log ended in damage before the turn of the author, and another engine than
    /// Terrace had left it.
    pub(super) follows_foreign_damage: bool,
    /// Evidence from the directory before the open.
    pub(super) evidence: Evidence,
}

/// Evidence from copies of the directory before the finder opened it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Evidence {
    /// True if LevelDB finds the batch in a copy.
    pub(super) leveldb_finds: bool,
    /// True if goleveldb finds the batch in a copy.
    pub(super) goleveldb_finds: bool,
    /// True if a log has a readable record of the batch.
    pub(super) has_record: bool,
    /// True if the sequence number of that record is below the last one in the MANIFEST.
    pub(super) is_below_manifest: bool,
}

/// Documented way in which an engine loses acknowledged writes.
pub(super) struct KnownLoss {
    /// Name in messages.
    pub(super) name: &'static str,
    /// Returns true if this way explains the loss.
    pub(super) explains: fn(&Loss) -> bool,
}

/// All known losses.
pub(super) static KNOWN_LOSSES: &[KnownLoss] = &[
    // LevelDB 1.23, db/log_writer.cc: after a failed append, the bytes of the torn record stay in
    // the log, and the writer's offset in the block is that of the complete record. Readers drop
    // the rest of the block after a torn record, and records that cross the end of a block.
    KnownLoss {
        name: "LevelDB appends after a torn record",
        explains: |loss| {
            loss.author == Engine::LevelDb
                && loss.follows_failed_write
                && !loss.evidence.has_record
                && !loss.evidence.leveldb_finds
        },
    },
    // LevelDB 1.23, DBImpl::RecoverLogFile: with `reuse_logs` it continues a log without a check of
    // its end. The incomplete record of a killed process or of a failed write then hides the
    // records that follow it in the block.
    KnownLoss {
        name: "LevelDB continues a log that ends in a torn record",
        explains: |loss| {
            loss.author == Engine::LevelDb
                && loss.follows_foreign_damage
                && !loss.evidence.has_record
                && !loss.evidence.leveldb_finds
        },
    },
    // goleveldb, leveldb/batch.go, decodeBatchToMem: it skips records below the last sequence number of
    // the MANIFEST. LevelDB stores a later number there than that of the first record of the log.
    KnownLoss {
        name: "goleveldb skips records below LevelDB's last sequence number",
        explains: |loss| {
            loss.finder == Engine::Goleveldb
                && loss.author == Engine::LevelDb
                && loss.evidence.leveldb_finds
                && !loss.evidence.goleveldb_finds
                && loss.evidence.has_record
                && loss.evidence.is_below_manifest
        },
    },
];

/// Returns the row that explains a loss.
pub(super) fn explain(loss: &Loss) -> Option<&'static KnownLoss> {
    if loss.author == Engine::Terrace || loss.holders.contains(&Engine::Terrace) {
        return None;
    }
    KNOWN_LOSSES.iter().find(|row| (row.explains)(loss))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TORN: Evidence = Evidence {
        leveldb_finds: false,
        goleveldb_finds: false,
        has_record: false,
        is_below_manifest: false,
    };

    const SKIPPED: Evidence =
        Evidence { leveldb_finds: true, goleveldb_finds: false, has_record: true, is_below_manifest: true };

    fn after_failed_write() -> Loss {
        Loss {
            author: Engine::LevelDb,
            holders: vec![Engine::LevelDb],
            finder: Engine::Terrace,
            follows_failed_write: true,
            follows_foreign_damage: false,
            evidence: TORN,
        }
    }

    fn after_damage() -> Loss {
        Loss { follows_failed_write: false, follows_foreign_damage: true, ..after_failed_write() }
    }

    fn below_manifest() -> Loss {
        Loss {
            finder: Engine::Goleveldb,
            follows_failed_write: false,
            evidence: SKIPPED,
            ..after_failed_write()
        }
    }

    #[test]
    fn each_row_explains_its_own_loss() {
        for (row, loss) in KNOWN_LOSSES.iter().zip([after_failed_write(), after_damage(), below_manifest()]) {
            assert_eq!(explain(&loss).map(|found| found.name), Some(row.name));
        }
    }

    #[test]
    fn loss_with_terrace_is_never_explained() {
        for loss in [after_failed_write(), after_damage(), below_manifest()] {
            let by_terrace = Loss { author: Engine::Terrace, ..loss.clone() };
            assert!(explain(&by_terrace).is_none(), "{by_terrace:?}");
            for holders in [vec![Engine::Terrace], vec![Engine::LevelDb, Engine::Terrace]] {
                let held_by_terrace = Loss { holders, ..loss.clone() };
                assert!(explain(&held_by_terrace).is_none(), "{held_by_terrace:?}");
            }
        }
    }

    #[test]
    fn loss_without_its_cause_is_not_explained() {
        let found = |loss: Loss| Loss { evidence: Evidence { leveldb_finds: true, ..TORN }, ..loss };
        let recorded = |loss: Loss| Loss { evidence: Evidence { has_record: true, ..TORN }, ..loss };
        for loss in [
            Loss { follows_failed_write: false, ..after_failed_write() },
            Loss { author: Engine::Goleveldb, ..after_failed_write() },
            Loss { author: Engine::Goleveldb, ..after_damage() },
            found(after_failed_write()),
            found(after_damage()),
            recorded(after_failed_write()),
            recorded(after_damage()),
            Loss { finder: Engine::Terrace, ..below_manifest() },
            Loss { finder: Engine::LevelDb, ..below_manifest() },
            Loss { author: Engine::Goleveldb, ..below_manifest() },
            Loss { evidence: Evidence { is_below_manifest: false, ..SKIPPED }, ..below_manifest() },
            Loss { evidence: Evidence { goleveldb_finds: true, ..SKIPPED }, ..below_manifest() },
        ] {
            assert!(explain(&loss).is_none(), "{loss:?}");
        }
    }
}
