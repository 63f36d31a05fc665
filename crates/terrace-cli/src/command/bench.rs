//! `terrace bench`: measures Terrace and other engines side by side.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "measures the real system, and saves results where the user asks"
)]

#[cfg(feature = "store")]
mod on_store;
mod progress;

use std::env;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process;

use clap::Args;
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
use crate::terminal::{self, Colour};
use crate::units::parse_size;
use progress::BenchProgress;

/// Measure engines side by side, in rounds, and check every value
///
/// Takes the names of workloads, or a suite. In every round, each engine runs in a new process and
/// an empty directory. The table shows medians. A difference within the spread of the rounds is
/// reported as noise. The address of an empty store measures that store instead, with the number of
/// its requests, in the rows put, get, scan and batch.
#[derive(Args)]
pub(crate) struct Bench {
    /// Workloads by name, run in this order; --list prints the names. Or the address of a store,
    /// and rows
    #[arg(value_name = "WORKLOAD", conflicts_with = "suite")]
    workloads: Vec<String>,
    /// Suite of workloads: leveldb, quick, bangdb, go or ycsb [default: leveldb]
    #[arg(long, value_name = "NAME")]
    suite: Option<String>,
    /// Engines to measure, compared with the first of them; ID=PATH selects a library file
    #[arg(long, value_name = "IDS", value_delimiter = ',', default_value = "terrace,leveldb,rocksdb,lmdb")]
    engines: Vec<String>,
    /// Number of rounds, in each of which every engine runs once
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Engine settings: the same for all engines, or each engine's own defaults: same, defaults
    #[arg(long, value_name = "WHICH", default_value = "same")]
    settings: String,
    /// Parent directory of the databases [default: below `target`, or the current directory]
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
    /// Measure one run that standard input describes; `terrace bench` starts itself with this flag.
    #[arg(long, hide = true)]
    child: bool,
}

/// Arguments that set the size of a run.
#[derive(Args)]
#[command(next_help_heading = "Size")]
struct SizeArgs {
    /// Number of keys [default: 1000000 for workloads]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    num: Option<u64>,
    /// Fraction of the suite's published size [default: 1, bangdb 0.1]
    #[arg(long, value_name = "X", conflicts_with_all = ["num", "workloads"])]
    scale: Option<f64>,
    /// Maximum duration of a phase in seconds; entries that later phases need are put after it
    #[arg(long, value_name = "S")]
    seconds: Option<u64>,
    /// Minimum duration of a phase in seconds, for which its operations are repeated
    #[arg(long, value_name = "S")]
    min_seconds: Option<u64>,
    /// Memory limit of each measured process, including the system's cache of its files; needs
    /// permission to create a control group
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    memory: Option<u64>,
}

/// Arguments that override the workloads.
#[derive(Args)]
#[command(next_help_heading = "Workload, for every phase")]
struct WorkloadArgs {
    /// Number of threads
    #[arg(long, value_name = "N")]
    threads: Option<u32>,
    /// Size of a key
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    key_size: Option<u64>,
    /// Size of a value
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    value_size: Option<u64>,
    /// Incompressible fraction of each value, from 0 to 1 [default: 0.5, bangdb 1]
    #[arg(long, value_name = "X")]
    compression_ratio: Option<f64>,
    /// Key order: seq, random, reverse, zipf, hot, missing
    #[arg(long, value_name = "ORDER")]
    order: Option<String>,
    /// Number of keys in one atomic write
    #[arg(long, value_name = "N")]
    batch: Option<u64>,
    /// Sync every write to disk
    #[arg(long)]
    sync: bool,
    /// Puts per second of the thread that writes while others read [default: no limit]
    #[arg(long, value_name = "N")]
    write_rate: Option<u64>,
}

/// Arguments that override the settings of the engines.
#[derive(Args)]
#[command(next_help_heading = "Engine settings, override --settings")]
struct EngineSettingsArgs {
    /// Size of the block cache
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    cache: Option<u64>,
    /// Size of a memtable before it is flushed to a table
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    write_buffer: Option<u64>,
    /// Bits per key of the Bloom filters; 0 for no filters
    #[arg(long, value_name = "BITS")]
    filter_bits: Option<u32>,
    /// Compression codec: none, snappy, zstd
    #[arg(long, value_name = "CODEC")]
    compression: Option<String>,
}

/// Arguments that choose the output.
#[derive(Args)]
#[command(next_help_heading = "Output")]
struct OutputArgs {
    /// Save all results as JSON; the file is updated after each phase
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Save an HTML page with plots
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Save a plot of throughput over time, as SVG
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
    /// Compare two saved runs without measuring; exit code 1 if a row became slower
    #[arg(long, value_names = ["BEFORE", "AFTER"], num_args = 2)]
    compare: Option<Vec<PathBuf>>,
    /// List workloads, suites and engines without measuring
    #[arg(long)]
    list: bool,
}

