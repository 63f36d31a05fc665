//! The current version and the numbers that go with it, and how they are read back from a manifest.

use std::io::Read;
use std::path::{Path, PathBuf};

use terrace_env::Env;
use terrace_format::filename::{FileName, current};
use terrace_format::key::{InternalComparator, InternalKey, MAX_SEQUENCE_NUMBER, SequenceNumber};
use terrace_format::log::{LogItem, LogReader};
use terrace_format::version_edit::{NUM_LEVELS, VersionEdit};

use super::manifest::has_terrace_mark;
use super::{Version, VersionBuilder};
use crate::error::{Error, Result};
use crate::file_io::{FileReader, file_error};
use crate::sync::Arc;

/// Behind a comparator's name: this database holds what a stock LevelDB can't read. It will refuse to open it, and
/// change nothing, because the name differs from its own.
pub(crate) const INCOMPATIBLE_SUFFIX: &str = "+terrace.1";

/// What the manifest says.
#[derive(Clone)]
pub(crate) struct VersionSet {
    pub(crate) version: Arc<Version>,
    /// Logs below this number hold nothing that is not in a table.
    pub(crate) log_number: u64,
    /// Of a LevelDB before 2011 that was killed while it merged; else 0.
    pub(crate) prev_log_number: u64,
    /// The last sequence number before the first record of log `log_number`, or later: what is in the tables.
    pub(crate) last_sequence: SequenceNumber,
    /// Where the next merge of each level goes on.
    pub(crate) compact_pointers: [Option<InternalKey>; NUM_LEVELS],
    /// Whether the database is marked as unreadable for a stock LevelDB.
    pub(crate) is_incompatible: bool,
}

impl VersionSet {
    pub(crate) fn empty(comparator: InternalComparator) -> VersionSet {
        VersionSet {
            version: Arc::new(Version::empty(comparator)),
            log_number: 0,
            prev_log_number: 0,
            last_sequence: 0,
            compact_pointers: Default::default(),
            is_incompatible: false,
        }
    }

    /// The name that the manifest carries.
    fn stored_comparator_name(&self) -> Vec<u8> {
        let name = self.version.comparator.user_comparator().name();
        if self.is_incompatible {
            format!("{name}{INCOMPATIBLE_SUFFIX}").into_bytes()
        } else {
            name.as_bytes().to_vec()
        }
    }

    /// All of it as one edit, for the start of a manifest. The numbers come with the edit behind it.
    pub(crate) fn snapshot_edit(&self) -> VersionEdit {
        let mut edit =
            VersionEdit { comparator: Some(self.stored_comparator_name()), ..VersionEdit::default() };
        for (level, key) in self.compact_pointers.iter().enumerate() {
            edit.compact_pointers.extend(key.clone().map(|key| (level, key)));
        }
        for (level, files) in self.version.levels.iter().enumerate() {
            edit.new_files.extend(files.iter().map(|file| (level, file.to_new_file())));
        }
        edit
    }

    /// The set after `edit`. `path` is the manifest's, for errors.
    pub(crate) fn apply_edit(&self, edit: &VersionEdit, path: &Path) -> Result<VersionSet> {
        let mut builder = VersionBuilder::default();
        builder.apply_with_known_files(edit, |number| {
            self.version.levels.iter().flatten().find(|file| file.number == number).cloned()
        });
        let mut next = self.clone();
        next.version = Arc::new(builder.build(&self.version, path)?);
        next.apply_numbers(edit);
        Ok(next)
    }

    fn apply_numbers(&mut self, edit: &VersionEdit) {
        self.log_number = edit.log_number.unwrap_or(self.log_number);
        self.prev_log_number = edit.prev_log_number.unwrap_or(self.prev_log_number);
        self.last_sequence = edit.last_sequence.unwrap_or(self.last_sequence);
        for (level, key) in &edit.compact_pointers {
            self.compact_pointers[*level] = Some(key.clone());
        }
    }
}

