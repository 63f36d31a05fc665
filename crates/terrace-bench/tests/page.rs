//! The page of a run, as text and in a browser.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests: files for a browser; what is not there fails the test"
)]

use std::io::Write;
use std::process::Command;

use terrace_bench::report::html::{page, picture};
use terrace_bench::report::model::{EngineInfo, Latency, PhaseInfo, PhaseResult, Ratio, ResultFile, Verdict};
use terrace_bench::report::summary::summarise;
use terrace_bench::workload::phase_spec::Kind;

/// Six rows, four engines, three rounds; a fifth engine was not available.
fn sample() -> ResultFile {
    serde_json::from_str(include_str!("fixtures/sample.json")).unwrap()
}

fn count(page: &str, part: &str) -> usize {
    page.matches(part).count()
}

/// The page up to the embedded result file.
fn shown(page: &str) -> &str {
    page.split("<script").next().unwrap()
}

#[test]
fn every_row_and_engine() {
    let file = sample();
    let page = page(&file);
    for row in &file.phases {
        assert_eq!(count(&page, &format!("id=\"row-{}\"", row.row)), 1, "{}", row.name);
        assert_eq!(
            count(&page, &format!("<a href=\"#row-{}\">{}</a>", row.row, row.name)),
            2,
            "{}",
            row.name
        );
    }
    for engine in file.engines.iter().filter(|engine| engine.present) {
        // The table of rates, the table of engines, and the figures of each row.
        assert_eq!(count(&page, &format!("</svg>{}</th>", engine.name)), 2 + 6, "{}", engine.name);
    }
}

#[test]
fn picture_has_every_row_and_engine() {
    let file = sample();
    let picture = picture(&file);
    for row in &file.phases {
        assert_eq!(count(&picture, &format!(">{}</text>", row.name)), 1, "{}", row.name);
    }
    for engine in file.engines.iter().filter(|engine| engine.present) {
        assert_eq!(count(&picture, &format!(">{}</text>", engine.name)), 6, "{}", engine.name);
    }
    assert_eq!(count(&picture, "<path class=\"peak e"), 6 * 4);
    assert_eq!(count(&picture, "class=\"hit"), 0, "the picture has pointer regions");
    assert_eq!(count(&picture, "<svg"), count(&picture, "</svg>"));
}

#[test]
fn every_curve() {
    let page = page(&sample());
    for path in ["<path class=\"peak e", "<path class=\"low e", "<path class=\"curve e"] {
        assert_eq!(count(&page, path), 6 * 4, "{path}");
    }
    // Three rows write: write amplification is the fourth block of bars. Panels: three engines, six
    // rows each.
    let costs = (3 * 4 + 3 * 3) * 4;
    let ratios = 3 * 6;
    assert_eq!(count(&page, "<rect class=\"bar "), costs + ratios);
    assert_eq!(count(&page, "<svg viewBox=\"0 0 360 "), 6 * 3 + 3);
    assert_eq!(count(&page, "NaN") + count(&page, "inf\""), 0);
}

#[test]
fn every_figure_has_a_description() {
    let page = page(&sample());
    let figures: Vec<&str> = page.split("<svg viewBox=\"0 0 360 ").skip(1).collect();
    for figure in figures {
        let desc = figure.split_once("<desc ").unwrap().1.split_once('>').unwrap().1;
        assert!(desc.split_once("</desc>").unwrap().0.len() > 20, "{desc}");
    }
}

#[test]
fn figures_for_people() {
    let mut file = sample();
    file.summary[1].median_ops_per_second = Some(411_987.3);
    file.summary[1].spread = Some((399_999.0, 1_250_000.0));
    let ratio = Ratio { of_medians: 0.125, min: 0.1, max: 0.2, verdict: Verdict::Slower };
    file.summary[1].ratio_to_first = Some(ratio);
    let page = page(&file);
    let cell = "<b>412\u{a0}k/s</b><span class=\"spread\">400\u{a0}k to 1.25\u{a0}M</span>\
                <span class=\"ratio slower\">8.00× slower</span>";
    assert_eq!(count(&page, cell), 1);
    assert!(page.contains("fillseq: Terrace / LevelDB = 8.00× (rounds 5.00× to 10.0×)"));
}

