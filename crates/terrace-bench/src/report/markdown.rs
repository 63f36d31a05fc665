//! A page in Markdown whose tables are made from result files.
//!
//! ```text
//!   <!-- bench small: --suite bangdb --scale 0.1 -->    the run `small` and its arguments
//!   ... its table, rewritten at each update ...
//!   <!-- end -->
//! ```
//!
//! `<!-- bench+costs` adds latencies, written bytes and memory. `<!-- losses -->` begins the list
//! of the rows in which the first engine of a run is slower than another. A table without a result
//! file stays as it is, and so do its losses.

use std::fmt::Write;

use super::model::{PhaseInfo, PhaseResult, ResultFile, Summary, Verdict};
use super::number_format::{bytes, nanoseconds, plain_ratio, short, three_digits};
use super::summary::{median, valid_results};

const END: &str = "<!-- end -->";

/// A run of the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageRun {
    /// Name of the result file, without its extension.
    pub name: String,
    /// Arguments of `terrace bench`.
    pub arguments: String,
    has_costs: bool,
}

/// Part of a page.
enum Part<'a> {
    /// Text and opening markers, which stay as they are.
    Text(&'a str),
    /// Table of a run.
    Table(PageRun, &'a str),
    /// List of losses.
    Losses(&'a str),
}

/// Runs of a page, in order.
pub fn runs(page: &str) -> Result<Vec<PageRun>, String> {
    let runs = parts(page)?.into_iter().filter_map(|part| match part {
        Part::Table(run, _) => Some(run),
        _ => None,
    });
    Ok(runs.collect())
}

/// Rewrites the tables and the losses of `page`. `load` returns the result of a run, if there is
/// one.
pub fn update(page: &str, load: &dyn Fn(&str) -> Option<ResultFile>) -> Result<String, String> {
    let results: Vec<(String, Option<ResultFile>)> =
        runs(page)?.into_iter().map(|run| (run.name.clone(), load(&run.name))).collect();
    let parts = parts(page)?.into_iter().map(|part| match part {
        Part::Text(text) => text.to_owned(),
        Part::Table(run, old) => {
            let result =
                results.iter().find(|(name, _)| *name == run.name).and_then(|(_, file)| file.as_ref());
            result.map_or_else(|| old.to_owned(), |file| table(file, run.has_costs))
        }
        Part::Losses(old) => losses(&results, old),
    });
    Ok(parts.collect())
}

/// Divides a page at its markers.
fn parts(page: &str) -> Result<Vec<Part<'_>>, String> {
    let mut parts = Vec::new();
    let mut rest = page;
    while let Some((at, marker)) = next_marker(rest) {
        let body = at + marker.len();
        let length = rest[body..].find(END).ok_or_else(|| format!("{marker} has no {END}"))?;
        let (text, after) = rest.split_at(body);
        let (old, after) = after.split_at(length);
        parts.push(Part::Text(text));
        parts.push(match page_run(marker)? {
            Some(run) => Part::Table(run, old),
            None => Part::Losses(old),
        });
        rest = after;
    }
    parts.push(Part::Text(rest));
    Ok(parts)
}

/// Position and text of the next opening marker.
fn next_marker(text: &str) -> Option<(usize, &str)> {
    let starts = ["<!-- bench", "<!-- losses"].into_iter().filter_map(|start| text.find(start));
    let at = starts.min()?;
    let length = text[at..].find("-->")? + "-->".len();
    Some((at, &text[at..at + length]))
}

/// Run of a marker; `None` if the marker begins the losses.
fn page_run(marker: &str) -> Result<Option<PageRun>, String> {
    let inside = marker.trim_start_matches("<!--").trim_end_matches("-->").trim();
    let Some(run) = inside.strip_prefix("bench") else { return Ok(None) };
    let (head, arguments) = run.split_once(':').ok_or_else(|| format!("{marker} has no colon"))?;
    let (has_costs, name) = match head.strip_prefix("+costs") {
        Some(name) => (true, name),
        None => (false, head),
    };
    let arguments = arguments.split_whitespace().collect::<Vec<_>>().join(" ");
    Ok(Some(PageRun { name: name.trim().to_owned(), arguments, has_costs }))
}

fn table(file: &ResultFile, has_costs: bool) -> String {
    let mut text = String::from("\n\n");
    let date = file.started.get(..10).unwrap_or_default();
    let rounds = if file.rounds == 1 { "one round".to_owned() } else { format!("{} rounds", file.rounds) };
    // Writing to a `String` never fails.
    let _ = writeln!(text, "`{}`", file.command);
    let _ = writeln!(
        text,
        "\nCommit `{}`, {date}, {rounds}, {}.\n",
        file.terrace_commit, file.machine.filesystem
    );
    let engines: Vec<_> = file.engines.iter().filter(|engine| engine.present).collect();
    let names: String = engines.iter().map(|engine| format!(" {} |", engine.name)).collect();
    let _ = writeln!(text, "| row |{names}\n|---|{}", "---:|".repeat(engines.len()));
    for phase in &file.phases {
        let summaries = engines.iter().map(|engine| summary_of(file, phase, &engine.id));
        let cells: String = summaries.map(|summary| format!(" {} |", rate(summary))).collect();
        let _ = writeln!(text, "| {} |{cells}", phase.name);
    }
    if has_costs {
        text += &costs(file);
    }
    plain(&(text + "\n"))
}

fn summary_of<'a>(file: &'a ResultFile, phase: &PhaseInfo, engine: &str) -> Option<&'a Summary> {
    file.summary.iter().find(|summary| summary.row == phase.row && summary.engine == engine)
}

