//! `terrace bench`: Terrace and its peers, measured side by side.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "measures the world itself, and saves what came of it where the user says"
)]

mod progress;

use std::env;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process;

use clap::Args;
#[cfg(target_os = "linux")]
use rustix::process::{Signal as KillSignal, set_parent_process_death_signal};
use terrace_bench::engine::ENGINES;
use terrace_bench::report::model::{FORMAT, PhaseInfo, ResultFile, Settings};
use terrace_bench::report::{compare, html, json, table};
use terrace_bench::run::machine;
use terrace_bench::run::measuring_process::{self, ExternalProgram};
use terrace_bench::run::plan::{self, Overrides, Plan, SuiteSize};
use terrace_bench::run::rounds;
use terrace_bench::run::stop_signal::{Signal, StopSignal};
use terrace_bench::workload::expected_values::expected_results;
use terrace_bench::workload::suites::{SUITES, WORKLOADS};

use crate::cli::Run;
use crate::failure::{CommandResult, Failure};
use crate::terminal;
use crate::units::parse_size;
use progress::BenchProgress;

/// Measure Terrace and its peers side by side, in rounds, every value checked
///
/// Takes the names of workloads, or a suite. Each engine takes its turn in a process and a directory of its own, round
/// after round. The table tells medians; a difference that lies within the spread of the rounds is called noise.
#[derive(Args)]
pub(crate) struct Bench {
    /// Workloads by name, in this order; --list tells them
    #[arg(value_name = "WORKLOAD", conflicts_with = "suite")]
    workloads: Vec<String>,
    /// A suite: leveldb, bangdb, go or ycsb [default: leveldb]
    #[arg(long, value_name = "NAME")]
    suite: Option<String>,
    /// Engines, the first of which the others are compared with; ID=PATH names a library
    #[arg(long, value_name = "IDS", value_delimiter = ',', default_value = "terrace,leveldb,rocksdb,lmdb")]
    engines: Vec<String>,
    /// Turns of each engine
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// The same settings for all engines, or each one's own: same, defaults
    #[arg(long, value_name = "WHICH", default_value = "same")]
    settings: String,
    /// Where to make the databases [default: a new directory for temporary files]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    #[command(flatten)]
    size: SizeArgs,
    #[command(flatten)]
    workload: WorkloadArgs,
    #[command(flatten)]
    engine_settings: EngineSettingsArgs,
    #[command(flatten)]
    output: OutputArgs,
    /// Take one turn as standard input says; how this program measures
    #[arg(long, hide = true)]
    child: bool,
}

/// How much to do.
#[derive(Args)]
#[command(next_help_heading = "Size")]
struct SizeArgs {
    /// Keys [default: 1000000 for workloads]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    num: Option<u64>,
    /// Share of a suite's published size [default: 1, bangdb 0.1]
    #[arg(long, value_name = "X", conflicts_with_all = ["num", "workloads"])]
    scale: Option<f64>,
    /// Seconds after which a phase ends, done or not
    #[arg(long, value_name = "S")]
    seconds: Option<u64>,
    /// Memory that each process may have, the system's cache of its files included; needs the right to make a control group
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    memory: Option<u64>,
}

/// What to do otherwise than the workloads say.
#[derive(Args)]
#[command(next_help_heading = "Work, for every phase")]
struct WorkloadArgs {
    /// Threads
    #[arg(long, value_name = "N")]
    threads: Option<u32>,
    /// Size of keys
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    key_size: Option<u64>,
    /// Size of values
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    value_size: Option<u64>,
    /// Order of keys: seq, random, reverse, zipf, hot, missing
    #[arg(long, value_name = "ORDER")]
    order: Option<String>,
    /// Keys in one atomic write
    #[arg(long, value_name = "N")]
    batch: Option<u64>,
    /// Return from a write only when the disk has it
    #[arg(long)]
    sync: bool,
    /// Puts a second of a thread that writes beside reads [default: as many as it can]
    #[arg(long, value_name = "N")]
    write_rate: Option<u64>,
}

/// What to tell the engines.
#[derive(Args)]
#[command(next_help_heading = "Settings, over --settings")]
struct EngineSettingsArgs {
    /// Size of the cache of blocks
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    cache: Option<u64>,
    /// Bytes kept in memory before they become a table
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    write_buffer: Option<u64>,
    /// Bits per key of Bloom filters; 0 for no filters
    #[arg(long, value_name = "BITS")]
    filter_bits: Option<u32>,
    /// Compression: none, snappy, zstd
    #[arg(long, value_name = "CODEC")]
    compression: Option<String>,
}

/// What to make of it.
#[derive(Args)]
#[command(next_help_heading = "Output")]
struct OutputArgs {
    /// Save everything measured; brought up to date after each phase
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Save a page with plots
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Save a picture of throughput over time, as SVG
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
    /// Compare two saved runs, and measure nothing; exit code 1 if a row became slower
    #[arg(long, value_names = ["BEFORE", "AFTER"], num_args = 2)]
    compare: Option<Vec<PathBuf>>,
    /// List workloads, suites and engines, and measure nothing
    #[arg(long)]
    list: bool,
}