impl OutputArgs {
    /// One line for each saved page or plot, so that a caller of this program finds the file.
    fn saved_files(&self) -> String {
        let files = [("page with plots", &self.report), ("plot of throughput", &self.picture)];
        let saved = files.into_iter().filter_map(|(description, path)| Some((description, path.as_ref()?)));
        saved.fold(String::new(), |text, (description, path)| {
            let gap = if text.is_empty() { "\n" } else { "" };
            format!("{text}{gap}{}: {description}\n", path.display())
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
        if let Some(files) = &self.output.compare {
            return compare(files);
        }
        #[cfg(feature = "store")]
        if let Some((address, rows)) = self.workloads.split_first()
            && terrace_store::is_address(address)
        {
            return self.measure_store(address, rows);
        }
        self.measure()
    }
}

fn run_child() -> CommandResult {
    // Otherwise the run would continue after its parent, and fill the disk. On a system without
    // this call, the next result meets a closed pipe.
    terrace_env::end_with_parent();
    match measuring_process::serve(io::stdin().lock(), io::stdout()) {
        true => Ok(()),
        false => Err(Failure::Database("this run ended early".into())),
    }
}

fn print(text: &str) -> CommandResult {
    let mut out = terminal::output();
    out.write_all(terminal::printable(text).as_bytes())?;
    Ok(out.flush()?)
}

/// Prints the warning in red, the tables, and then `more`.
fn print_result(result: &ResultFile, more: &str) -> CommandResult {
    let style = terminal::Style::of_stdout();
    let warning = table::sync_warning(result).map_or_else(String::new, |warning| {
        table::wrap(&warning, 0).lines().map(|line| style.paint(Colour::Red, line) + "\n").collect()
    });
    let mut out = terminal::output();
    out.write_all(warning.as_bytes())?;
    out.write_all(terminal::printable(table::render(result) + more).as_bytes())?;
    Ok(out.flush()?)
}

fn list_text() -> String {
    let mut text = String::from("Workloads\n");
    for workload in WORKLOADS {
        text += &list_line(workload.name, &format!("{} ({})", workload.operation, workload.source));
    }
    text += "\nSuites\n";
    for suite in SUITES {
        text += &list_line(suite.name, &format!("{}; scale {} by default", suite.description, suite.scale));
    }
    text += "\nEngines\n";
    for row in ENGINES {
        let info = plan::find_engine(row);
        let description = if info.present {
            format!("{} {}, {}", info.name, info.version, info.how)
        } else {
            "not available".into()
        };
        let note = if info.note.is_empty() { String::new() } else { format!(": {}", info.note) };
        text += &list_line(&info.id, &format!("{description}{note}"));
    }
    text
}

fn list_line(name: &str, description: &str) -> String {
    table::wrap(&format!("  {name:<20} {description}"), 23)
}

fn compare(files: &[PathBuf]) -> CommandResult {
    let load = |file: Option<&PathBuf>| {
        json::load(file.map_or(Path::new(""), PathBuf::as_path)).map_err(Failure::File)
    };
    let comparison = compare::compare(&load(files.first())?, &load(files.get(1))?);
    print(&comparison.render())?;
    if comparison.has_slower_row() {
        Err(Failure::NegativeAnswer("a row is slower by more than the noise".into()))
    } else {
        Ok(())
    }
}

/// Default size of a run on a store.
#[cfg(feature = "store")]
mod store_defaults {
    pub(super) const KEYS: u64 = 10_000;
    pub(super) const THREADS: u32 = 16;
    pub(super) const VALUE_SIZE: u64 = 100;
}

impl Bench {
    #[cfg(feature = "store")]
    fn measure_store(&self, address: &str, rows: &[String]) -> CommandResult {
        let OutputArgs { json, report, picture, .. } = &self.output;
        if json.is_some() || report.is_some() || picture.is_some() {
            return Err(Failure::Usage(
                "--json, --report and --picture: not for the address of a store".into(),
            ));
        }
        let size = self.workload.value_size.unwrap_or(store_defaults::VALUE_SIZE);
        let bench = on_store::StoreBench {
            keys: self.size.num.unwrap_or(store_defaults::KEYS),
            threads: self.workload.threads.unwrap_or(store_defaults::THREADS).clamp(1, 1000),
            value_size: usize::try_from(size).unwrap_or(usize::MAX),
        };
        bench.measure(address, rows)
    }

    fn measure(&self) -> CommandResult {
        let (phases, scale) = self.phases().map_err(Failure::Usage)?;
        let settings = self.settings().map_err(Failure::Usage)?;
        let engines = plan::select_engines(&self.engines, &settings).map_err(Failure::Usage)?;
        let expected = expected_results(phases.iter().map(|phase| &phase.workload));
        // After the expected values, whose computation does not check for signals, and before
        // anything is created that a signal would leave on disk.
        let stop = StopSignal::on_signals().map_err(Failure::for_signals)?;
        let dir = DatabaseDir::new(self.dir.as_deref())?;
        let plan = Plan { engines, phases, expected, rounds: self.rounds, dir: dir.path.clone() };
        let mut result = self.new_result(&plan, scale);
        self.save(&result)?;
        let this_program = ExternalProgram {
            path: env::current_exe().map_err(Failure::for_own_path)?,
            arguments: vec!["bench".into(), "--child".into()],
        };
        let mut progress = BenchProgress::new(&plan, |result: &ResultFile| self.save(result));
        rounds::run(
            &plan,
            &mut result,
            &mut |engine, request, on_message| {
                let program = engine.program.as_ref().unwrap_or(&this_program);
                program.run(request, self.size.memory, &stop, on_message)
            },
            &stop,
            &mut progress,
        );
        let saved = progress.finish();
        if let Some(signal) = stop.signal() {
            return Err(interrupted(signal, &result));
        }
        saved?;
        print_result(&result, &self.output.saved_files())?;
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
        Ok((plan::apply_overrides(phases, &self.overrides()?)?, scale))
    }

    fn suite(&self) -> &str {
        self.suite.as_deref().unwrap_or("leveldb")
    }

    fn overrides(&self) -> Result<Overrides, String> {
        let bytes = |size: Option<u64>| size.map(|size| usize::try_from(size).unwrap_or(usize::MAX));
        Ok(Overrides {
            threads: self.workload.threads,
            key_size: bytes(self.workload.key_size),
            value_size: bytes(self.workload.value_size),
            value_compress: self.workload.compression_ratio,
            order: self.workload.order.as_deref().map(plan::order_by_name).transpose()?,
            batch: self.workload.batch,
            sync: self.workload.sync,
            write_rate: self.workload.write_rate,
            duration_min: self.size.min_seconds,
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

    /// Returns a result file without measurements.
    fn new_result(&self, plan: &Plan, scale: f64) -> ResultFile {
        let args = env::args().skip(1).map(|arg| if arg.contains(' ') { format!("'{arg}'") } else { arg });
        ResultFile {
            format: FORMAT,
            terrace_commit: machine::COMMIT.into(),
            started: machine::utc_now(),
            suite: if self.workloads.is_empty() { self.suite() } else { "workloads" }.into(),
            settings: self.settings.clone(),
            command: format!("terrace {}", args.collect::<Vec<_>>().join(" ")),
            scale,
            rounds: plan.rounds,
            memory_bytes: self.size.memory,
            machine: machine::describe(&plan.dir),
            engines: plan.engines.iter().map(|engine| engine.info.clone()).collect(),
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

/// Failure of a run that a signal stopped. Prints the results until then.
fn interrupted(signal: Signal, result: &ResultFile) -> Failure {
    let mut message = format!("interrupted by {}; its databases are removed", signal.name);
    // Output may fail because the terminal is closed. The signal remains the reason for the end.
    if !result.results.is_empty() && print_result(result, "").is_ok() {
        message += ", and the results until then are above";
    }
    Failure::Interrupted(signal, message)
}

/// Returns an error if a phase failed or an engine that the user requires is missing.
fn check_result(plan: &Plan, result: &ResultFile) -> CommandResult {
    let failed = result.results.iter().filter(|result| !result.error.is_empty()).count();
    if failed > 0 {
        return Err(Failure::Database(format!("failures: {failed}; the other results are above")));
    }
    // An engine that was given with a path is required. Other engines may be missing.
    match plan.engines.iter().find(|engine| engine.path.is_some() && !engine.info.present) {
        Some(engine) => Err(Failure::File(format!("{}: {}", engine.info.id, engine.info.note))),
        None if plan.engines.iter().all(|engine| !engine.info.present) => {
            Err(Failure::File("none of the engines is available".into()))
        }
        None => Ok(()),
    }
}

/// Parent directory of the databases. Dropping it removes a directory that it created.
struct DatabaseDir {
    path: PathBuf,
    is_created: bool,
}

impl DatabaseDir {
    fn new(requested: Option<&Path>) -> Result<DatabaseDir, Failure> {
        let path = match requested {
            Some(path) => path.to_owned(),
            None => default_parent(env::current_exe().ok().as_deref())
                .join(format!("terrace-bench-{}", process::id())),
        };
        let is_created = !path.exists();
        std::fs::create_dir_all(&path).map_err(|e| Failure::for_file(&path, e))?;
        Ok(DatabaseDir { path, is_created })
    }
}

/// Directory `target` that contains `program`, or the current directory. The directory for
/// temporary files is often in memory, where syncs are free.
fn default_parent(program: Option<&Path>) -> PathBuf {
    let mut folders = program.into_iter().flat_map(Path::ancestors);
    folders.find(|folder| folder.ends_with("target")).map_or_else(PathBuf::new, Path::to_owned)
}

impl Drop for DatabaseDir {
    fn drop(&mut self) {
        if self.is_created {
            // Removes the directory only if it is empty: other files in it belong to the user.
            let _ = std::fs::remove_dir(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_directory_is_below_target() {
        for (program, expect) in [
            (Some("/clone/target/release/terrace"), "/clone/target"),
            (Some("/usr/bin/terrace"), ""),
            (None, ""),
        ] {
            assert_eq!(default_parent(program.map(Path::new)), Path::new(expect), "{program:?}");
        }
    }
}
