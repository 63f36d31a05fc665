//! Table of all rows and engines: the median rate, the spread of the rounds, and the ratio to the
//! first engine.

use super::report_view::{Cell, Engine, ReportView, Row};
use super::svg::icon;
use super::text::escape;
use crate::report::model::{Ratio, Verdict};
use crate::report::number_format::{NO_VALUE, or_none, rate, short, times};
use crate::workload::phase_spec::Kind;

/// The table; empty without rows or engines.
pub(super) fn section(view: &ReportView<'_>) -> String {
    if view.rows.is_empty() || view.engines.is_empty() {
        return String::new();
    }
    let heads: String = view.engines.iter().map(head).collect();
    let rows: String = view.rows.iter().map(row).collect();
    format!(
        "<section id=\"table\"><h2>Operations per second</h2>\n<p>Medians; below them the slowest and the fastest round, \
         and the ratio of the median to that of the first engine. A difference within the spread is reported as noise.</p>\n\
         <div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Operations per second\"><table class=\"rates\"><thead><tr><th scope=\"col\">Row</th>{heads}</tr></thead>\n\
         <tbody>{rows}</tbody></table></div></section>"
    )
}

fn head(engine: &Engine<'_>) -> String {
    format!("<th scope=\"col\">{}{}</th>", icon(engine.style), escape(engine.name()))
}

fn row(row: &Row<'_>) -> String {
    let cells: String = row.cells.iter().map(|cell| table_cell(row, cell)).collect();
    let id = row.info.row;
    let name = escape(&row.info.name);
    format!("<tr><th scope=\"row\"><a href=\"#row-{id}\">{name}</a></th>{cells}</tr>\n")
}

fn table_cell(row: &Row<'_>, cell: &Cell<'_>) -> String {
    let Some(median) = cell.rate() else { return missing(row, cell) };
    let spread = cell.summary.and_then(|summary| summary.spread);
    let spread = spread.map_or_else(String::new, |(least, most)| {
        format!("<span class=\"spread\">{} to {}</span>", short(least), short(most))
    });
    let ratio = cell.ratio().map_or_else(String::new, ratio);
    format!("<td><b>{}</b>{spread}{ratio}</td>", or_none(Some(median), rate))
}

fn missing(row: &Row<'_>, cell: &Cell<'_>) -> String {
    let kind = row.info.workload.kind;
    match cell.failed.is_empty() {
        false => "<td class=\"missing\">failed</td>".to_owned(),
        true if !cell.engine.info.takes_part_in(kind) => {
            let lacks = if kind == Kind::Compact { "compaction" } else { "transactions" };
            format!("<td><span class=\"spread\">has no {lacks}</span></td>")
        }
        true => format!("<td class=\"missing\">{NO_VALUE}</td>"),
    }
}

fn ratio(ratio: &Ratio) -> String {
    let (class, words) = match ratio.verdict {
        Verdict::Faster => ("faster", format!("{} faster", times(ratio.of_medians))),
        Verdict::Slower => ("slower", format!("{} slower", times(1.0 / ratio.of_medians))),
        Verdict::WithinNoise => ("noise", "within noise".to_owned()),
    };
    format!("<span class=\"ratio {class}\">{words}</span>")
}
