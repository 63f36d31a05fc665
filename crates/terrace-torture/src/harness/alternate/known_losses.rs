//! Losses that the rules of LevelDB and goleveldb cause without Terrace.
//!
//! An acknowledged write may be missing only if a row of [`KNOWN_LOSSES`] explains it. If Terrace
//! wrote the batch, or had the database open after it, no row explains a loss that the directory of
//! Terrace already contained: the engine that misses the batch must find it in a copy of that
//! directory.

use super::engine::Engine;

/// Circumstances of the loss of one batch.
#[derive(Debug, Clone)]
pub(super) struct Loss {
    /// Engine that wrote the batch, the first of the holders.
    pub(super) author: Engine,
    /// Engines of the turns from the write to the last one before the loss was found.
    pub(super) holders: Vec<Engine>,
    /// Engine that opened the database without the batch.
    pub(super) finder: Engine,
    /// True if an earlier write of the same turn failed.
    pub(super) follows_failed_write: bool,
    /// True if the log was damaged before the turn of the author, and a log of LevelDB would have
    /// been: another engine had left it, or Terrace, killed in a write to an appended log.
    pub(super) follows_damage: bool,
    /// True if Terrace is among the holders, and the finder finds the batch in the directory as
    /// Terrace left it.
    pub(super) is_intact_after_terrace: bool,
    /// Evidence from the directory before the open.
    pub(super) evidence: Evidence,
}

impl Loss {
    /// Returns true if only LevelDB had the database open from the write to the loss.
    fn is_by_leveldb_alone(&self) -> bool {
        self.author == Engine::LevelDb && self.holders.iter().all(|&holder| holder == Engine::LevelDb)
    }
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
    /// True if the record before it breaks off after its first fragments.
    pub(super) follows_torn_record: bool,
    /// True if the sequence number of that record is below the last one in the MANIFEST.
    pub(super) is_below_manifest: bool,
    /// True if a table has a greater sequence number than the MANIFEST.
    pub(super) has_hidden_table: bool,
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
            loss.is_by_leveldb_alone()
                && loss.follows_failed_write
                && !loss.evidence.has_record
                && !loss.evidence.leveldb_finds
        },
    },
    // LevelDB 1.23, DBImpl::RecoverLogFile: with `reuse_logs` it continues a log without a check of
    // its end. The incomplete record of a killed process or of a failed write then hides the
    // records that follow it in the block. An appended log of Terrace equals LevelDB's, also if a
    // kill interrupts the system call. Mapped logs must never leave such an end.
    KnownLoss {
        name: "LevelDB continues a log that ends in a torn record",
        explains: |loss| {
            loss.is_by_leveldb_alone()
                && loss.follows_damage
                && !loss.evidence.has_record
                && !loss.evidence.leveldb_finds
        },
    },
    // goleveldb, leveldb/batch.go, decodeBatchToMem: it skips records below the last sequence
    // number of the MANIFEST. LevelDB stores a later one there than that of the first record of the
    // log, also if it continues the log of another engine.
    KnownLoss {
        name: "goleveldb skips records below LevelDB's last sequence number",
        explains: |loss| {
            loss.finder == Engine::Goleveldb
                && loss.holders.last() == Some(&Engine::LevelDb)
                && loss.evidence.leveldb_finds
                && !loss.evidence.goleveldb_finds
                && loss.evidence.has_record
                && loss.evidence.is_below_manifest
        },
    },
    // goleveldb, leveldb/db_transaction.go, Commit: a batch larger than the write buffer is a
    // transaction, whose commit stores its last sequence number in the MANIFEST. If an earlier
    // memtable could not be flushed on a full disk, and the process is killed, the next open skips
    // its log.
    KnownLoss {
        name: "goleveldb skips a log that it could not flush before a transaction",
        explains: |loss| {
            loss.finder == Engine::Goleveldb
                && loss.author == Engine::Goleveldb
                && loss.holders.iter().all(|&holder| holder == Engine::Goleveldb)
                && loss.evidence.leveldb_finds
                && !loss.evidence.goleveldb_finds
                && loss.evidence.has_record
                && loss.evidence.is_below_manifest
        },
    },
    // goleveldb, leveldb/db_compaction.go, memCompaction: the edit of a flush that ends after the
    // commit of a transaction states the smaller last sequence number of the memtable. LevelDB and
    // goleveldb then hide the tables of the transaction. Terrace shows them.
    KnownLoss {
        name: "goleveldb hides a transaction after a flush",
        explains: |loss| {
            loss.finder != Engine::Terrace
                && loss.author == Engine::Goleveldb
                && loss.holders == [Engine::Goleveldb]
                && !loss.evidence.leveldb_finds
                && !loss.evidence.goleveldb_finds
                && loss.evidence.has_hidden_table
        },
    },
    // goleveldb, leveldb/journal/journal.go, nextChunk: it takes any fragment for the next one of a
    // record. If a killed LevelDB has left the first fragments of a record, and LevelDB continues
    // the log, goleveldb joins them with the next record, and loses it.
    KnownLoss {
        name: JOINED_RECORDS,
        explains: |loss| {
            loss.finder == Engine::Goleveldb
                && loss.is_by_leveldb_alone()
                && loss.evidence.leveldb_finds
                && !loss.evidence.goleveldb_finds
                && loss.evidence.has_record
                && loss.evidence.follows_torn_record
        },
    },
];

