//! `terrace convert`: changes the compression of a database.

use std::io::Write;

use clap::Args;
use terrace::Codec;
use terrace_env::Clock;

use super::compact::table_summary;
use crate::cli::Run;
use crate::confirmation;
use crate::database::{
    DamageArgs, DatabaseArgs, FileFormatArgs, MemoryArgs, codec_parser, is_compatible_change,
};
use crate::failure::CommandResult;
use crate::progress::Progress;
use crate::{terminal, units};

/// Change the compression of a database: write all its tables again
///
/// Asks for confirmation if the programs that read the database now cannot read it afterwards. An
/// interrupted conversion loses no entry; repeat the command to complete it.
#[derive(Args)]
pub(crate) struct Convert {
    #[command(flatten)]
    database: DatabaseArgs,
    /// New compression of the blocks
    #[arg(long, value_name = "CODEC", value_parser = codec_parser())]
    compression: &'static Codec,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
}

impl Run for Convert {
    fn run(self) -> CommandResult {
        let new = self.compression;
        let old = self.database.open_read_only(&DamageArgs::default())?.codec();
        if !self.yes && !is_compatible_change(old, new) {
            self.confirm(old)?;
        }
        let file_format = FileFormatArgs::for_conversion(new);
        let db = self.database.open_writable(&file_format, &MemoryArgs::default(), None)?;
        db.flush()?;
        let before = table_summary(&db);
        let started = terrace_env::SystemClock.monotonic();
        let progress = Progress::line("converting");
        db.rewrite_tables()?;
        drop(progress);
        let took = terrace_env::SystemClock.monotonic().saturating_sub(started);
        let mut out = terminal::output();
        writeln!(
            out,
            "{before} of {} -> {} of {} in {}",
            old.name,
            table_summary(&db),
            new.name,
            units::time(took)
        )?;
        out.flush()?;
        Ok(db.close()?)
    }
}

impl Convert {
    fn confirm(&self, old: &Codec) -> CommandResult {
        let question = format!(
            "Convert {} from {} to {}, {}?",
            self.database.dir.display(),
            old.name,
            self.compression.name,
            readers(self.compression)
        );
        confirmation::ask("convert", &question, "nothing was converted")
    }
}

/// Returns the programs that read blocks of `codec`.
fn readers(codec: &Codec) -> &'static str {
    match (codec.leveldb_compatible, codec.needs_marker) {
        (true, _) => "which LevelDB reads and games such as Minecraft do not",
        (false, true) => "which LevelDB 1.23 cannot read",
        (false, false) => "which only games such as Minecraft read",
    }
}
