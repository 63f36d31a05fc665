//! Speed of `terrace serve` beside redis-server, measured by redis-benchmark.
//!
//! ```text
//!   for each mode of durability: start both servers, warm up
//!     for each row: Redis, Terrace, Redis, Terrace, ..   -> medians of requests/s and of CPU
//! ```
//!
//! Both servers and redis-benchmark share the processors of the machine. The processor time of a
//! server for a request, with its background threads, is the most robust figure.

use std::fs;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::tidy::root;
use crate::torture::wait;

/// Number of measurements of each server for a row, unless `--rounds` is given.
const ROUNDS: usize = 5;
/// Number of requests of a measurement, unless `--requests` is given.
const REQUESTS: u64 = 1_000_000;
/// Number of keys, unless `--keys` is given. With 1, all requests have one key. That is the default
/// of redis-benchmark.
const KEYS: u64 = 1_000_000;
/// Divisor of the number of requests without pipelining.
const UNPIPELINED_DIVISOR: u64 = 8;
/// Ticks of processor time of a second in `/proc`.
const TICKS_PER_SECOND: f64 = 100.0;

/// Durability of both servers.
struct Mode {
    name: &'static str,
    redis: &'static [&'static str],
    terrace: &'static [&'static str],
    rows: &'static [Row],
}

/// Workload of redis-benchmark.
struct Row {
    name: &'static str,
    pipeline: u64,
    args: &'static [&'static str],
}

const fn row(name: &'static str, pipeline: u64, args: &'static [&'static str]) -> Row {
    Row { name, pipeline, args }
}

const SET: &[&str] = &["-t", "set"];
const KEY: &str = "key:__rand_int__";

static MODES: &[Mode] = &[
    Mode {
        name: "no persistence | everysec",
        redis: &["--appendonly", "no"],
        terrace: &["--sync", "everysec"],
        rows: &[
            row("SET", 16, SET),
            row("GET", 16, &["-t", "get"]),
            row("SET", 1, SET),
            row("GET", 1, &["-t", "get"]),
            row("INCR", 16, &["-t", "incr"]),
            row("MGET 10", 16, &["MGET", KEY, KEY, KEY, KEY, KEY, KEY, KEY, KEY, KEY, KEY]),
            row("HSET", 16, &["-t", "hset"]),
            row("LPUSH", 16, &["-t", "lpush"]),
            row("RPOP", 16, &["-t", "rpop"]),
            row("SADD", 16, &["-t", "sadd"]),
            row("ZADD", 16, &["-t", "zadd"]),
            row("ZRANGE 10", 16, &["ZRANGE", "myzset", "0", "9"]),
        ],
    },
    Mode {
        name: "everysec | everysec",
        redis: &["--appendonly", "yes", "--appendfsync", "everysec"],
        terrace: &["--sync", "everysec"],
        rows: &[row("SET", 16, SET)],
    },
    Mode {
        name: "always | always",
        redis: &["--appendonly", "yes", "--appendfsync", "always"],
        terrace: &["--sync", "always"],
        rows: &[row("SET", 1, SET), row("SET", 16, SET)],
    },
];

/// Arguments of the command.
struct Plan {
    rounds: usize,
    requests: u64,
    keys: u64,
    /// Parts of the names of rows. Without any, all rows are measured.
    names: Vec<String>,
}

impl Plan {
    fn parse() -> Option<Plan> {
        let mut plan = Plan { rounds: ROUNDS, requests: REQUESTS, keys: KEYS, names: Vec::new() };
        let mut args = std::env::args().skip(2);
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--rounds" => plan.rounds = args.next()?.parse().ok()?,
                "--requests" => plan.requests = args.next()?.parse().ok()?,
                "--keys" => plan.keys = args.next()?.parse().ok()?,
                _ => plan.names.push(arg),
            }
        }
        Some(plan)
    }

    fn includes(&self, row: &Row) -> bool {
        self.names.is_empty() || self.names.iter().any(|name| row.name.starts_with(name.as_str()))
    }
}

/// Measures all rows, and prints them as a table of Markdown.
pub(crate) fn run() -> ExitCode {
    let Some(plan) = Plan::parse() else {
        eprintln!("usage: cargo xtask serve-benchmarks [--rounds N] [--requests N] [--keys N] [ROW ...]");
        return ExitCode::from(2);
    };
    let mut build = Command::new("cargo");
    build.args(["build", "--quiet", "--release", "--package", "terrace-cli"]).current_dir(root());
    let built = wait(build);
    if built != ExitCode::SUCCESS {
        return built;
    }
    println!("| Redis, Terrace | row | requests/s | ratio | CPU of a request | ratio |");
    println!("|---|---|---:|---:|---:|---:|");
    for mode in MODES.iter().filter(|mode| mode.rows.iter().any(|row| plan.includes(row))) {
        if let Err(error) = measure_mode(mode, &plan) {
            eprintln!("{}: {error}", mode.name);
            return ExitCode::from(1);
        }
    }
    ExitCode::SUCCESS
}