/// Median rate, and its ratio to the first engine: bold if faster, with `~` within the noise.
fn rate(summary: Option<&Summary>) -> String {
    let Some((summary, median)) = summary.and_then(|s| Some((s, s.median_ops_per_second?))) else {
        return "-".to_owned();
    };
    let median = short(median);
    let Some(ratio) = &summary.ratio_to_first else { return median };
    let times = plain_ratio(ratio.of_medians);
    match ratio.verdict {
        Verdict::Faster => format!("**{median} ({times})**"),
        Verdict::Slower => format!("{median} ({times})"),
        Verdict::WithinNoise => format!("{median} ({times} ~)"),
    }
}

/// Figures beyond the rate, each the median of the rounds.
struct Cost {
    title: &'static str,
    value: fn(&PhaseResult) -> Option<f64>,
    format: fn(f64) -> String,
}

static COSTS: &[Cost] = &[
    Cost { title: "p99.9", value: |r| Some(r.latency_ns.p99_9 as f64), format: nanoseconds },
    Cost { title: "longest", value: |r| Some(r.latency_ns.max as f64), format: nanoseconds },
    Cost { title: "slowest 0.1 s", value: |r| r.slowest_100ms_to_mean, format: |x| format!("{x:.2}") },
    Cost { title: "written per byte", value: |r| r.write_amplification, format: three_digits },
    Cost { title: "memory", value: |r| r.peak_rss_bytes.map(|bytes| bytes as f64), format: bytes },
];

fn costs(file: &ResultFile) -> String {
    let titles: String = COSTS.iter().map(|cost| format!(" {} |", cost.title)).collect();
    let mut text = format!("\n| row | engine |{titles}\n|---|---|{}\n", "---:|".repeat(COSTS.len()));
    for phase in &file.phases {
        for engine in file.engines.iter().filter(|engine| engine.present) {
            let rounds = valid_results(file, phase.row, &engine.id);
            let cells: String = COSTS.iter().map(|cost| format!(" {} |", cost_cell(cost, &rounds))).collect();
            let _ = writeln!(text, "| {} | {} |{cells}", phase.name, engine.name);
        }
    }
    text
}

fn cost_cell(cost: &Cost, rounds: &[&PhaseResult]) -> String {
    let values: Vec<f64> = rounds.iter().filter_map(|round| (cost.value)(round)).collect();
    median(&values).map_or_else(|| "-".to_owned(), cost.format)
}

/// Losses of every run. A run without a result file keeps its table, and its line of `old`.
fn losses(results: &[(String, Option<ResultFile>)], old: &str) -> String {
    let mut text = String::from("\n\n");
    for (name, file) in results {
        let start = format!("- `{name}`: ");
        let lost = match file.as_ref().map(losses_of) {
            None => old.lines().find_map(|line| line.strip_prefix(&start)).unwrap_or("no result").to_owned(),
            Some(lost) if lost.is_empty() => "none".to_owned(),
            Some(lost) => lost.join(", "),
        };
        let _ = writeln!(text, "{start}{lost}");
    }
    plain(&(text + "\n"))
}

