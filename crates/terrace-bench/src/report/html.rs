//! The page: a run as one file that a browser shows without a network.
//!
//! ```text
//!   headline     who lost what first, then who won
//!   ratios       one panel for each other engine: a bar for each row, 1x in the middle
//!   table        every row and engine, in figures
//!   row by row   throughput over time, latencies, costs; then the same in figures
//!   absent       engines that were not there, phases that failed
//!   method       the machine, the rules, the engines and what they were told
//!   repeat       the command; the result file itself travels inside the page
//! ```
//!
//! Throughput over time also comes as a picture of its own, for documents.
//!
//! Figures are drawn here, as SVG, so that the page prints and needs no script. The script adds a hairline's text
//! beside the pointer, the choice of one row, and the button that saves the result file.
//!
//! Names come from command lines and libraries: every text goes through `text::escape`, the JSON through
//! `text::json`, and the page's own policy forbids it to load anything.

mod headline;
mod latency;
mod log_axis;
mod method;
mod number_format;
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
/// Of figures, wherever they stand: the colours, and what is drawn in them.
const FIGURE_STYLE: &str = include_str!("figures.css");
const SCRIPT: &str = include_str!("page.js");

/// The whole page.
///
/// Whatever `file` lacks is missing on the page too, or said to be missing; no figure is made up.
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