const JOINED_RECORDS: &str = "goleveldb joins a torn record with the next one";

/// Circumstances of contents that no choice of batches gives.
#[derive(Debug, Clone, Copy)]
pub(super) struct WrongContents {
    /// Engine that found the contents.
    pub(super) finder: Engine,
    /// Engine of the turn before.
    pub(super) last_holder: Engine,
    /// True if LevelDB finds every acknowledged batch in a copy, and nothing else.
    pub(super) leveldb_is_right: bool,
    /// True if a log has a record after one that breaks off after its first fragments.
    pub(super) has_record_after_torn_one: bool,
    /// True if a write of the last holder failed. Its log then has a torn record, which also hides
    /// some of LevelDB's own later records from LevelDB.
    pub(super) follows_failed_write: bool,
}

/// Returns the name of the known bug that explains wrong contents.
///
/// goleveldb inserts the operations of a joined record until it finds the error. So it shows a part
/// of the torn batch.
pub(super) fn explain_contents(wrong: &WrongContents) -> Option<&'static str> {
    let is_joined = wrong.finder == Engine::Goleveldb
        && wrong.last_holder == Engine::LevelDb
        && (wrong.follows_failed_write || wrong.leveldb_is_right && wrong.has_record_after_torn_one);
    is_joined.then_some(JOINED_RECORDS)
}