impl OutputArgs {
    /// Where the pictures are, for whoever has others call this program.
    fn saved_files(&self) -> String {
        let pictures = [("page with plots", &self.report), ("picture of throughput", &self.picture)];
        let saved = pictures.into_iter().filter_map(|(what, path)| Some((what, path.as_ref()?)));
        saved.fold(String::new(), |text, (what, path)| {
            let gap = if text.is_empty() { "\n" } else { "" };
            format!("{text}{gap}{}: {what}\n", path.display())
        })
    }
}

impl Run for Bench {
    fn run(self) -> CommandResult {
        if self.child {
            return run_child();
        }
        if self.output.list {
            return print(&list_text());
        }
        match &self.output.compare {
            Some(files) => compare(files),
            None => self.measure(),
        }
    }
}

fn run_child() -> CommandResult {
    // Whoever started this can't end it where it is killed itself, and would leave it to fill the disk. Where the system
    // does not do that, the next result meets a closed pipe.
    #[cfg(target_os = "linux")]
    let _ = set_parent_process_death_signal(Some(KillSignal::KILL));
    match measuring_process::serve(io::stdin().lock(), io::stdout()) {
        true => Ok(()),
        false => Err(Failure::Database("this turn ended early".into())),
    }
}

fn print(text: &str) -> CommandResult {
    let mut out = terminal::output();
    out.write_all(terminal::printable(text).as_bytes())?;
    Ok(out.flush()?)
}

fn list_text() -> String {
    let mut text = String::from("Workloads\n");
    for workload in WORKLOADS {
        text += &format!("  {:<16} {} ({})\n", workload.name, workload.operation, workload.source);
    }
    text += "\nSuites\n";
    for suite in SUITES {
        text += &format!("  {:<16} {}; scale {} by default\n", suite.name, suite.description, suite.scale);
    }
    text += "\nEngines\n";
    for row in ENGINES {
        let info = plan::find_engine(row, None, &Settings::default()).info;
        let found = if info.present {
            format!("{} {}, {}", info.name, info.version, info.how)
        } else {
            "not there".into()
        };
        let note = if info.note.is_empty() { String::new() } else { format!(": {}", info.note) };
        text += &format!("  {:<16} {found}{note}\n", info.id);
    }
    text
}

fn compare(files: &[PathBuf]) -> CommandResult {
    let load = |file: Option<&PathBuf>| {
        json::load(file.map_or(Path::new(""), PathBuf::as_path)).map_err(Failure::File)
    };
    let comparison = compare::compare(&load(files.first())?, &load(files.get(1))?);
    print(&comparison.render())?;
    if comparison.has_slower_row() {
        Err(Failure::NegativeAnswer("slower, beyond the noise".into()))
    } else {
        Ok(())
    }
}

impl Bench {
    fn measure(&self) -> CommandResult {
        let (phases, scale) = self.phases().map_err(Failure::Usage)?;
        let settings = self.settings().map_err(Failure::Usage)?;
        let engines = plan::select_engines(&self.engines, &settings).map_err(Failure::Usage)?;
        let expected = expected_results(phases.iter().map(|phase| &phase.workload));
        // Not while that is worked out, which hears nothing; but before anything is made that a signal would leave behind.
        let stop =
            StopSignal::on_signals().map_err(|e| Failure::File(format!("listening to signals: {e}")))?;
        let dir = DatabaseDir::new(self.dir.as_deref())?;
        let plan = Plan { engines, phases, expected, rounds: self.rounds, dir: dir.path.clone() };
        let mut result = self.new_result(&plan, scale);
        self.save(&result)?;
        let myself =
            ExternalProgram { path: env::current_exe()?, arguments: vec!["bench".into(), "--child".into()] };
        let mut watch = BenchProgress::new(&plan, |result: &ResultFile| self.save(result));
        rounds::run(
            &plan,
            &mut result,
            &mut |contender, turn, heard| {
                contender.program.as_ref().unwrap_or(&myself).run(turn, self.size.memory, &stop, heard)
            },
            &stop,
            &mut watch,
        );
        let watched = watch.finish();
        if let Some(signal) = stop.signal() {
            return Err(interrupted(signal, &result));
        }
        watched?;
        print(&format!("{}{}", table::render(&result), self.output.saved_files()))?;
        check_result(&plan, &result)
    }

    fn phases(&self) -> Result<(Vec<PhaseInfo>, f64), String> {
        let (phases, scale) = if self.workloads.is_empty() {
            let size = match (self.size.scale, self.size.num) {
                (Some(scale), _) => SuiteSize::Scale(scale),
                (None, Some(num)) => SuiteSize::Num(num),
                (None, None) => SuiteSize::Default,
            };
            plan::suite_by_name(self.suite(), size)?
        } else {
            (plan::workloads_by_name(&self.workloads, self.size.num.unwrap_or(1_000_000))?, 1.0)
        };
        Ok((plan::apply_overrides(phases, &self.changes()?)?, scale))
    }

