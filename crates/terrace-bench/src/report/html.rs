//! The page: a run as one HTML file that needs no network.
//!
//! ```text
//!   headline     losses first, then wins
//!   ratios       one panel for each other engine: a bar for each row, 1x in the middle
//!   table        every row and engine, in numbers
//!   row by row   throughput over time, latencies, costs; then the same in numbers
//!   absent       engines that were not available, phases that failed
//!   method       the machine, the rules, the engines and their settings
//!   repeat       the command; the result file itself is embedded in the page
//! ```
//!
//! Throughput over time is also available as a separate picture, for documents.
//!
//! The figures are rendered here as SVG, so that the page prints and needs no script. The script
//! adds the tooltips, the selection of one row, and the button that saves the result file.
//!
//! Names come from command lines and libraries: every text is escaped by `text::escape`, the JSON
//! by `text::json`, and the page's content security policy forbids it to load anything.

mod headline;
mod latency;
mod log_axis;
mod method;
mod picture;
mod ratios;
mod report_view;
mod resource_costs;
mod row_table;
mod rows;
mod summary_table;
mod svg;
mod text;
mod timeline;

use super::model::ResultFile;
pub use picture::picture;
use report_view::ReportView;

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
/// Style of the figures, on the page and in the picture: colours and shapes.
const FIGURE_STYLE: &str = include_str!("figures.css");
const SCRIPT: &str = include_str!("page.js");

/// Renders the page.
///
/// A value that `file` lacks is omitted or marked as missing.
pub fn page(file: &ResultFile) -> String {
    let view = ReportView::new(file);
    text::fill(
        PAGE,
        &[
            ("title", &headline::title(&view)),
            ("style", &[FIGURE_STYLE, STYLE].concat()),
            ("headline", &headline::section(&view)),
            ("ratios", &ratios::section(&view)),
            ("table", &summary_table::section(&view)),
            ("rows", &rows::section(&view)),
            ("absent", &method::missing_and_failed(&view)),
            ("method", &method::section(&view)),
            ("repeat", &method::reproduce(&view)),
            ("data", &text::json(file)),
            ("script", SCRIPT),
        ],
    )
}
