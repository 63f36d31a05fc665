//! Conditions of the run: missing engines, failures, machine, rules, settings, and the command that
//! repeats the run.

use super::report_view::ReportView;
use super::text::{escape, plural};
use crate::report::model::{EngineInfo, Settings};
use crate::report::number_format::{bytes, count, times};

/// Engines that were not available, and phases that failed; empty if there are none.
pub(super) fn missing_and_failed(view: &ReportView<'_>) -> String {
    let engines = view.file.engines.iter().filter(|engine| !engine.present).map(missing_engine);
    let failures = view.rows.iter().flat_map(|row| {
        let of_row = row.cells.iter().flat_map(|cell| cell.failed.iter().map(move |failed| (cell, failed)));
        of_row.map(|(cell, failed)| {
            let engine = escape(cell.engine.name());
            let row = escape(&row.info.name);
            format!(
                "<li><b>{engine}</b> failed at {row}, round {}: {}</li>",
                failed.round + 1,
                escape(&failed.error)
            )
        })
    });
    let items: String = engines.chain(failures).collect();
    if items.is_empty() {
        return String::new();
    }
    format!("<section id=\"absent\"><h2>Not available or failed</h2>\n<ul>{items}</ul></section>")
}

fn missing_engine(engine: &EngineInfo) -> String {
    let name = if engine.name.is_empty() { &engine.id } else { &engine.name };
    let note = if engine.note.is_empty() { "no reason given" } else { &engine.note };
    format!("<li><b>{}</b> was not available: {}</li>", escape(name), escape(note))
}

/// Machine, rules and engines.
pub(super) fn section(view: &ReportView<'_>) -> String {
    format!(
        "<section id=\"method\"><h2>Machine and method</h2>\n<div class=\"columns\"><dl>{}</dl><ul>{}</ul></div>\n{}</section>",
        machine(view),
        rules(view),
        engines(view)
    )
}

fn machine(view: &ReportView<'_>) -> String {
    let file = view.file;
    let machine = &file.machine;
    let facts = [
        ("Processor", machine.cpu.clone()),
        ("Cores", if machine.cores == 0 { String::new() } else { machine.cores.to_string() }),
        (
            "Memory",
            if machine.memory_bytes == 0 { String::new() } else { bytes(machine.memory_bytes as f64) },
        ),
        ("System", machine.kernel.clone()),
        ("File system", machine.filesystem.clone()),
        ("Directory", machine.directory.clone()),
        ("Started", file.started.replace('T', " ").replace('Z', " UTC")),
        ("Terrace", file.terrace_commit.clone()),
    ];
    let known = facts.iter().filter(|(_, fact)| !fact.is_empty());
    known.map(|(name, fact)| format!("<dt>{name}</dt><dd>{}</dd>", escape(fact))).collect()
}

fn rules(view: &ReportView<'_>) -> String {
    let file = view.file;
    let settings = match file.settings.as_str() {
        "same" => "The same settings for every engine.".to_owned(),
        "defaults" => "Every engine with its own defaults.".to_owned(),
        other => format!("Settings: {}.", escape(other)),
    };
    let checked: u64 = file.results.iter().map(|result| result.checked).fold(0, u64::saturating_add);
    let is_timed = file.phases.iter().any(|phase| phase.workload.is_timed());
    let share = if is_timed { ", in rows with a time limit as many as it managed" } else { "" };
    let rules = [
        format!(
            "{}; in each, the engines run one after the other, each in a new process and an empty directory.",
            plural(file.rounds as usize, "round", "rounds")
        ),
        format!("Sizes are {} the sizes of the suite.", times(file.scale)),
        settings,
        format!("{} values read were compared with the expected values.", count(checked)),
        format!(
            "Keys and values follow from fixed seeds: every engine executed the same operations in the same \
             order{share}. Reads find the same entries in every engine."
        ),
        "A latency counts from the end of the previous operation, so pauses between calls are included.".to_owned(),
        "A ratio divides two median rates. A difference within the spread of the rounds is reported as noise."
            .to_owned(),
    ];
    rules.iter().map(|rule| format!("<li>{rule}</li>")).collect()
}

fn engines(view: &ReportView<'_>) -> String {
    let lines: String = view.engines.iter().map(|engine| engine_line(engine.info, engine.style)).collect();
    if lines.is_empty() {
        return String::new();
    }
    format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Engines\"><table class=\"engines\"><thead><tr><th scope=\"col\">Engine</th><th scope=\"col\">Version</th>\
         <th scope=\"col\">Called by</th><th scope=\"col\">Settings</th><th scope=\"col\">Differences from other engines, and from the engine as its users run it</th></tr></thead><tbody>{lines}</tbody></table></div>"
    )
}

fn engine_line(engine: &EngineInfo, style: usize) -> String {
    let name = if engine.name.is_empty() { &engine.id } else { &engine.name };
    let cells = [&engine.version, &engine.how, &settings_text(&engine.settings), &engine.note];
    let cells: String = cells.iter().map(|cell| format!("<td>{}</td>", escape(cell))).collect();
    format!("<tr><th scope=\"row\">{}{}</th>{cells}</tr>", super::svg::icon(style), escape(name))
}

fn settings_text(settings: &Settings) -> String {
    let parts = [
        settings.write_buffer_bytes.map(|size| format!("write buffer {}", bytes(size as f64))),
        settings.cache_bytes.map(|size| format!("cache {}", bytes(size as f64))),
        settings
            .filter_bits
            .map(|bits| if bits == 0 { "no filter".into() } else { format!("filter of {bits} bits") }),
        settings.compression.clone(),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { "its defaults".to_owned() } else { parts.join(", ") }
}

/// The command, and the button that saves the result file.
pub(super) fn reproduce(view: &ReportView<'_>) -> String {
    if view.file.command.is_empty() {
        return String::new();
    }
    format!(
        "<section id=\"repeat\"><h2>Repeat this run</h2>\n<pre><code>{}</code></pre>\n<p id=\"save\">The result file is inside \
         this page, in the element <code>result</code>.</p></section>",
        escape(&view.file.command)
    )
}
