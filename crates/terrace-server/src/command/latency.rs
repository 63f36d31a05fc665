//! LATENCY: events over a threshold, and histograms of commands.

use std::time::Duration;

use super::subcommand::{Subcommand, dispatch};
use super::table::all_counted;
use super::{Args, Call};
use crate::failure::{CommandResult, Failure};
use crate::metrics::LatencySample;

/// LATENCY subcommand
pub(super) fn latency(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    dispatch(call, args, "latency", LATENCY)
}

pub(super) static LATENCY: &[Subcommand] = &[
    Subcommand { name: "doctor", arity: 2, run: doctor },
    Subcommand { name: "graph", arity: 3, run: graph },
    Subcommand { name: "histogram", arity: -2, run: histogram },
    Subcommand { name: "history", arity: 3, run: history },
    Subcommand { name: "latest", arity: 2, run: latest },
    Subcommand { name: "reset", arity: -2, run: reset },
];

fn latest(call: &mut Call<'_>, _args: Args<'_>) -> CommandResult {
    let events = call.shared.latency_events.latest();
    call.reply.array(events.len());
    for (name, last, max_ms) in events {
        call.reply.array(4);
        call.reply.bulk(name);
        for number in [last.at, last.ms, max_ms] {
            call.reply.integer(number as i64);
        }
    }
    Ok(())
}

fn history(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let samples = call.shared.latency_events.history(args.at(2));
    call.reply.array(samples.len());
    for LatencySample { at, ms } in samples {
        call.reply.array(2);
        call.reply.integer(at as i64);
        call.reply.integer(ms as i64);
    }
    Ok(())
}

fn reset(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let count = call
        .shared
        .latency_events
        .reset(|name| args.len() == 2 || (2..args.len()).any(|index| args.is(index, name)));
    call.reply.count(count);
    Ok(())
}

/// Report for people.
fn doctor(call: &mut Call<'_>, _args: Args<'_>) -> CommandResult {
    let events = &call.shared.latency_events;
    let mut text = String::new();
    if events.threshold_ms() == 0 {
        text += "The latency monitor is off. CONFIG SET latency-monitor-threshold <milliseconds> switches it on.\n";
    } else if events.latest().is_empty() {
        text += &format!("No event of {} ms or more was observed.\n", events.threshold_ms());
    }
    for (name, last, max_ms) in events.latest() {
        let samples = events.history(name.as_bytes());
        let mean = samples.iter().map(|sample| sample.ms).sum::<u64>() / samples.len().max(1) as u64;
        text += &format!(
            "{name}: {} samples, mean {mean} ms, maximum {max_ms} ms, last {} ms\n",
            samples.len(),
            last.ms
        );
    }
    call.reply.verbatim(&text);
    Ok(())
}

/// Bars of the samples, one line for each.
fn graph(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    /// Length of the longest bar.
    const WIDTH: u64 = 60;
    let samples = call.shared.latency_events.history(args.at(2));
    if samples.is_empty() {
        let event = String::from_utf8_lossy(args.at(2));
        return Err(Failure::reply(format!("ERR No samples available for event '{event}'")));
    }
    let max_ms = samples.iter().map(|sample| sample.ms).max().unwrap_or_default().max(1);
    let now = call.shared.clock.wall_us() / 1_000_000;
    let mut text =
        format!("{} - high {max_ms} ms\n", String::from_utf8_lossy(args.at(2)).to_ascii_lowercase());
    for LatencySample { at, ms } in samples {
        let bar = "#".repeat((ms * WIDTH / max_ms) as usize);
        text += &format!("{:>6} s ago {ms:>8} ms {bar}\n", now.saturating_sub(at));
    }
    call.reply.verbatim(&text);
    Ok(())
}

/// LATENCY HISTOGRAM [command ..]
fn histogram(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let wanted = all_counted().filter(|(name, command, _)| {
        args.len() == 2 || (2..args.len()).any(|index| args.is(index, name) || args.is(index, command.name))
    });
    let used = wanted.filter_map(|(name, _, slot)| {
        let totals = call.shared.command_times.totals(slot)?;
        (totals.calls() > 0).then_some((name, totals))
    });
    let used: Vec<_> = used.collect();
    call.reply.map(used.len());
    for (name, totals) in used {
        call.reply.bulk(name);
        call.reply.map(2);
        call.reply.bulk("calls");
        call.reply.integer(totals.calls() as i64);
        call.reply.bulk("histogram_usec");
        let rows = histogram_rows(|limit| totals.durations.count_until(limit));
        call.reply.map(rows.len());
        for (us, count) in rows {
            call.reply.integer(us as i64);
            call.reply.integer(count as i64);
        }
    }
    Ok(())
}

/// Rows of powers of two of microseconds, and the number of durations up to each. Rows without
/// further durations are left out.
fn histogram_rows(count_until: impl Fn(Duration) -> u64) -> Vec<(u64, u64)> {
    let mut rows = Vec::new();
    let mut before = 0;
    for log2 in 0..31 {
        let count = count_until(Duration::from_nanos(1024 << log2));
        if count > before {
            rows.push(((1024 << log2) / 1000, count));
        }
        before = count;
    }
    rows
}