/// What was read from a manifest.
pub(crate) struct ManifestRecovery {
    pub(crate) version_set: VersionSet,
    pub(crate) next_file_number: u64,
    pub(crate) manifest_number: u64,
    /// The length of the manifest, if it ends in good order and may be gone on with.
    pub(crate) reusable_len: Option<u64>,
    /// Whether Terrace wrote it.
    pub(crate) is_written_by_terrace: bool,
    /// Whether it marks the database as unreadable for a stock LevelDB.
    pub(crate) is_incompatible: bool,
    /// Damage at its end: an edit that was being written when the power failed, or rot. If everything that the edits
    /// before it name is there, that edit never counted.
    pub(crate) torn_tail: Option<Error>,
}

/// The number of the manifest that CURRENT names.
pub(crate) fn read_current(env: &Env, directory: &Path) -> Result<u64> {
    let path = directory.join(FileName::Current.to_string());
    let mut contents = Vec::new();
    // A whole number of digits fits; anything longer is refused by the decoder.
    const CURRENT_FILE_SIZE_MAX: u64 = 64;
    let file = FileReader(env.fs.open_sequential(&path)?);
    file.take(CURRENT_FILE_SIZE_MAX).read_to_end(&mut contents).map_err(|error| file_error(&path, error))?;
    current::decode(&contents).map_err(|flaw| Error::from_decode_error(&path, &flaw))
}

/// The first file number of a database: LevelDB's first manifest has the one before.
const FIRST_FILE_NUMBER: u64 = 2;

impl ManifestRecovery {
    /// The damage at the manifest's end, if the edit there may have counted: what it made needless is gone from
    /// `files`. Else it was being written when the power failed, and never did.
    pub(crate) fn lost_edit(&self, files: &[FileName]) -> Option<&Error> {
        let has_table = |number| files.iter().any(|file| file.is_table() && file.number() == Some(number));
        // A log goes only after the edit that makes it needless, and the inputs of a merge go after its edit.
        let whole = files.contains(&FileName::Log(self.version_set.log_number))
            && self.version_set.version.levels.iter().flatten().all(|file| has_table(file.number));
        self.torn_tail.as_ref().filter(|_| !whole)
    }

    /// A database that does not exist yet.
    pub(crate) fn for_new_database(comparator: &InternalComparator) -> ManifestRecovery {
        let set = VersionSet::empty(comparator.clone());
        ManifestRecovery {
            version_set: set,
            next_file_number: FIRST_FILE_NUMBER,
            manifest_number: 0,
            reusable_len: None,
            is_written_by_terrace: true,
            is_incompatible: false,
            torn_tail: None,
        }
    }

    /// Reads the manifest that CURRENT names. Any damage in it is an error.
    pub(crate) fn read_current_manifest(
        env: &Env,
        directory: &Path,
        comparator: &InternalComparator,
    ) -> Result<ManifestRecovery> {
        ManifestRecovery::read_manifest(env, directory, read_current(env, directory)?, comparator)
    }

    /// Reads manifest `manifest`, which CURRENT should name.
    pub(crate) fn read_manifest(
        env: &Env,
        directory: &Path,
        manifest: u64,
        comparator: &InternalComparator,
    ) -> Result<ManifestRecovery> {
        let path = directory.join(FileName::Manifest(manifest).to_string());
        let file = match env.fs.open_sequential(&path) {
            Err(error) if error.is_not_found() => {
                let what = format!("names {}, which does not exist", FileName::Manifest(manifest));
                return Err(Error::corruption(&directory.join("CURRENT"), None, what));
            }
            opened => opened?,
        };
        ManifestReader { path, comparator: comparator.clone() }
            .read(LogReader::new(FileReader(file)), manifest)
    }
}

/// The edits of one manifest.
struct ManifestReader {
    path: PathBuf,
    comparator: InternalComparator,
}

