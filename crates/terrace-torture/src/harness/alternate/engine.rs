//! The engines that take turns, and the programs that run them.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use terrace_testkit::rng::Rng;

use super::cxx_program;
use crate::harness::readers::go_program;

/// One of the engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Engine {
    Terrace,
    LevelDb,
    Goleveldb,
}

/// Every engine, as often as it is drawn relative to the others. goleveldb never continues a log,
/// so fewer of its turns suffice.
const DRAWN_ENGINES: [Engine; 5] =
    [Engine::Terrace, Engine::LevelDb, Engine::Terrace, Engine::LevelDb, Engine::Goleveldb];

/// Every engine, as often as it is drawn in a case with many faults.
const ENGINES_WITH_FAULTS: [Engine; 5] =
    [Engine::Terrace, Engine::LevelDb, Engine::Goleveldb, Engine::Goleveldb, Engine::Goleveldb];

/// Values of the option `mapped_logs`.
const MAPPED_LOGS: [&str; 3] = ["auto", "always", "never"];

/// Sizes of the write buffer, in bytes. The smallest one causes flushes within a turn.
const WRITE_BUFFER_SIZES: [usize; 4] = [64 << 10, 256 << 10, 1 << 20, 4 << 20];

/// Engine with the options of a turn.
#[derive(Debug, Clone, Copy)]
pub(super) struct EngineSettings {
    pub(super) engine: Engine,
    reuse_logs: bool,
    mapped_logs: &'static str,
    write_buffer_size: usize,
}

impl EngineSettings {
    /// Draws one of the engines that this machine has. With many faults, most turns are those of
    /// goleveldb, which continues after most of them.
    pub(super) fn draw(rng: &mut Rng, has_many_faults: bool) -> EngineSettings {
        let drawn = rng.pick(if has_many_faults { &ENGINES_WITH_FAULTS } else { &DRAWN_ENGINES });
        EngineSettings {
            engine: if drawn.program().is_ok() { drawn } else { Engine::Terrace },
            reuse_logs: !rng.one_in(3),
            mapped_logs: rng.pick(&MAPPED_LOGS),
            write_buffer_size: rng.pick(&WRITE_BUFFER_SIZES),
        }
    }

    /// Draws one of the other engines that this machine has, or Terrace without them.
    pub(super) fn draw_other_than_terrace(rng: &mut Rng) -> EngineSettings {
        let drawn = rng.pick(&[Engine::LevelDb, Engine::Goleveldb]);
        let settings = EngineSettings::draw(rng, false);
        EngineSettings { engine: if drawn.program().is_ok() { drawn } else { Engine::Terrace }, ..settings }
    }

    /// Returns settings of Terrace with memtables of a fixed size.
    pub(super) fn of_terrace(write_buffer_size: usize) -> EngineSettings {
        EngineSettings { write_buffer_size, ..EngineSettings::for_reading(Engine::Terrace) }
    }

    /// Returns true if Terrace appends to its logs by system calls.
    pub(super) fn appends_logs(&self) -> bool {
        self.engine == Engine::Terrace && self.mapped_logs == "never"
    }

    /// Returns settings for a read of a copy.
    pub(super) fn for_reading(engine: Engine) -> EngineSettings {
        EngineSettings { engine, reuse_logs: false, mapped_logs: "auto", write_buffer_size: 4 << 20 }
    }

    /// Returns the command that opens the database in `dir`.
    pub(super) fn command(&self, dir: &Path) -> Result<Command, String> {
        let mut command = Command::new(self.engine.program()?);
        let write_buffer_size = self.write_buffer_size.to_string();
        let reuse_logs = self.reuse_logs.to_string();
        match self.engine {
            Engine::Terrace => {
                command = ignoring_file_size_signal(&command);
                command.arg("turn").arg(dir).args([&reuse_logs, self.mapped_logs, &write_buffer_size])
            }
            Engine::LevelDb => command.arg(dir).args([reuse_logs, write_buffer_size]),
            Engine::Goleveldb => command.arg("turn").arg(dir).arg(write_buffer_size),
        };
        Ok(command)
    }
}

impl fmt::Display for EngineSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let EngineSettings { engine, reuse_logs, mapped_logs, write_buffer_size } = self;
        write!(f, "{engine:?}, write buffer {write_buffer_size}")?;
        match engine {
            Engine::Terrace => write!(f, ", reuse_logs {reuse_logs}, mapped_logs {mapped_logs}"),
            Engine::LevelDb => write!(f, ", reuse_logs {reuse_logs}"),
            Engine::Goleveldb => Ok(()),
        }
    }
}

impl Engine {
    /// Returns the program of this engine, or the reason why it is missing.
    pub(super) fn program(self) -> Result<PathBuf, String> {
        match self {
            Engine::Terrace => std::env::current_exe().map_err(|error| error.to_string()),
            Engine::LevelDb => cxx_program::built_program(),
            Engine::Goleveldb => go_program::built_program(),
        }
    }
}

/// Names the engines that this machine lacks, once per process. A missing LevelDB is an error if
/// the environment variable `TERRACE_REQUIRE_STOCK` is set, as in CI.
pub(super) fn report_missing_engines() -> Result<(), String> {
    static REPORTED: OnceLock<()> = OnceLock::new();
    REPORTED.get_or_init(|| {
        for engine in [Engine::LevelDb, Engine::Goleveldb] {
            if let Err(reason) = engine.program() {
                eprintln!("\nNOT TESTED: alternate: {engine:?}: {reason}");
            }
        }
    });
    match std::env::var_os("TERRACE_REQUIRE_STOCK") {
        Some(_) => Engine::LevelDb.program().map(drop),
        None => Ok(()),
    }
}

/// Returns `command` in a process that ignores SIGXFSZ, so that a write beyond the limit on the
/// size of files fails. A process inherits ignored signals. Without unsafe code, only a shell can
/// ignore one.
fn ignoring_file_size_signal(command: &Command) -> Command {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""]).arg(command.get_program());
    shell
}