fn measure_mode(mode: &Mode, plan: &Plan) -> io::Result<()> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root().join("target"), PathBuf::from);
    let work = target.join("serve-benchmarks");
    let _ = fs::remove_dir_all(&work);
    let mut redis = Command::new("redis-server");
    redis.args(["--save", "", "--dir"]).arg(work.join("redis")).args(mode.redis);
    let mut terrace = Command::new(target.join("release/terrace"));
    terrace.arg("serve").arg(work.join("terrace")).args(mode.terrace);
    let servers =
        [Server::start(redis, &work.join("redis"))?, Server::start(terrace, &work.join("terrace"))?];
    for server in &servers {
        server.measure(&row("SET", 16, SET), plan.requests, plan.keys)?;
    }
    for row in mode.rows.iter().filter(|row| plan.includes(row)) {
        let requests = if row.pipeline == 1 { plan.requests / UNPIPELINED_DIVISOR } else { plan.requests };
        let mut results = [Vec::new(), Vec::new()];
        for _ in 0..plan.rounds {
            for (server, results) in servers.iter().zip(&mut results) {
                results.push(server.measure(row, requests, plan.keys)?);
            }
        }
        let [redis, terrace] = results.map(|results| Figures::median(&results));
        println!(
            "| {} | {} -P {} | {:.0} | {:.2} | {:.2} us | {:.2} |",
            mode.name,
            row.name,
            row.pipeline,
            terrace.requests,
            terrace.requests / redis.requests,
            terrace.cpu_us,
            terrace.cpu_us / redis.cpu_us,
        );
    }
    Ok(())
}

/// Result of a measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Figures {
    /// Requests of a second.
    requests: f64,
    /// Processor time of the server for a request, in microseconds.
    cpu_us: f64,
}

impl Figures {
    fn median(results: &[Figures]) -> Figures {
        let median = |figure: fn(&Figures) -> f64| {
            let mut sorted: Vec<f64> = results.iter().map(figure).collect();
            sorted.sort_by(f64::total_cmp);
            sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
        };
        Figures { requests: median(|result| result.requests), cpu_us: median(|result| result.cpu_us) }
    }
}

/// Running server. It ends with this value.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start(mut command: Command, dir: &Path) -> io::Result<Server> {
        /// Time until the server accepts connections.
        const START_TIME: Duration = Duration::from_secs(10);
        fs::create_dir_all(dir)?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        command.args(["--port", &port.to_string()]).stdout(Stdio::null());
        let server = Server { child: command.spawn()?, port };
        let started = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if started.elapsed() > START_TIME {
                return Err(io::Error::other("a server does not start"));
            }
            sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    fn measure(&self, row: &Row, requests: u64, keys: u64) -> io::Result<Figures> {
        let before = self.cpu_ticks()?;
        let mut benchmark = Command::new("redis-benchmark");
        benchmark.args(["-p", &self.port.to_string(), "-n", &requests.to_string()]);
        benchmark.args(["-P", &row.pipeline.to_string(), "-c", "50", "-d", "16", "--csv"]);
        if keys > 1 {
            benchmark.args(["-r", &keys.to_string()]);
        }
        let output = benchmark.args(row.args).output()?;
        let ticks = self.cpu_ticks()? - before;
        let text = String::from_utf8_lossy(&output.stdout);
        let rate = text.lines().last().and_then(|line| line.split("\",\"").nth(1)?.parse().ok());
        let requests_per_second = rate.ok_or_else(|| {
            io::Error::other(format!("{}: {}", row.name, String::from_utf8_lossy(&output.stderr)))
        })?;
        let cpu_us = ticks as f64 / TICKS_PER_SECOND * 1e6 / requests as f64;
        Ok(Figures { requests: requests_per_second, cpu_us })
    }

    /// Processor time of the process, in user mode and in the kernel.
    fn cpu_ticks(&self) -> io::Result<u64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The fields after the name in parentheses begin with the third one.
        let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields).split(' ');
        Ok(fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail if the process has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_each_figure() {
        let results = [(3.0, 1.0), (1.0, 3.0), (2.0, 2.5)];
        let results = results.map(|(requests, cpu_us)| Figures { requests, cpu_us });
        assert_eq!(Figures::median(&results), Figures { requests: 2.0, cpu_us: 2.5 });
    }
}
