//! Row by row: the workload, the figures, the numbers.

use super::report_view::{ReportView, Row};
use super::text::{escape, plural};
use super::{latency, resource_costs, row_table, timeline};
use crate::report::number_format::{bytes, count};
use crate::workload::phase_spec::{Kind, Order, PhaseSpec};

/// All rows with their figures; empty without rows.
pub(super) fn section(view: &ReportView<'_>) -> String {
    if view.rows.is_empty() || view.engines.is_empty() {
        return String::new();
    }
    let links: String = view.rows.iter().map(link).collect();
    let cards: String = view.rows.iter().map(card).collect();
    format!(
        "<section id=\"rows\"><h2>Row by row</h2>\n<p><b>Over time:</b> operations in each 100 ms of the median round; \
         a strip is as high as its own fastest window, the dashes are its mean, and a mark below means less \
         than a tenth of the mean. <b>Latencies:</b> all rounds together, including the pause before each \
         call. Both axes are logarithmic. <b>Costs:</b> medians; shorter is better.</p>\n\
         <nav aria-label=\"Rows\"><a href=\"#rows\" aria-current=\"true\">All</a>{links}</nav>\n{cards}</section>"
    )
}

fn link(row: &Row<'_>) -> String {
    format!("<a href=\"#row-{}\">{}</a>", row.info.row, escape(&row.info.name))
}

fn card(row: &Row<'_>) -> String {
    let pictures = [
        ("Throughput over time", timeline::figure(row)),
        ("Latencies", latency::figure(row)),
        ("Costs", resource_costs::figure(row)),
    ];
    let pictures: String = pictures
        .into_iter()
        .filter_map(|(name, figure)| {
            Some(format!("<figure><figcaption>{name}</figcaption>{}</figure>", figure?))
        })
        .collect();
    let pictures = if pictures.is_empty() {
        "<p class=\"missing\">Nothing was measured.</p>".to_owned()
    } else {
        pictures
    };
    let id = row.info.row;
    let name = escape(&row.info.name);
    let work = escape(&describe(&row.info.workload));
    let figures = row_table::table(row);
    format!(
        "<article class=\"row\" id=\"row-{id}\"><h3>{name} <span class=\"work\">{work}</span></h3>\n\
         <div class=\"grid\">{pictures}</div>\n{figures}</article>\n"
    )
}

/// Describes a workload in one line.
fn describe(work: &PhaseSpec) -> String {
    let operations = plural_of(work.num, operation(work.kind));
    let mut parts = vec![format!("{operations}{}", order(work))];
    if !matches!(work.kind, Kind::Open | Kind::Compact) {
        parts.push(format!("{} B keys, {} B values", work.key_size, work.value_size));
    }
    if work.batch > 1 {
        parts.push(format!("{} in a batch", count(work.batch)));
    }
    if work.sync {
        parts.push("synced".to_owned());
    }
    if work.threads != 1 {
        parts.push(plural(work.threads as usize, "thread", "threads"));
    }
    if work.writers > 0 {
        let rate = match work.write_rate {
            0 => String::new(),
            rate => format!(" of {} puts/s", count(rate)),
        };
        parts.push(format!("beside {}{rate}", plural(work.writers as usize, "writer", "writers")));
    }
    match (work.duration_min_s, work.duration_limit_s) {
        (0, 0) => {}
        (0, limit) => parts.push(format!("at most {limit} s")),
        (min, limit) if min == limit => parts.push(format!("for {min} s")),
        (min, _) => parts.push(format!("at least {min} s")),
    }
    if let Some(cache) = work.cache_bytes {
        parts.push(format!("cache of {}", bytes(cache as f64)));
    }
    parts.join(", ")
}

fn operation(kind: Kind) -> (&'static str, &'static str) {
    match kind {
        Kind::Put => ("put", "puts"),
        Kind::Get => ("get", "gets"),
        Kind::Delete => ("delete", "deletes"),
        Kind::Scan => ("entry visited", "entries visited"),
        Kind::Seek => ("seek", "seeks"),
        Kind::Open => ("open", "opens"),
        Kind::Compact => ("compaction", "compactions"),
        Kind::Mixed => ("operation", "operations"),
        Kind::Load => ("entry loaded", "entries loaded"),
        Kind::Checkpoint => ("checkpoint", "checkpoints"),
        Kind::Follow => ("get through a follower", "gets through a follower"),
        Kind::FollowReplay => ("put read by a follower", "puts read by a follower"),
        Kind::FollowAge => ("age of a read", "ages of reads"),
        Kind::TxnPut | Kind::TxnReadModifyWrite | Kind::TxnScan => ("transaction", "transactions"),
    }
}

fn plural_of(n: u64, (one, many): (&str, &str)) -> String {
    format!("{} {}", count(n), if n == 1 { one } else { many })
}

fn order(work: &PhaseSpec) -> &'static str {
    if matches!(work.kind, Kind::Open | Kind::Compact | Kind::Checkpoint | Kind::FollowAge) {
        return "";
    }
    match work.order {
        Order::Seq => " in order",
        Order::Reverse => " in reverse order",
        Order::Random => " at random",
        Order::Hot => " of the hottest 1 %",
        Order::Missing => " of missing keys",
        Order::Zipf => " by Zipf",
        Order::Latest => ", latest first",
    }
}