/// Returns the row that explains a loss.
pub(super) fn explain(loss: &Loss) -> Option<&'static KnownLoss> {
    if loss.holders.contains(&Engine::Terrace) && !loss.is_intact_after_terrace {
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
        follows_torn_record: false,
        is_below_manifest: false,
        has_hidden_table: false,
    };

    const SKIPPED: Evidence =
        Evidence { leveldb_finds: true, has_record: true, is_below_manifest: true, ..TORN };

    const JOINED: Evidence = Evidence { is_below_manifest: false, follows_torn_record: true, ..SKIPPED };

    fn after_failed_write() -> Loss {
        Loss {
            author: Engine::LevelDb,
            holders: vec![Engine::LevelDb],
            finder: Engine::Terrace,
            follows_failed_write: true,
            follows_damage: false,
            is_intact_after_terrace: false,
            evidence: TORN,
        }
    }

    fn after_damage() -> Loss {
        Loss { follows_failed_write: false, follows_damage: true, ..after_failed_write() }
    }

    fn below_manifest() -> Loss {
        Loss {
            finder: Engine::Goleveldb,
            follows_failed_write: false,
            evidence: SKIPPED,
            ..after_failed_write()
        }
    }

    fn below_transaction() -> Loss {
        Loss { author: Engine::Goleveldb, holders: vec![Engine::Goleveldb], ..below_manifest() }
    }

    fn hidden() -> Loss {
        Loss { evidence: Evidence { has_hidden_table: true, ..TORN }, ..below_transaction() }
    }

    fn joined() -> Loss {
        Loss { evidence: JOINED, ..below_manifest() }
    }

    fn all_losses() -> [Loss; 6] {
        [after_failed_write(), after_damage(), below_manifest(), below_transaction(), hidden(), joined()]
    }

    #[test]
    fn each_row_explains_its_own_loss() {
        let losses = all_losses();
        assert_eq!(KNOWN_LOSSES.len(), losses.len());
        for (row, loss) in KNOWN_LOSSES.iter().zip(losses) {
            assert_eq!(explain(&loss).map(|found| found.name), Some(row.name));
        }
    }

    #[test]
    fn loss_by_terrace_is_never_explained() {
        use Engine::{Goleveldb, LevelDb, Terrace};
        for loss in all_losses() {
            for holders in [
                vec![Terrace],
                vec![Terrace, LevelDb],
                vec![LevelDb, Terrace],
                vec![Goleveldb, Terrace, LevelDb],
            ] {
                let by_terrace = Loss { author: holders[0], holders, ..loss.clone() };
                assert!(explain(&by_terrace).is_none(), "{by_terrace:?}");
                // LevelDB's MANIFEST hides records that Terrace has handed over intact.
                let intact = Loss { is_intact_after_terrace: true, ..by_terrace };
                let by_leveldb = loss.evidence.is_below_manifest && intact.holders.last() == Some(&LevelDb);
                assert_eq!(explain(&intact).is_some(), by_leveldb, "{intact:?}");
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
            Loss { holders: vec![Engine::LevelDb, Engine::Goleveldb], ..below_manifest() },
            Loss { finder: Engine::Terrace, ..below_transaction() },
            Loss { evidence: Evidence { is_below_manifest: false, ..SKIPPED }, ..below_transaction() },
            Loss { evidence: Evidence { goleveldb_finds: true, ..SKIPPED }, ..below_transaction() },
            Loss { finder: Engine::Terrace, ..hidden() },
            Loss { author: Engine::LevelDb, ..hidden() },
            Loss { holders: vec![Engine::Goleveldb, Engine::LevelDb], ..hidden() },
            Loss { evidence: TORN, ..hidden() },
            found(hidden()),
            Loss { finder: Engine::Terrace, ..joined() },
            Loss { author: Engine::Goleveldb, ..joined() },
            Loss { evidence: Evidence { follows_torn_record: false, ..JOINED }, ..joined() },
            Loss { evidence: Evidence { is_below_manifest: false, ..SKIPPED }, ..below_manifest() },
            Loss { evidence: Evidence { goleveldb_finds: true, ..SKIPPED }, ..below_manifest() },
        ] {
            assert!(explain(&loss).is_none(), "{loss:?}");
        }
    }

    #[test]
    fn wrong_contents_have_one_explanation() {
        let joined = WrongContents {
            finder: Engine::Goleveldb,
            last_holder: Engine::LevelDb,
            leveldb_is_right: true,
            has_record_after_torn_one: true,
            follows_failed_write: false,
        };
        let failed = WrongContents { leveldb_is_right: false, follows_failed_write: true, ..joined };
        assert_eq!(explain_contents(&failed), Some(JOINED_RECORDS));
        assert_eq!(explain_contents(&joined), Some(JOINED_RECORDS));
        for wrong in [
            WrongContents { finder: Engine::Terrace, ..joined },
            WrongContents { finder: Engine::LevelDb, ..joined },
            WrongContents { last_holder: Engine::Terrace, ..joined },
            WrongContents { last_holder: Engine::Terrace, ..failed },
            WrongContents { leveldb_is_right: false, ..joined },
            WrongContents { has_record_after_torn_one: false, ..joined },
        ] {
            assert!(explain_contents(&wrong).is_none(), "{wrong:?}");
        }
    }
}
