//! `terrace backup`: creates, lists, verifies and removes backups.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum, ValueHint};
use serde_json::{Value, json};
use terrace::{BackupInfo, Backups, ErrorKind, Options};

use crate::cli::Run;
use crate::database::{ComparatorArg, DamageArgs, DatabaseArgs, check_directory, check_outside};
use crate::failure::{CommandResult, Failure};
use crate::progress::Progress;
use crate::{entry_format, terminal, units};

/// Create, list, verify or prune incremental backups of databases
///
/// Each backup is a plain LevelDB directory with the state of one moment. A new backup stores only
/// the tables that no earlier one has: as links on the same file system, otherwise as copies. A
/// damaged table is an error, unless --allow-damage is given. No other process may have the
/// database open for writing.
#[derive(Args)]
#[command(mut_arg("allow_damage", |arg| arg.help(ALLOW_DAMAGE)))]
pub(crate) struct Backup {
    /// Action on the backups
    action: Action,
    /// Directory of the backups; create makes it if it does not exist
    #[arg(value_hint = ValueHint::DirPath)]
    backups: PathBuf,
    /// Database of a new backup
    #[arg(value_name = "DB", value_hint = ValueHint::DirPath)]
    database: Option<PathBuf>,
    /// Verify only the backup with this number [default: all]
    #[arg(long, value_name = "N")]
    id: Option<u64>,
    /// Number of the newest backups of each database that prune keeps, at least 1
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    keep: Option<usize>,
    /// Print the list as lines of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    comparator: ComparatorArg,
    #[command(flatten)]
    damage: DamageArgs,
}

/// Help of `--allow-damage`, which does more here than for a read.
const ALLOW_DAMAGE: &str =
    "Back up a damaged database: store damaged tables as they are, report the damage, and exit with code 0";

/// Contents of the directory that the command expects.
const BACKUPS: &str = "backups";

/// Action of the command.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Action {
    /// Add a backup of DB
    Create,
    /// List the backups
    List,
    /// Read every file and compare it with its hash; exit code 3 if there is a problem
    Verify,
    /// Remove all backups except the newest ones
    Prune,
}

impl Run for Backup {
    fn run(self) -> CommandResult {
        if self.database.is_some() != (self.action == Action::Create) {
            return Err(Failure::Usage("create, and no other action, takes a DB".into()));
        }
        if self.keep.is_some() != (self.action == Action::Prune) {
            return Err(Failure::Usage("prune, and no other action, takes --keep".into()));
        }
        match self.action {
            Action::Create => self.create(),
            Action::List => self.list(),
            Action::Verify => self.verify(),
            Action::Prune => self.prune(),
        }
    }
}

impl Backup {
    fn create(self) -> CommandResult {
        let dir = self.database.unwrap_or_default();
        let database = DatabaseArgs { dir, comparator: self.comparator };
        let db = database.open_read_only(&self.damage)?;
        // Before the directory of the backups is created.
        check_outside(&self.backups, &database.dir)?;
        let options = database.options_for_reading().create_if_missing(true);
        let backups = Backups::open(&self.backups, &options).map_err(failure)?;
        let mut progress = Progress::bytes("backing up", Some(0));
        let report = |done, total| progress.set_position_and_total(done, total);
        let created = match self.damage.allow_damage {
            true => backups.create_damaged(&db, report),
            false => backups.create_with_progress(&db, report).map(|info| (info, Vec::new())),
        };
        drop(progress);
        let (info, damaged) = created.map_err(advise_allow_damage)?;
        for damage in damaged {
            self.damage.warn(&terrace::Error::Corruption(damage).into());
        }
        let mut out = terminal::output();
        let new = units::size(info.new_bytes);
        let all = units::size(info.bytes);
        writeln!(out, "backup {}: {new} new of {all}", info.id)?;
        Ok(out.flush()?)
    }

