//! Commands on a store that an address names, such as `etcd://10.0.0.1/cities`.
//!
//! The commands of a directory and of a store have the same arguments and the same output. Flags
//! that concern the files of a database are errors.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use terrace_store::migrate::BatchWriter;
use terrace_store::{
    ENGINES, KeyRange, OpenOptions, Store, TransactionOptions, WriteBatch, WriteOptions, is_address, open,
};

use crate::command::load::with_loaded;
use crate::condition::Condition;
use crate::database::{DamageArgs, DatabaseArgs, LiveArg, SyncArg};
use crate::entry_format::{EntryReader, Format};
use crate::failure::{CommandResult, Failure};
use crate::key_args::KeyRangeArgs;
use crate::progress::Progress;

/// Failure for a flag that has no meaning for a store.
pub(crate) fn needs_directory(flag: &str) -> Failure {
    Failure::Usage(format!("{flag}: only for the directory of a database, not for the address of a store"))
}

/// Returns an error if the missing path `dir` is the address of a store, or looks like one.
pub(crate) fn check_no_address(dir: &Path) -> CommandResult {
    let text = dir.display().to_string();
    if is_address(&text) {
        return Err(Failure::Usage(format!(
            "{text}: the address of a store, expected the directory of a database"
        )));
    }
    let Some((scheme, _)) = text.split_once("://") else { return Ok(()) };
    let known: Vec<&str> = ENGINES.iter().map(|engine| engine.form).collect();
    Err(Failure::Usage(format!("{text}: '{scheme}' is no engine, expected one of {}", known.join(" "))))
}

impl DatabaseArgs {
    /// Address of a store, if the argument is one.
    pub(crate) fn address(&self) -> Result<Option<&str>, Failure> {
        let Some(address) = self.dir.to_str().filter(|text| is_address(text)) else { return Ok(None) };
        match self.comparator.comparator {
            None => Ok(Some(address)),
            Some(_) => Err(needs_directory("--comparator")),
        }
    }
}

impl KeyRangeArgs {
    /// The range for an iterator of the store `database`.
    pub(crate) fn key_range(&self, database: &DatabaseArgs) -> Result<KeyRange, Failure> {
        let encoding = &self.encoding;
        if let Some(prefix) = encoding.decode_optional(self.prefix.as_ref())? {
            return Ok(KeyRange::prefix(prefix));
        }
        let from = encoding.decode_optional(self.from.as_ref())?;
        let end = encoding.decode_optional(self.to.as_ref())?;
        database.comparator.check_bounds(&database.dir, from.as_deref(), end.as_deref())?;
        Ok(KeyRange { start: from.unwrap_or_default(), end })
    }
}

/// Opens a store for a command that only reads.
pub(crate) fn open_for_reading(
    address: &str,
    live: &LiveArg,
    damage: &DamageArgs,
) -> Result<Arc<dyn Store>, Failure> {
    match (live.live, damage.allow_damage) {
        (true, _) => Err(needs_directory("--live")),
        (_, true) => Err(needs_directory("--allow-damage")),
        _ => Ok(open(address, &OpenOptions::default().read_only(true))?),
    }
}

/// Opens a store for a command that writes, and creates it if `create` is `Some(true)`. `None`
/// stands for commands without the flag `--create`.
pub(crate) fn open_for_writing(address: &str, create: Option<bool>) -> Result<Arc<dyn Store>, Failure> {
    let options = OpenOptions::default().create_if_missing(create.unwrap_or(false));
    open(address, &options).map_err(|error| match error {
        terrace_store::Error::Missing(_) if create.is_some() => {
            Failure::from(error).with_note("--create creates one")
        }
        error => error.into(),
    })
}

/// Puts or deletes `key`, if `condition` holds. Check and write are one step.
pub(crate) fn write_one(
    store: &dyn Store,
    key: &[u8],
    value: Option<&[u8]>,
    condition: Option<&Condition>,
    sync: &SyncArg,
) -> CommandResult {
    let options = sync.write_options();
    let Some(condition) = condition else {
        let mut batch = WriteBatch::new();
        match value {
            Some(value) => batch.put(key, value),
            None => batch.delete(key),
        };
        return Ok(store.write(&batch, &options)?);
    };
    store.transact(&TransactionOptions::default().sync(options.sync), |transaction| {
        let checked = condition.check(key, transaction.get(key)?.as_deref());
        if checked.is_ok() {
            match value {
                Some(value) => transaction.put(key, value)?,
                None => transaction.delete(key)?,
            }
        }
        Ok(checked)
    })?
}

/// Deletes the keys from `from` to `to`.
pub(crate) fn delete_range(store: &dyn Store, from: Option<Vec<u8>>, to: Option<Vec<u8>>) -> CommandResult {
    let range = KeyRange { start: from.unwrap_or_default(), end: to };
    Ok(store.delete_range(&range, &WriteOptions::default().sync(true))?)
}

/// Counts the entries of `range`.
pub(crate) fn count(store: &dyn Store, range: &KeyRange) -> Result<u64, Failure> {
    let mut entries = store.iter(range)?;
    entries.seek_to_first();
    let mut count = 0;
    while entries.valid() {
        count += 1;
        entries.next();
    }
    entries.status()?;
    Ok(count)
}

/// Output of the entries of a store.
pub(crate) struct Print {
    pub(crate) format: Format,
    pub(crate) is_reverse: bool,
    pub(crate) is_without_values: bool,
    /// Maximum number of entries.
    pub(crate) limit: u64,
}

impl Print {
    /// Prints the entries of `range`.
    pub(crate) fn entries(&self, store: &dyn Store, range: &KeyRange, out: &mut impl Write) -> CommandResult {
        let mut entries = store.iter(range)?;
        if self.is_reverse {
            entries.seek_to_last()
        } else {
            entries.seek_to_first()
        }
        let mut remaining = self.limit;
        while remaining > 0 && entries.valid() {
            let value = (!self.is_without_values).then(|| entries.value());
            self.format.write(out, entries.key(), value)?;
            remaining -= 1;
            if self.is_reverse { entries.prev() } else { entries.next() }
        }
        out.flush()?;
        Ok(entries.status()?)
    }
}

/// Puts every entry into `store`, and returns their number.
pub(crate) fn load(
    store: &dyn Store,
    mut entries: EntryReader,
    options: WriteOptions,
) -> Result<u64, Failure> {
    let mut progress = Progress::bytes("loading", entries.input().len());
    let mut writer = BatchWriter::new(store).options(options);
    let outcome = load_with(&mut writer, &mut entries, &mut progress);
    let loaded = writer.written();
    outcome.map(|()| loaded).map_err(|failure| with_loaded(failure, loaded))
}

fn load_with(
    writer: &mut BatchWriter<'_>,
    entries: &mut EntryReader,
    progress: &mut Progress,
) -> CommandResult {
    // A malformed line ends the load, and the lines before it are stored.
    let end = loop {
        match entries.next() {
            Ok(Some((key, value))) => writer.put(&key, &value)?,
            Ok(None) => break Ok(()),
            Err(failure) => break Err(failure),
        }
        progress.set_position(entries.input().bytes_read());
    };
    writer.flush()?;
    end
}
