//! What the manifest that CURRENT names says, read without the engine.

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::path::Path;

use terrace_env::{FileSystem, SequentialFile};
use terrace_format::edit::VersionEdit;
use terrace_format::filename::{FileName, current};
use terrace_format::log::{Item, LogReader};

/// The files that count.
#[derive(Debug, Default)]
pub(super) struct Live {
    pub(super) manifest: u64,
    pub(super) tables: BTreeSet<u64>,
    /// Logs from this number on are needed.
    pub(super) log_number: u64,
    /// The least number that no file can have had.
    pub(super) next_file: u64,
    /// Tables that ever counted, as far as the manifest tells.
    pub(super) known: BTreeSet<u64>,
}

struct Reading(Box<dyn SequentialFile>);

impl Read for Reading {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read(buf).map_err(io::Error::other)
    }
}

/// What counts in `directory`; None if there is no database in good order. An edit that is being written does not
/// count.
pub(super) fn live(fs: &dyn FileSystem, directory: &Path) -> Option<Live> {
    let mut name = Vec::new();
    let open = |name: FileName| fs.open_sequential(&directory.join(name.to_string())).ok().map(Reading);
    open(FileName::Current)?.read_to_end(&mut name).ok()?;
    let manifest = current::decode(&name).ok()?;
    let mut live = Live { manifest, ..Live::default() };
    let mut records = LogReader::new(open(FileName::Manifest(manifest))?);
    while let Ok(Some(item)) = records.next() {
        let Item::Record { data, .. } = item else { break };
        let edit = VersionEdit::decode(data).ok()?;
        live.tables.retain(|number| edit.deleted.iter().all(|(_, gone)| gone != number));
        live.tables.extend(edit.added.iter().map(|(_, file)| file.number));
        live.known.extend(edit.added.iter().map(|(_, file)| file.number));
        live.log_number = edit.log_number.unwrap_or(live.log_number);
        live.next_file = edit.next_file.unwrap_or(live.next_file);
    }
    let highest = live.known.last().copied().unwrap_or(0).max(live.log_number).max(manifest);
    live.next_file = live.next_file.max(highest + 1);
    Some(live)
}

impl Live {
    /// Whether the database needs this file.
    pub(super) fn needs(&self, file: FileName) -> bool {
        match file {
            FileName::Table(number) | FileName::OldTable(number) => self.tables.contains(&number),
            FileName::Log(number) => number >= self.log_number,
            FileName::Manifest(number) => number == self.manifest,
            FileName::Current => true,
            FileName::Temp(_) | FileName::Lock | FileName::InfoLog | FileName::OldInfoLog => false,
        }
    }
}
