//! Reads the current MANIFEST without the engine.

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::path::Path;

use terrace_env::{FileSystem, SequentialFile};
use terrace_format::filename::{FileName, current};
use terrace_format::log::{LogItem, LogReader, LogSource};
use terrace_format::version_edit::VersionEdit;

/// Files of the current version.
#[derive(Debug, Default)]
pub(crate) struct LiveFiles {
    pub(crate) manifest: u64,
    pub(crate) tables: BTreeSet<u64>,
    /// Minimum number of a needed log.
    pub(crate) log_number: u64,
    /// Minimum number that no existing file can have.
    pub(crate) next_file: u64,
    /// All tables that the MANIFEST has ever added.
    pub(crate) ever_added: BTreeSet<u64>,
}

struct SequentialReader(Box<dyn SequentialFile>);

impl Read for SequentialReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read(buf).map_err(io::Error::other)
    }
}

impl LogSource for SequentialReader {}

/// Reads the live files of `directory`. Returns None if there is no valid database. An incomplete
/// edit at the end is ignored.
pub(crate) fn read_live_files(fs: &dyn FileSystem, directory: &Path) -> Option<LiveFiles> {
    let mut name = Vec::new();
    let open =
        |name: FileName| fs.open_sequential(&directory.join(name.to_string())).ok().map(SequentialReader);
    open(FileName::Current)?.read_to_end(&mut name).ok()?;
    let manifest = current::decode(&name).ok()?;
    let mut live = LiveFiles { manifest, ..LiveFiles::default() };
    let mut records = LogReader::new(open(FileName::Manifest(manifest))?);
    while let Ok(Some(item)) = records.next() {
        let LogItem::Record { data, .. } = item else { break };
        let edit = VersionEdit::decode(data).ok()?;
        live.tables.retain(|number| edit.deleted_files.iter().all(|(_, deleted)| deleted != number));
        live.tables.extend(edit.new_files.iter().map(|(_, file)| file.number));
        live.ever_added.extend(edit.new_files.iter().map(|(_, file)| file.number));
        live.log_number = edit.log_number.unwrap_or(live.log_number);
        live.next_file = edit.next_file_number.unwrap_or(live.next_file);
    }
    let highest = live.ever_added.last().copied().unwrap_or(0).max(live.log_number).max(manifest);
    live.next_file = live.next_file.max(highest + 1);
    Some(live)
}

impl LiveFiles {
    /// Returns true if the database needs the file.
    pub(crate) fn is_needed(&self, file: FileName) -> bool {
        match file {
            FileName::Table(number) | FileName::OldTable(number) => self.tables.contains(&number),
            FileName::Log(number) => number >= self.log_number,
            FileName::Manifest(number) => number == self.manifest,
            FileName::Current => true,
            FileName::Temp(_) | FileName::Lock | FileName::InfoLog | FileName::OldInfoLog => false,
        }
    }
}