impl ManifestReader {
    fn read(&self, mut records: LogReader<FileReader>, manifest: u64) -> Result<ManifestRecovery> {
        let mut set = VersionSet::empty(self.comparator.clone());
        let (mut builder, mut numbers, mut ours, mut first) =
            (VersionBuilder::default(), ManifestNumbers::default(), false, true);
        let mut torn = None;
        while let Some(item) = records.next().map_err(|error| file_error(&self.path, error))? {
            let (offset, data) = match (item, &torn) {
                (LogItem::Record { offset, data }, None) => (offset, data),
                // Not its end: then it is no edit that was being written.
                (LogItem::Record { .. }, Some(error)) => return Err(Error::clone(error)),
                (LogItem::Corruption { .. }, Some(_)) => continue,
                (LogItem::Corruption { error: flaw, .. }, None) => {
                    torn = Some(Error::from_decode_error(&self.path, &flaw));
                    continue;
                }
            };
            let edit = VersionEdit::decode(data)
                .map_err(|flaw| Error::from_decode_error(&self.path, &flaw.offset_by(offset)))?;
            self.check_comparator(&edit, &mut set)?;
            ours |= first && has_terrace_mark(&edit);
            first = false;
            builder.apply(&edit);
            set.apply_numbers(&edit);
            numbers.apply(&edit);
        }
        if let Some(error) = torn.take_if(|_| !ours) {
            return Err(error);
        }
        let next_file = numbers.check(&self.path)?;
        set.version = Arc::new(builder.build(&set.version, &self.path)?);
        let (end, length) = (records.log_end().offset, records.bytes_read());
        let resumable = (torn.is_none() && end == length).then_some(length);
        if end < length && ours {
            let what = format!("{length} bytes, expected {end}: ends in the middle of an edit");
            torn.get_or_insert(Error::corruption(&self.path, Some(end), what));
        }
        let guarded = set.is_incompatible;
        Ok(ManifestRecovery {
            version_set: set,
            next_file_number: next_file,
            manifest_number: manifest,
            reusable_len: resumable,
            is_written_by_terrace: ours,
            is_incompatible: guarded,
            torn_tail: torn,
        })
    }

    fn check_comparator(&self, edit: &VersionEdit, set: &mut VersionSet) -> Result<()> {
        if let Some(stored) = &edit.comparator {
            set.is_incompatible = has_incompatible_suffix(stored, &self.comparator)?;
        }
        Ok(())
    }
}

/// Whether `stored`, the name in a manifest, is the comparator's with the guard behind it. An error if it is another's.
pub(crate) fn has_incompatible_suffix(stored: &[u8], comparator: &InternalComparator) -> Result<bool> {
    let given = comparator.user_comparator().name();
    let plain = stored.strip_suffix(INCOMPATIBLE_SUFFIX.as_bytes());
    if stored != given.as_bytes() && plain != Some(given.as_bytes()) {
        let stored = stored.escape_ascii();
        return Err(Error::InvalidArgument(format!("{stored} does not match existing comparator : {given}")));
    }
    Ok(stored != given.as_bytes())
}

/// The numbers that every manifest must have said by its end.
#[derive(Default)]
struct ManifestNumbers {
    next_file_number: Option<u64>,
    log_number: Option<u64>,
    last_sequence: Option<u64>,
}

/// Far beyond what any database reaches, and far enough from the end that counting on can't overflow.
pub(crate) const MAX_FILE_NUMBER: u64 = u64::MAX / 2;

/// A file with a greater number is none of the database's, unless the manifest has come there.
pub(crate) const MAX_UNLISTED_FILE_NUMBER: u64 = MAX_FILE_NUMBER / 2;

impl ManifestNumbers {
    fn apply(&mut self, edit: &VersionEdit) {
        self.next_file_number = edit.next_file_number.or(self.next_file_number);
        self.log_number = edit.log_number.or(self.log_number);
        self.last_sequence = edit.last_sequence.or(self.last_sequence);
    }

    fn check(&self, path: &Path) -> Result<u64> {
        let need = |number: Option<u64>, what: &str, max: u64| match number {
            Some(number) if number <= max => Ok(number),
            Some(number) => {
                Err(Error::corruption(path, None, format!("{what} {number}, expected at most {max}")))
            }
            None => Err(Error::corruption(path, None, format!("ends without a {what}"))),
        };
        need(self.last_sequence, "last sequence number", MAX_SEQUENCE_NUMBER)?;
        need(self.log_number, "log number", MAX_FILE_NUMBER)?;
        need(self.next_file_number, "next file number", MAX_FILE_NUMBER)
    }
}