    fn list(&self) -> CommandResult {
        let backups = open_existing(&self.backups)?;
        let mut out = terminal::output();
        let mut damaged = None;
        for id in backups.ids().map_err(failure)? {
            match backups.info(id) {
                Ok(info) => self.print_info(&info, &mut out)?,
                Err(error) => damaged = damaged.or(Some(error)),
            }
        }
        out.flush()?;
        damaged.map_or(Ok(()), |error| Err(failure(error)))
    }

    fn print_info(&self, info: &BackupInfo, out: &mut impl Write) -> io::Result<()> {
        if self.json {
            return writeln!(out, "{}", entry_format::printable_json(&to_json(info)));
        }
        let time = units::utc(info.created_us);
        let size = units::size(info.bytes);
        let id = info.id;
        let new = units::size(info.new_bytes);
        let source = terminal::printable(&info.source);
        writeln!(out, "{id:>6}  {time}  {size:>10}  {new:>10} new  {source}")
    }

    fn verify(&self) -> CommandResult {
        let backups = open_existing(&self.backups)?;
        let ids = match self.id {
            Some(id) => vec![id],
            None => backups.ids().map_err(failure)?,
        };
        let mut out = terminal::output();
        let mut damaged = 0;
        for id in ids {
            let mut progress = Progress::bytes("verifying", Some(0));
            let verified =
                backups.verify_with_progress(id, |done, total| progress.set_position_and_total(done, total));
            drop(progress);
            let report = match verified {
                Ok(report) => report,
                // The list of the files.
                Err(error) if error.kind() == ErrorKind::Corruption => {
                    writeln!(out, "{}\nbackup {id}: damaged", terminal::printable(error))?;
                    damaged += 1;
                    continue;
                }
                Err(error) => return Err(failure(error)),
            };
            for problem in &report.problems {
                writeln!(out, "{}", terminal::printable(problem))?;
            }
            damaged += u64::from(!report.is_clean());
            let result = if report.is_clean() { "no problem" } else { "damaged" };
            let files = units::plural(report.files, "file");
            let size = units::size(report.bytes);
            writeln!(out, "backup {id}: {files}, {size}: {result}")?;
        }
        out.flush()?;
        match damaged {
            0 => Ok(()),
            n => Err(Failure::Database(format!(
                "{}: {} damaged",
                self.backups.display(),
                units::plural(n, "backup")
            ))),
        }
    }

    fn prune(&self) -> CommandResult {
        let removed = open_existing(&self.backups)?.prune(self.keep.unwrap_or(usize::MAX));
        let removed = removed.map_err(failure)?;
        let mut out = terminal::output();
        writeln!(out, "{} removed", units::plural(removed.len() as u64, "backup"))?;
        Ok(out.flush()?)
    }
}

/// Opens a directory of backups that exists.
pub(super) fn open_existing(path: &Path) -> Result<Backups, Failure> {
    check_directory(path, BACKUPS).map_err(Failure::Database)?;
    Backups::open(path, &Options::default()).map_err(failure)
}

/// Names the option that stores damaged tables.
fn advise_allow_damage(error: terrace::Error) -> Failure {
    let is_damage = error.kind() == ErrorKind::Corruption;
    let failure = Failure::from(error);
    if is_damage { failure.with_note("--allow-damage stores damaged tables as they are") } else { failure }
}

/// Failure of a call on backups. The advice for a damaged database does not fit them.
pub(super) fn failure(error: terrace::Error) -> Failure {
    match error.kind() {
        ErrorKind::Corruption => Failure::Database(error.to_string())
            .with_note("terrace backup verify lists all damage; restore --id chooses another backup"),
        _ => error.into(),
    }
}

fn to_json(info: &BackupInfo) -> Value {
    json!({
        "id": info.id,
        "source": info.source,
        "sequence": info.sequence,
        "created": units::utc(info.created_us),
        "bytes": info.bytes,
        "new_bytes": info.new_bytes,
    })
}
