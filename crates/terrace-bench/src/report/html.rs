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

mod costs;
mod figures;
mod headline;
mod latency;
mod method;
mod numbers;
mod picture;
mod ratios;
mod rows;
mod scale;
mod svg;
mod table;
mod text;
mod timeline;
mod view;

use super::model::ResultFile;
pub use picture::picture;
use view::View;

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
/// Of figures, wherever they stand: the colours, and what is drawn in them.
const FIGURES: &str = include_str!("figures.css");
const SCRIPT: &str = include_str!("page.js");

/// The whole page.
///
/// Whatever `file` lacks is missing on the page too, or said to be missing; no figure is made up.
pub fn page(file: &ResultFile) -> String {
    let view = View::new(file);
    text::fill(
        PAGE,
        &[
            ("title", &headline::title(&view)),
            ("style", &[FIGURES, STYLE].concat()),
            ("headline", &headline::section(&view)),
            ("ratios", &ratios::section(&view)),
            ("table", &table::section(&view)),
            ("rows", &rows::section(&view)),
            ("absent", &method::absent(&view)),
            ("method", &method::section(&view)),
            ("repeat", &method::repeat(&view)),
            ("data", &text::json(file)),
            ("script", SCRIPT),
        ],
    )
}