/// Rows in which another engine is faster, the worst first. A single round has no known noise, so
/// every difference of it is listed.
fn losses_of(file: &ResultFile) -> Vec<String> {
    let mut lost: Vec<(f64, String)> = Vec::new();
    for summary in &file.summary {
        let Some(ratio) = &summary.ratio_to_first else { continue };
        let is_lost = match file.rounds {
            1 => ratio.of_medians > 1.0,
            _ => ratio.verdict == Verdict::Faster,
        };
        if is_lost {
            let row = file.phases.iter().find(|phase| phase.row == summary.row);
            let row = row.map_or("", |phase| phase.name.as_str());
            let once = if file.rounds == 1 { ", one round" } else { "" };
            let times = plain_ratio(ratio.of_medians);
            let description = format!("{row} to {} ({times}{once})", summary.engine);
            lost.push((ratio.of_medians, description));
        }
    }
    lost.sort_by(|a, b| b.0.total_cmp(&a.0));
    lost.into_iter().map(|(_, description)| description).collect()
}

/// Replaces spaces that do not break.
fn plain(text: &str) -> String {
    text.replace(['\u{a0}', '\u{202f}'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::model::{EngineInfo, FORMAT};
    use crate::report::summary::summarise;

    const PAGE: &str = "# Title\n<!-- losses -->\n\n- `one`: no result\n- `two`: r to b (3.00x)\n\n<!-- end -->\ntext\n\
                        <!-- bench one: fillseq --num 5\n--rounds 2 -->\nold table\n<!-- end -->\n\
                        <!-- bench+costs two: readseq -->\nsecond\n<!-- end -->\n";

    /// Result of a row `r`, in which the engines have these rates.
    fn file(first: &[f64], second: &[f64]) -> ResultFile {
        let info = |id: &str| EngineInfo {
            id: id.to_lowercase(),
            name: id.into(),
            present: true,
            ..EngineInfo::default()
        };
        let results = [("a", first), ("b", second)].into_iter().flat_map(|(engine, rates)| {
            rates.iter().zip(0..).map(move |(rate, round)| PhaseResult {
                engine: engine.into(),
                round,
                ops_per_second: *rate,
                ..PhaseResult::default()
            })
        });
        let mut file = ResultFile {
            format: FORMAT,
            command: "terrace bench r".into(),
            terrace_commit: "abc".into(),
            started: "2026-01-31T23:59:59Z".into(),
            rounds: first.len() as u32,
            engines: vec![info("A"), info("B")],
            phases: vec![PhaseInfo { name: "r".into(), ..PhaseInfo::default() }],
            results: results.collect(),
            ..ResultFile::default()
        };
        file.summary = summarise(&file);
        file
    }

    #[test]
    fn runs_of_a_page() {
        let runs = runs(PAGE).expect("the page is valid");
        let run = |name: &str, arguments: &str, has_costs| PageRun {
            name: name.into(),
            arguments: arguments.into(),
            has_costs,
        };
        assert_eq!(runs, [run("one", "fillseq --num 5 --rounds 2", false), run("two", "readseq", true)]);
    }

    #[test]
    fn page_without_results_stays() {
        assert_eq!(update(PAGE, &|_| None).as_deref(), Ok(PAGE));
    }

    #[test]
    fn tables_and_losses_are_rewritten() {
        let load = |name: &str| (name == "one").then(|| file(&[1e6, 1e6], &[2.5e6, 2.5e6]));
        let page = update(PAGE, &load).expect("the page is valid");
        for part in [
            "<!-- losses -->\n\n- `one`: r to b (2.50x)\n- `two`: r to b (3.00x)\n\n<!-- end -->",
            "--rounds 2 -->\n\n`terrace bench r`\n\nCommit `abc`, 2026-01-31, 2 rounds, ",
            "| row | A | B |\n|---|---:|---:|\n| r | 1 M | **2.50 M (2.50x)** |\n\n<!-- end -->",
            "-->\nsecond\n<!-- end -->\n",
        ] {
            assert!(page.contains(part), "no {part:?} in\n{page}");
        }
        assert_eq!(update(&page, &load).as_deref(), Ok(page.as_str()), "a second update changes nothing");
    }

    #[test]
    fn costs_of_a_single_round() {
        let page = update(PAGE, &|name| (name == "two").then(|| file(&[1e6], &[1.1e6])));
        let page = page.expect("the page is valid");
        for part in [
            "- `two`: r to b (1.10x, one round)",
            "| r | 1 M | 1.10 M (1.10x ~) |",
            "| r | B | 0 ns | 0 ns | - | - | - |",
        ] {
            assert!(page.contains(part), "no {part:?} in\n{page}");
        }
    }

    #[test]
    fn invalid_markers() {
        for (page, expect) in [
            ("<!-- bench one: x -->", "<!-- bench one: x --> has no <!-- end -->"),
            ("<!-- bench one -->\n<!-- end -->", "<!-- bench one --> has no colon"),
        ] {
            assert_eq!(runs(page).map(|runs| runs.len()), Err(expect.to_owned()));
        }
    }
}