#[test]
fn losses_come_first() {
    let mut file = sample();
    for summary in &mut file.summary {
        if let Some(ratio) = &mut summary.ratio_to_first {
            let verdict = if summary.row < 3 { Verdict::Faster } else { Verdict::WithinNoise };
            *ratio = Ratio { of_medians: 1.5 + summary.row as f64, min: 1.0, max: 9.0, verdict };
        }
    }
    let page = page(&file);
    let lead = page.split_once("<p class=\"lead\">").unwrap().1.split_once("</p>").unwrap().0;
    let worst = "Terrace lost 9 of 18 comparisons: <b>fillsync</b> to LevelDB (3.50×), ";
    assert!(lead.starts_with(worst), "{lead}");
    assert!(lead.ends_with("(2.50×) and 3 more. It won 0; 9 were within the noise."), "{lead}");
}

/// Regression: `fillsync` on tmpfs was presented as a measurement of syncs.
#[test]
fn tmpfs_is_reported_in_red() {
    let mut file = sample();
    assert_eq!(count(&page(&file), "lead missing"), 0);
    file.machine.filesystem = "tmpfs".into();
    let warning = "<p class=\"lead missing\">tmpfs keeps files in memory: a sync does nothing, so fillsync means nothing.</p>";
    assert_eq!(count(&page(&file), warning), 1);
    assert!(page(&file).contains(".missing { color: var(--alarm); }"));
}

/// Regression: a compaction against an engine without compaction was a loss by 435, stretched every
/// axis to 1/1000, and was part of the mean.
#[test]
fn compaction_against_an_engine_without_compaction() {
    let mut file = sample();
    file.phases[0].workload.kind = Kind::Compact;
    file.results.retain(|result| result.row != 0 || result.engine != "leveldb");
    file.engines.iter_mut().for_each(|engine| engine.has_compaction = engine.id != "leveldb");
    file.summary = summarise(&file);
    let page = page(&file);
    assert_eq!(count(&page, "has no compaction</span></td>"), 1);
    assert_eq!(count(&page, "not compared"), 1);
    assert_eq!(count(&page, "geometric mean of 5 rows"), 1);
    assert_eq!(count(&page, "of 17 comparisons"), 1);
}

/// Regression: strips of different heights for the same rate stood under one caption.
#[test]
fn strips_say_that_they_have_their_own_scale() {
    let statement = "Each strip has its own height scale";
    assert_eq!(count(shown(&page(&sample())), statement), 6);
    assert_eq!(count(&picture(&sample()), statement), 6);
}

#[test]
fn missing_engine() {
    let page = page(&sample());
    assert!(page.contains("<b>LMDB</b> was not available: liblmdb.so.0 not found: apt-get install liblmdb0"));
}

#[test]
fn failed_phase() {
    let mut file = sample();
    for result in file.results.iter_mut().filter(|result| result.row == 2 && result.engine == "rocksdb") {
        fail(result);
    }
    file.summary.retain(|summary| summary.row != 2 || summary.engine != "rocksdb");
    let page = page(&file);
    assert!(page.contains("<b>RocksDB</b> failed at fillsync, round 3: no space left"));
    assert_eq!(count(&page, "<td class=\"missing\">failed</td>"), 1);
    assert_eq!(count(&page, "<path class=\"curve e"), 6 * 4 - 1);
    assert_eq!(count(&page, "not compared"), 1);
}

fn fail(result: &mut PhaseResult) {
    let PhaseResult { row, engine, round, .. } = result.clone();
    *result = PhaseResult { row, engine, round, error: "no space left".into(), ..PhaseResult::default() };
}

#[test]
fn run_that_ended_early() {
    let mut file = sample();
    file.results.retain(|result| result.row == 0);
    file.summary.clear();
    let page = page(&file);
    assert_eq!(count(&page, "<p class=\"missing\">Nothing was measured.</p>"), 5);
    assert_eq!(count(&page, "<path class=\"curve e"), 4);
    assert!(page.contains("Nothing was compared."));
}

#[test]
fn empty_result_file() {
    let page = page(&ResultFile::default());
    assert!(page.contains("<h1>No engine was available</h1>"));
    assert_eq!(count(&page, "<figure>") + count(&page, "<table"), 0);
}

#[test]
fn not_a_number_shows_no_value() {
    let mut file = sample();
    for result in &mut file.results {
        result.seconds = 0.0;
        result.ops_per_second = f64::NAN;
        result.ops = 0;
        result.latency_ns =
            Latency { histogram: vec![(0, 0), (u64::MAX, u64::MAX), (7, 9)], ..Latency::default() };
        result.windows_100ms = vec![u64::MAX, 0];
        result.cpu_seconds = Some(f64::INFINITY);
        result.write_amplification = Some(f64::NAN);
    }
    for summary in &mut file.summary {
        summary.median_ops_per_second = Some(f64::NAN);
        summary.ratio_to_first =
            Some(Ratio { of_medians: 0.0, min: -1.0, max: f64::INFINITY, ..Ratio::default() });
    }
    let page = page(&file);
    assert_eq!(count(shown(&page), "NaN") + count(shown(&page), "inf"), 0);
}

