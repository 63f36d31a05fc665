//! Head of the page: the compared engines, then losses, then wins.

use super::report_view::{ReportView, Row};
use super::text::{escape, list, plural};
use crate::report::model::{Ratio, Verdict};
use crate::report::number_format::times;
use crate::report::table;

/// Maximum number of losses that are listed.
const MAX_LISTED_LOSSES: usize = 6;

/// Title for the window and bookmarks.
pub(super) fn title(view: &ReportView<'_>) -> String {
    escape(&match view.base_engine() {
        Some(first) if view.other_engines().is_empty() => format!("{}: {}", first.name(), view.file.suite),
        Some(first) => format!("{} against {}: {}", first.name(), others(view), view.file.suite),
        None => format!("No engine: {}", view.file.suite),
    })
}

/// Head of the page.
pub(super) fn section(view: &ReportView<'_>) -> String {
    let file = view.file;
    let heading = match view.base_engine() {
        Some(first) if view.other_engines().is_empty() => {
            format!("<strong>{}</strong>, alone", escape(first.name()))
        }
        Some(first) => format!("<strong>{}</strong> beside {}", escape(first.name()), escape(&others(view))),
        None => "No engine was available".to_owned(),
    };
    let facts = [
        format!("suite {}", file.suite),
        plural(view.rows.len(), "row", "rows"),
        plural(file.rounds as usize, "round", "rounds"),
        file.machine.cpu.clone(),
        file.started.get(..10).unwrap_or(&file.started).to_owned(),
    ];
    let facts: Vec<String> = facts.iter().filter(|fact| !fact.is_empty()).map(|fact| escape(fact)).collect();
    let verdict = win_loss_summary(view);
    let warning = table::sync_warning(file)
        .map_or_else(String::new, |warning| format!("\n<p class=\"lead missing\">{}</p>", escape(&warning)));
    format!(
        "<h1>{heading}</h1>\n<p class=\"facts\">{}</p>\n<p class=\"lead\">{verdict}</p>{warning}",
        facts.join(" · ")
    )
}

fn others(view: &ReportView<'_>) -> String {
    list(&view.other_engines().iter().map(|engine| engine.name().to_owned()).collect::<Vec<_>>())
}

/// Lists the losses of the first engine, and counts its wins.
fn win_loss_summary(view: &ReportView<'_>) -> String {
    let Some(first) = view.base_engine() else { return "Nothing was measured.".to_owned() };
    let mut lost = Vec::<(f64, String)>::new();
    let mut won = 0;
    let mut noise = 0;
    for engine in view.other_engines() {
        for (row, ratio) in view.ratios_to_base(*engine) {
            match ratio.verdict {
                Verdict::Faster => lost.push((ratio.of_medians, describe_loss(row, engine.name(), ratio))),
                Verdict::Slower => won += 1,
                Verdict::WithinNoise => noise += 1,
            }
        }
    }
    let total = match lost.len() + won + noise {
        0 => return "Nothing was compared.".to_owned(),
        total => plural(total, "comparison", "comparisons"),
    };
    let name = escape(first.name());
    let losses = match lost.len() {
        0 => format!("{name} lost none of {total}."),
        count => format!("{name} lost {count} of {total}: {}.", worst_losses(lost)),
    };
    format!("{losses} It won {won}; {noise} were within the noise.")
}

/// Lists the worst losses first, and counts the rest.
fn worst_losses(mut lost: Vec<(f64, String)>) -> String {
    lost.sort_by(|a, b| b.0.total_cmp(&a.0));
    let more = lost.len().saturating_sub(MAX_LISTED_LOSSES);
    let named = lost.into_iter().take(MAX_LISTED_LOSSES).map(|(_, description)| description);
    list(&named.chain((more > 0).then(|| format!("{more} more"))).collect::<Vec<_>>())
}

fn describe_loss(row: &Row<'_>, winner: &str, ratio: &Ratio) -> String {
    let factor = times(ratio.of_medians);
    format!("<b>{}</b> to {} ({factor})", escape(&row.info.name), escape(winner))
}
