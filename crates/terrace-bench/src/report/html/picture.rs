//! Throughput over time of all rows as one SVG file, for documents that show pictures only.

use std::fmt::Write;

use super::report_view::ReportView;
use super::svg::WIDTH;
use super::text::escape;
use super::{FIGURE_STYLE, timeline};
use crate::report::model::ResultFile;

const MARGIN: f64 = 16.0;
/// Height of the name above each figure.
const HEAD: f64 = 22.0;

/// Renders the picture. Rows without measurements are omitted.
pub fn picture(file: &ResultFile) -> String {
    let view = ReportView::new(file);
    let mut rows = String::new();
    let mut bottom = MARGIN;
    for row in &view.rows {
        let Some((figure, height)) = timeline::picture(row) else { continue };
        let name = escape(&row.info.name);
        let text = bottom + 12.0;
        let top = bottom + HEAD;
        // Writing to a `String` never fails.
        let _ = writeln!(rows, r#"<text class="name" x="{MARGIN}" y="{text}">{name}</text>"#);
        let _ =
            writeln!(rows, r#"<svg x="{MARGIN}" y="{top}" width="{WIDTH}" height="{height}">{figure}</svg>"#);
        bottom = top + height + MARGIN;
    }
    let width = WIDTH + 2.0 * MARGIN;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {bottom}\">\n<style>\n{FIGURE_STYLE}\
         text {{ font-family: -apple-system, \"Segoe UI\", Roboto, \"Helvetica Neue\", Arial, sans-serif; }}\n</style>\n\
         <rect width=\"100%\" height=\"100%\" style=\"fill: var(--card)\"/>\n{rows}</svg>\n"
    )
}
