//! Mutants: deliberate bugs. Most of them are bugs that storage engines have had.
//!
//! The code that contains a bug calls `terrace_sync::mutant!(Name)`. The tests of this module check
//! that each such name has exactly one row here, and that each row is used in the code.

/// A deliberate bug.
#[derive(Debug)]
pub struct Mutant {
    /// Name in the code, on the command line and in `TERRACE_MUTANT`.
    pub name: &'static str,
    /// The bug, in one line.
    pub description: &'static str,
    /// Names of the attacks that may find the bug, in the order in which they run.
    pub harnesses: &'static [&'static str],
    /// Time limit of each attack, in seconds.
    pub time_limit_s: u64,
}

/// Creates one row of the table.
const fn row(
    name: &'static str,
    harnesses: &'static [&'static str],
    time_limit_s: u64,
    description: &'static str,
) -> Mutant {
    Mutant { name, description, harnesses, time_limit_s }
}

/// Table of all deliberate bugs.
#[rustfmt::skip]
pub static MUTANTS: &[Mutant] = &[
    row("WalDirEntryNotSynced", &["crash"], 30, "a sync write to a new WAL does not sync its directory entry"),
    row("CurrentRenameNotSynced", &["crash"], 30, "the old MANIFEST is removed before the rename of CURRENT is durable"),
    row("TableNotSyncedBeforeInstall", &["crash"], 30, "a table is installed before its contents are durable"),
    row("SyncWriteAckedBeforeFsync", &["crash"], 30, "a sync write is acknowledged before it is durable"),
    row("FsyncErrorIgnored", &["io-errors", "crash"], 30, "a failed sync counts as successful"),
    row("SyncErrorReportedOnce", &["loom-models"], 180, "of two syncs of one log, only one reports the lost pages"),
    row("TornWalReused", &["crash", "alternate"], 60, "a WAL that ends in a partial record is reused"),
    row("LostManifestStaysClosed", &["io-errors"], 120, "a MANIFEST whose sync failed still counts as closed"),
    row("ReusedLogNotEnded", &["io-errors", "crash"], 120, "the log after a reused one counts as that of another program"),
    row("WriteGroupNumberedOnce", &["histories", "process-kill"], 60, "all writes of a group have the sequence number of the first in the log"),
    row("ReplayContinuesAfterLostRecord", &["crash"], 30, "log replay continues after a lost record"),
    row("ReplayContinuesAfterDamagedWal", &["crash"], 60, "log replay continues with the next WAL after one that has lost its end"),
    row("BatchNotAtomic", &["schedules", "histories"], 60, "readers see a part of a batch"),
    row("TombstoneDroppedTooEarly", &["model"], 60, "a compaction drops a tombstone above the level of the entry that it hides"),
    row("TombstoneDroppedAboveRun", &["model"], 120, "a compaction of flushes drops a tombstone above an older value in the next run"),
    row("RunAboveNewerOne", &["model"], 120, "a compaction moves entries below an older run, which then hides them"),
    row("FlushBesideCompactionOutput", &["model"], 120, "a flush puts a table on the output level of a running compaction"),
    row("SliceLosesLastKey", &["model"], 120, "a slice of a compaction of sorted runs loses its last key"),
    row("SettleIgnoresSnapshots", &["model"], 120, "a compaction after a load drops entries that a snapshot needs"),
    row("OverlappingLevel0InputMissed", &["model"], 60, "a compaction takes one of two overlapping tables of level 0"),
    row("UserKeySplitAcrossTables", &["model"], 120, "versions of one key are split between tables and compacted separately"),
    row("SubcompactionSkipsNewestVersion", &["model", "schedules"], 120, "a subcompaction starts after the newest version of its first key"),
    row("DeleteRangeExposesOldVersions", &["model"], 60, "delete range drops tables, and older versions in other tables become visible"),
    row("BlockEntryEndOverflow", &["fuzz"], 120, "the end of a block entry is computed with overflow"),
    row("BlockHandleEndOverflow", &["fuzz"], 120, "the end of a block is computed with overflow"),
    row("SnapshotSequenceReadTooEarly", &["schedules", "loom-models"], 120, "the sequence number of a snapshot is read before its registration"),
    row("MemtablePointerStoredRelaxed", &["loom-models"], 180, "a pointer of the memtable's tree is stored without release"),
    row("LatchVersionNotValidated", &["schedules", "histories"], 180, "a reader of the memtable's tree does not validate the version of a node"),
    row("BlockCacheKeyNotUnique", &["model"], 60, "blocks of different databases have the same cache key"),
    row("FilterBlockOmitsFirstKey", &["model"], 60, "a table's Bloom filter omits the first key of its range"),
    row("FilterBuiltFromInternalKeys", &["model"], 60, "a table's Bloom filter contains internal keys instead of user keys"),
    row("ObsoleteFileRemovedWhileInUse", &["schedules", "model"], 120, "files are removed while a reader uses them"),
    row("NewerVersionInOtherRunMissed", &["model", "metamorphic"], 60, "an iterator stays in one sorted run and misses a newer version in another"),
    row("FlushDropsSnapshotVersion", &["model", "schedules"], 120, "a flush drops versions that a snapshot needs"),
    row("ReseekSkipsVisibleVersion", &["model", "metamorphic"], 120, "an iterator that seeks beyond hidden versions skips the next key"),
    row("MemtableBloomOmitsShortKeys", &["model"], 60, "a memtable's Bloom filter omits keys shorter than eight bytes"),
    row("DirectionChangeWithoutReseek", &["model"], 30, "an iterator changes direction without a seek of its other children"),
    row("FileNumberReusedAfterCrash", &["crash"], 60, "an allocated file number is reused after a crash"),
    row("ShortReadTreatedAsEof", &["io-errors"], 60, "a short read counts as the end of the file"),
    row("ReadErrorTreatedAsEof", &["io-errors"], 60, "a read error in a log counts as its end"),
    row("BlockChecksumNotVerified", &["bit-rot"], 30, "block checksums are not verified"),
    row("BlockVerifiedBeforeItsChecksum", &["bit-rot"], 120, "an uncompressed block counts as verified before the check of its checksum"),
    row("BlockVerifiedBeforeItsIndex", &["loom-models"], 180, "the slot of a block says verified before it holds the restart index"),
    row("SlotOfOtherBlock", &["model"], 60, "a read takes the slot of a neighbouring block"),
    row("PinnedValueWithoutTable", &["model"], 120, "a borrowed value of a mapped table does not keep the table open"),
    row("RestartIndexCountsEqualHead", &["model"], 120, "a restart point whose head equals that of the target counts as below it"),
    row("TableReadAtEndOfFile", &["bit-rot"], 60, "a table is read at the end of its file instead of the size in the MANIFEST"),
    row("TableKeyBoundsNotCompared", &["bit-rot"], 120, "the first and the last key of a table are not compared with the MANIFEST"),
    row("NoSpaceNeverRecovers", &["io-errors"], 60, "after a full disk, writes fail until the database is opened again"),
    row("TornRecordLeftAfterNoSpace", &["io-errors"], 60, "a record that hit a full disk stays in the WAL, and the next one follows it"),
    row("SequenceNotRecoveredFromWal", &["model"], 30, "sequence numbers continue from the MANIFEST's, not from the WAL's"),
    row("ForeignRecordsCountAsOurs", &["alternate"], 120, "a gap ends the replay also among the records that another program has added to a log"),
    row("ManifestSequenceAheadOfLog", &["alternate"], 120, "the MANIFEST's last sequence number includes writes that are only in the log"),
    row("ConditionCheckedTooEarly", &["anomalies"], 60, "a conditional write does not check again under the lock of the writers"),
    row("InsertInFlightUnseen", &["anomalies"], 120, "a conditional write does not wait for inserts that have a sequence number"),
    row("ConditionInTwoReadStates", &["anomalies"], 300, "a conditional write compares one read state with the last flush, and searches another one"),
    row("WatchIgnored", &["anomalies"], 120, "a conditional write ignores that another writer wrote a watched key"),
    row("ReadRangeForgotten", &["anomalies"], 60, "a commit does not check the ranges that iterators read"),
    row("OwnWriteHidden", &["anomalies"], 60, "a get of a transaction does not see its own writes"),
    row("SavepointForgetsReads", &["anomalies"], 60, "a rollback to a savepoint forgets the reads after it"),
    row("DeadlockUnseen", &["anomalies"], 120, "transactions that wait for each other's locks wait until their timeout"),
    row("IngestUnderSnapshot", &["model", "schedules"], 60, "an ingest does not wait for the end of snapshots, which then see its entries"),
    row("IngestOverlapUnchecked", &["model"], 60, "an ingest does not check that its key ranges are free"),
    row("CheckpointCutTooLate", &["backups"], 120, "a checkpoint copies the WAL to its end instead of the captured end"),
    row("CheckpointCurrentFirst", &["backups"], 120, "a checkpoint writes CURRENT before its logs"),
    row("BackupTableByNumber", &["backups"], 300, "a backup takes a stored table of the same number and size without a comparison of the contents"),
    row("TornRecordTaken", &["followers"], 60, "a follower takes a record with a wrong checksum"),
    row("WalLeftTooEarly", &["followers"], 120, "a follower leaves a WAL when a later one has a record, without another look"),
    row("ForeignWalKept", &["followers"], 120, "a follower keeps the memtable of a WAL of a replaced database"),
    row("StaleMemtableKept", &["followers"], 60, "a follower keeps the memtable of a WAL that was flushed"),
    row("OldManifestFollowed", &["followers"], 60, "a follower does not notice that CURRENT names another MANIFEST"),
    row("VersionInstalledBeforeItsRecords", &["followers"], 60, "a follower installs a version without the records that existed then"),
    row("TableOpenedAtFirstRead", &["followers"], 60, "a follower opens a table at its first read, when the file may be gone"),
    row("SnapshotWithoutReadState", &["followers"], 60, "a snapshot of a follower does not hold its read state"),
    row("CodecOfTablesIgnored", &["model"], 120, "new tables have the default codec instead of that of the existing ones"),
    row("LogDamageNotVerified", &["bit-rot"], 60, "verify reports no damaged records of logs, which a repair drops"),
    row("UnreadableTableNotKept", &["io-errors"], 120, "a repair leaves a table that it could not read to the next open, which removes it"),
    row("BudgetUserLeavesInUse", &["loom-models"], 180, "a database is dropped while a writer of another one uses it for the shared budget"),
    row("SmallestMemtableFlushedEarly", &["loom-models"], 180, "the smallest memtables are flushed early for the shared budget"),
    row("LockReleasedByFailedOpen", &["concurrent-open"], 60, "a failed second open in the same process releases the lock"),
    row("LinkFollowedForWriting", &["hostile-directories"], 60, "a log, MANIFEST or LOCK that is a link is opened for writing"),
    row("LostLinkFollowed", &["hostile-directories"], 60, "files are moved to lost/ although it is a link to another directory"),
    row("LostFileOverwritten", &["hostile-directories"], 60, "a file in lost/ is replaced by another one of the same name"),
    row("LogFileNotSynced", &["power-cuts"], 60, "a sync of a log file makes no call of the system"),
    row("LogMappedOnEveryFileSystem", &["file-systems"], 60, "a log is mapped on file systems that copy on write"),
    row("RareWrongRead", &["model"], 120, "one get in a million returns a wrong byte"),
    row("CellInitializedDuringFork", &["fork"], 300, "a fork does not wait for the initialization of a cell"),
    row("ForkDuringWrite", &["fork"], 300, "a fork does not wait until no writer changes a memtable"),
    row("ParentThreadsKeptInForkedChild", &["fork"], 60, "a forked child counts the threads of its parent's pool as its own"),
    row("CacheNotLockedForFork", &["fork"], 300, "a fork does not wait until no thread changes the block cache"),
    row("ForkedChildWritesBesideParent", &["fork"], 60, "a forked child writes to the database of a parent that still runs"),
    row("ForkedChildAdoptsEarly", &["fork"], 60, "a forked child adopts the database of a parent that still runs"),
    row("RecordLockNotTakenInForkedChild", &["daemon"], 60, "a forked child that adopts a database takes no record lock"),
    row("InheritedLockFileClosed", &["daemon"], 60, "a forked child closes an inherited lock file, which releases its own record lock"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::harness::HARNESSES;

    /// Returns the names in the calls of `mutant!` in `text`.
    fn mutant_names(text: &str) -> impl Iterator<Item = &str> {
        text.split("mutant!(").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0))
    }

    /// Adds the mutant names in all Rust files under `folder`.
    fn collect(folder: &Path, names: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, names);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                names.extend(mutant_names(&fs::read_to_string(&path).unwrap()).map(str::to_owned));
            }
        }
    }

    #[test]
    fn mutant_names_are_found_in_text() {
        let text = "if mutant!(One) || !terrace_sync::mutant!(Two) {}";
        assert_eq!(mutant_names(text).collect::<Vec<_>>(), ["One", "Two"]);
    }

    #[test]
    fn table_and_code_have_the_same_mutants() {
        let torture = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut used = BTreeSet::new();
        for entry in fs::read_dir(torture.parent().unwrap()).unwrap() {
            let path = entry.unwrap().path();
            if path != torture {
                collect(&path.join("src"), &mut used);
            }
        }
        let rows: BTreeSet<String> = MUTANTS.iter().map(|mutant| mutant.name.to_owned()).collect();
        assert_eq!(rows.len(), MUTANTS.len(), "two rows have the same name");
        assert_eq!(used, rows);
    }

    #[test]
    fn harness_names_exist() {
        for mutant in MUTANTS {
            for name in mutant.harnesses {
                assert!(
                    HARNESSES.iter().any(|harness| harness.name == *name),
                    "{}: unknown attack {name}",
                    mutant.name
                );
            }
        }
    }
}
