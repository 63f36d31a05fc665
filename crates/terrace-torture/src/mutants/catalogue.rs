//! The deliberate bugs. Most of them are bugs that storage engines have had.
//!
//! The places in the code where each bug begins call `terrace_sync::mutant!(NameFn)`. The tests of this module check that
//! every such name has exactly one row here, and that every row has a place.

/// A deliberate bug.
#[derive(Debug)]
pub struct Mutant {
    /// The name in the code, on the command line and in `TERRACE_MUTANT`.
    pub name: &'static str,
    /// The bug, in one line.
    pub bug: &'static str,
    /// The attacks that may find the bug, by name, in the order in which they run.
    pub attacks: &'static [&'static str],
    /// Time limit of each attack, in seconds.
    pub seconds: u64,
}

/// A row of the table.
const fn row(
    name: &'static str,
    attacks: &'static [&'static str],
    seconds: u64,
    bug: &'static str,
) -> Mutant {
    Mutant { name, bug, attacks, seconds }
}

/// Table of all deliberate bugs.
#[rustfmt::skip]
pub static MUTANTS: &[Mutant] = &[
    row("WalDirEntryNotSynced", &["crash"], 30, "a sync write into a new log does not sync the log's name"),
    row("CurrentRenameNotSynced", &["crash"], 30, "the old manifest goes before the rename of CURRENT is durable"),
    row("TableNotSyncedBeforeInstall", &["crash"], 30, "a table counts before its contents are durable"),
    row("SyncWriteAckedBeforeFsync", &["crash"], 30, "a sync write is acknowledged before the device has it"),
    row("FsyncErrorIgnored", &["errors", "crash"], 30, "a sync that failed is taken for done"),
    row("TornWalReused", &["crash"], 60, "a log that ends in part of a record is gone on with"),
    row("ReplayContinuesAfterLostRecord", &["crash"], 30, "replay goes on behind a lost record"),
    row("ReplayContinuesAfterDamagedWal", &["crash"], 60, "replay goes on with the next log behind a damaged one"),
    row("BatchNotAtomic", &["schedules", "histories"], 60, "readers see a batch before all of it is there"),
    row("TombstoneDroppedTooEarly", &["model"], 60, "a merge drops a delete above the level of what it hides"),
    row("OverlappingLevel0InputMissed", &["model"], 60, "a merge takes one of two files of level 0 that overlap"),
    row("UserKeySplitAcrossTables", &["model"], 120, "versions of a key are split between files, and merged apart"),
    row("SubcompactionSkipsNewestVersion", &["model", "schedules"], 120, "a slice of a merge begins behind the newest version of its first key"),
    row("DeleteRangeExposesOldVersions", &["model"], 60, "a range of keys goes with its tables, and what they hid stays"),
    row("BlockEntryEndOverflow", &["fuzz"], 120, "the end of a block's entry is computed with overflow"),
    row("BlockHandleEndOverflow", &["fuzz"], 120, "the end of a block is computed with overflow"),
    row("SnapshotSequenceReadTooEarly", &["schedules", "protocols"], 120, "a snapshot's number is read before it is registered"),
    row("MemtablePointerStoredRelaxed", &["protocols"], 180, "what the memtable's tree points to is stored without release"),
    row("LatchVersionNotValidated", &["schedules", "histories"], 180, "a reader of the memtable's tree does not look whether a node changed meanwhile"),
    row("BlockCacheKeyNotUnique", &["model"], 60, "blocks of different databases have the same name in a cache"),
    row("FilterBlockOmitsFirstKey", &["model"], 60, "a filter leaves out the first key of its range"),
    row("FilterBuiltFromInternalKeys", &["model"], 60, "a filter holds keys with their sequence numbers"),
    row("ObsoleteFileRemovedWhileInUse", &["schedules", "model"], 120, "files are removed while somebody reads them"),
    row("NewerVersionInOtherRunMissed", &["model", "metamorphic"], 60, "a walk stays in its run past a version of the key that another run has"),
    row("MemtableBloomOmitsShortKeys", &["model"], 60, "the filter of a memtable leaves out keys of less than eight bytes"),
    row("DirectionChangeWithoutReseek", &["model"], 30, "an iterator that turns leaves the other runs where they stand"),
    row("FileNumberReusedAfterCrash", &["crash"], 60, "a file number that was given out is forgotten in a crash"),
    row("ShortReadTreatedAsEof", &["errors"], 60, "a short read is taken for the end of the file"),
    row("ReadErrorTreatedAsEof", &["errors"], 60, "an error while a log is read is taken for its end"),
    row("BlockChecksumNotVerified", &["rot"], 30, "checksums of blocks are not looked at"),
    row("NoSpaceNeverRecovers", &["errors"], 60, "a full disk makes the database refuse writes until it is opened again"),
    row("TornRecordLeftAfterNoSpace", &["errors"], 60, "a record that found no space is left in the log, and the next stands behind it"),
    row("SequenceNotRecoveredFromWal", &["model"], 30, "sequence numbers go on from the manifest's, not from the log's"),
    row("LockReleasedByFailedOpen", &["openers"], 60, "a refused second open in the same process drops the lock"),
    row("RareWrongRead", &["model"], 120, "one look-up in a million returns a wrong byte"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::harness::HARNESSES;

    /// Names in the calls of the macro in `text`.
    fn calls(text: &str) -> impl Iterator<Item = &str> {
        text.split("mutant!(").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0))
    }

    /// Adds the names that the Rust sources below `folder` use.
    fn collect(folder: &Path, names: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, names);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                names.extend(calls(&fs::read_to_string(&path).unwrap()).map(str::to_owned));
            }
        }
    }

    #[test]
    fn calls_in_text() {
        let text = "if mutant!(One) || !terrace_sync::mutant!(Two) {}";
        assert_eq!(calls(text).collect::<Vec<_>>(), ["One", "Two"]);
    }

    #[test]
    fn every_place_has_a_row_and_every_row_a_place() {
        let torture = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut places = BTreeSet::new();
        for entry in fs::read_dir(torture.parent().unwrap()).unwrap() {
            let path = entry.unwrap().path();
            if path != torture {
                collect(&path.join("src"), &mut places);
            }
        }
        let rows: BTreeSet<String> = MUTANTS.iter().map(|mutant| mutant.name.to_owned()).collect();
        assert_eq!(rows.len(), MUTANTS.len(), "two rows have the same name");
        assert_eq!(places, rows);
    }

    #[test]
    fn attacks_exist() {
        for mutant in MUTANTS {
            for attack in mutant.attacks {
                assert!(
                    HARNESSES.iter().any(|harness| harness.name == *attack),
                    "{attack} of {}",
                    mutant.name
                );
            }
        }
    }
}