/// Names that try to leave their element, an attribute, the script, or the template.
const HOSTILE: &str =
    "</script></title><script>alert(1)</script>\"'><img src=x onerror=alert(1)>{{data}}&\u{7}";

fn hostile() -> ResultFile {
    let mut file = sample();
    file.engines.push(EngineInfo {
        id: "x".into(),
        name: HOSTILE.into(),
        note: HOSTILE.into(),
        ..EngineInfo::default()
    });
    for engine in &mut file.engines {
        for text in [&mut engine.name, &mut engine.version, &mut engine.how, &mut engine.note] {
            *text = HOSTILE.into();
        }
        engine.settings.compression = Some(HOSTILE.into());
    }
    file.phases.iter_mut().for_each(|phase| phase.name = HOSTILE.into());
    fail(&mut file.results[0]);
    file.results[0].error = HOSTILE.into();
    let machine = &mut file.machine;
    for text in [&mut machine.cpu, &mut machine.kernel, &mut machine.filesystem, &mut machine.directory] {
        *text = HOSTILE.into();
    }
    for text in
        [&mut file.terrace_commit, &mut file.started, &mut file.suite, &mut file.settings, &mut file.command]
    {
        *text = HOSTILE.into();
    }
    file
}

#[test]
fn hostile_names() {
    let page = page(&hostile());
    assert_eq!((count(&page, "<script"), count(&page, "</script>")), (2, 2), "the result and the page's own");
    assert_eq!(count(&page, "<img"), 0);
    assert_eq!(
        count(shown(&page), "alert(1)"),
        count(shown(&page), "&lt;img src=x onerror=alert(1)&gt;") * 2
    );
    assert_eq!(count(&page, "\u{7}"), 0);
}

/// Result file that is embedded in the page.
fn data(page: &str) -> String {
    let inside = page.split_once("id=\"result\">").unwrap().1;
    inside.split_once("</script>").unwrap().0.to_owned()
}

#[test]
fn page_embeds_result_file() {
    for file in [sample(), hostile()] {
        let back: ResultFile = serde_json::from_str(&data(&page(&file))).unwrap();
        assert!(back == file);
    }
}

#[test]
fn page_loads_no_resources() {
    let page = page(&sample());
    for way in ["http://", "https://", " src=", "url(", "@import", "fetch(", "import("] {
        assert_eq!(count(&page, way), 0, "{way}");
    }
    assert!(page.contains("content=\"default-src 'none';"));
}

/// Ten engines and twenty rows with long names, and a phase of ten minutes.
fn large() -> ResultFile {
    let mut file = sample();
    let mut twins = Vec::new();
    for twin in 1..=6 {
        let name = format!("An engine with a long name {twin}");
        let id = format!("twin-{twin}");
        file.engines.push(EngineInfo { id, name, ..file.engines[1].clone() });
        twins.push(format!("twin-{twin}"));
    }
    for row in 6..20 {
        let name = format!("a-rather-long-name-of-a-row-{row}");
        file.phases.push(PhaseInfo { row, name, ..file.phases[1].clone() });
    }
    for result in file.results.clone().iter().filter(|result| result.engine == "leveldb") {
        let copies = twins.iter().map(|id| PhaseResult { engine: id.clone(), ..result.clone() });
        file.results.extend(copies);
    }
    for result in file.results.clone().iter().filter(|result| result.row == 1) {
        file.results.extend((6..20).map(|row| PhaseResult { row, ..result.clone() }));
    }
    let long = &mut file.results[0];
    long.windows_100ms =
        (0..6000).map(|window| if window % 777 == 0 { 0 } else { 100 + window % 13 }).collect();
    long.seconds = 600.0;
    long.ops = long.windows_100ms.iter().sum();
    file
}

#[test]
fn renders_in_browser() {
    let Some(browser) =
        ["chromium", "chromium-browser", "google-chrome"].into_iter().find(|name| is_installed(name))
    else {
        // Written to standard error directly, because the test harness captures printed text.
        let skipped = b"\nSKIPPED renders_in_browser: Chromium is not installed (apt-get install chromium); the page was not rendered\n";
        std::io::stderr().write_all(skipped).unwrap();
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    for (name, file) in
        [("sample", sample()), ("hostile", hostile()), ("large", large()), ("empty", ResultFile::default())]
    {
        std::fs::write(dir.path().join(name).with_extension("html"), page(&file)).unwrap();
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/browser.sh");
    let output = Command::new("bash").args([script, browser]).arg(dir.path()).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
}

fn is_installed(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}