    fn suite(&self) -> &str {
        self.suite.as_deref().unwrap_or("leveldb")
    }

    fn changes(&self) -> Result<Overrides, String> {
        let bytes = |size: Option<u64>| size.map(|size| usize::try_from(size).unwrap_or(usize::MAX));
        Ok(Overrides {
            threads: self.workload.threads,
            key_size: bytes(self.workload.key_size),
            value_size: bytes(self.workload.value_size),
            order: self.workload.order.as_deref().map(plan::order_by_name).transpose()?,
            batch: self.workload.batch,
            sync: self.workload.sync,
            write_rate: self.workload.write_rate,
            duration_limit: self.size.seconds,
        })
    }

    fn settings(&self) -> Result<Settings, String> {
        let base = plan::settings_by_name(&self.settings)?;
        let compression =
            self.engine_settings.compression.as_deref().map(plan::compression_by_name).transpose()?;
        Ok(Settings {
            write_buffer_bytes: self.engine_settings.write_buffer.or(base.write_buffer_bytes),
            cache_bytes: self.engine_settings.cache.or(base.cache_bytes),
            filter_bits: self.engine_settings.filter_bits.or(base.filter_bits),
            compression: compression.or(base.compression),
        })
    }

    /// The result before anything is measured.
    fn new_result(&self, plan: &Plan, scale: f64) -> ResultFile {
        let words =
            env::args().skip(1).map(|word| if word.contains(' ') { format!("'{word}'") } else { word });
        ResultFile {
            format: FORMAT,
            terrace_commit: machine::COMMIT.into(),
            started: machine::utc_now(),
            suite: if self.workloads.is_empty() { self.suite() } else { "workloads" }.into(),
            settings: self.settings.clone(),
            command: format!("terrace {}", words.collect::<Vec<_>>().join(" ")),
            scale,
            rounds: plan.rounds,
            memory_bytes: self.size.memory,
            machine: machine::describe(&plan.dir),
            engines: plan.engines.iter().map(|contender| contender.info.clone()).collect(),
            phases: plan.phases.clone(),
            ..ResultFile::default()
        }
    }

    fn save(&self, result: &ResultFile) -> CommandResult {
        if let Some(path) = &self.output.json {
            json::save(result, path).map_err(Failure::File)?;
        }
        if let Some(path) = &self.output.report {
            std::fs::write(path, html::page(result)).map_err(|e| Failure::for_file(path, e))?;
        }
        if let Some(path) = &self.output.picture {
            std::fs::write(path, html::picture(result)).map_err(|e| Failure::for_file(path, e))?;
        }
        Ok(())
    }
}

/// The end of a run that was asked to stop. What was measured until then is shown.
fn interrupted(signal: Signal, result: &ResultFile) -> Failure {
    let mut sentence = format!("interrupted by {}; its databases are removed", signal.name);
    // A terminal that is gone is no reason to end otherwise.
    if !result.results.is_empty() && print(&table::render(result)).is_ok() {
        sentence += ", and what was measured until then is above";
    }
    Failure::Interrupted(signal, sentence)
}

/// What a run as a whole comes to.
fn check_result(plan: &Plan, result: &ResultFile) -> CommandResult {
    let failed = result.results.iter().filter(|result| !result.error.is_empty()).count();
    if failed > 0 {
        return Err(Failure::Database(format!("failures: {failed}; what was measured is above")));
    }
    // One that was named by path was meant; others may be there or not.
    match plan.engines.iter().find(|engine| engine.path.is_some() && !engine.info.present) {
        Some(engine) => Err(Failure::File(format!("{}: {}", engine.info.id, engine.info.note))),
        None if plan.engines.iter().all(|engine| !engine.info.present) => {
            Err(Failure::File("none of the engines is there".into()))
        }
        None => Ok(()),
    }
}

/// The databases' parent. One that was made here goes when this is dropped.
struct DatabaseDir {
    path: PathBuf,
    is_created: bool,
}

impl DatabaseDir {
    fn new(asked: Option<&Path>) -> Result<DatabaseDir, Failure> {
        let path = asked
            .map_or_else(|| env::temp_dir().join(format!("terrace-bench-{}", process::id())), Path::to_owned);
        let made = !path.exists();
        std::fs::create_dir_all(&path).map_err(|e| Failure::for_file(&path, e))?;
        Ok(DatabaseDir { path, is_created: made })
    }
}

impl Drop for DatabaseDir {
    fn drop(&mut self) {
        if self.is_created {
            // Only if it is empty: whoever put something there wants it.
            let _ = std::fs::remove_dir(&self.path);
        }
    }
}
