//! INFO: the state of the server as text, with the sections and names of Redis.

use std::fmt::Write;
use std::sync::atomic::Ordering;

use terrace_env::ProcessTimes;

use super::connection::REDIS_VERSION;
use super::scan::count_keys;
use super::{Args, Call, all_counted};
use crate::conn::ChannelKind;
use crate::failure::CommandResult;
use crate::store::{Backend, DATABASES};

/// Section of INFO.
struct Section {
    name: &'static str,
    write: fn(&mut Call<'_>, &mut String) -> CommandResult,
}

static SECTIONS: &[Section] = &[
    Section { name: "Server", write: server },
    Section { name: "Clients", write: clients },
    Section { name: "Memory", write: memory },
    Section { name: "Persistence", write: persistence },
    Section { name: "Stats", write: stats },
    Section { name: "Replication", write: replication },
    Section { name: "CPU", write: cpu },
    Section { name: "Commandstats", write: command_stats },
    Section { name: "Errorstats", write: error_stats },
    Section { name: "Latencystats", write: latency_stats },
    Section { name: "Cluster", write: cluster },
    Section { name: "Keyspace", write: keyspace },
    Section { name: "Terrace", write: terrace },
];

/// INFO [section ..]
pub(super) fn info(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let is_all = ["all", "everything"].iter().any(|word| is_named(args, word));
    let is_default = args.len() == 1 || is_named(args, "default");
    let mut text = String::new();
    for section in SECTIONS {
        let is_long = matches!(section.name, "Commandstats" | "Latencystats");
        if !(is_all || (is_default && !is_long) || is_named(args, section.name)) {
            continue;
        }
        if !text.is_empty() {
            text += "\r\n";
        }
        text += &format!("# {}\r\n", section.name);
        (section.write)(call, &mut text)?;
    }
    call.reply.verbatim(&text);
    Ok(())
}

fn is_named(args: Args<'_>, name: &str) -> bool {
    (1..args.len()).any(|index| args.is(index, name))
}

/// Appends the line `name:value`.
fn line(text: &mut String, name: &str, value: impl std::fmt::Display) {
    // Writing to a string succeeds.
    let _ = write!(text, "{name}:{value}\r\n");
}

fn server(call: &mut Call<'_>, text: &mut String) -> CommandResult {
    let shared = call.shared;
    let uptime = shared.clock.monotonic().saturating_sub(shared.started_at).as_secs();
    line(text, "redis_version", REDIS_VERSION);
    // Redis' own suite reads the next one.
    line(text, "redis_git_sha1", "00000000");
    line(text, "terrace_version", env!("CARGO_PKG_VERSION"));
    line(text, "redis_mode", "standalone");
    line(text, "os", std::env::consts::OS);
    line(text, "arch_bits", usize::BITS);
    line(text, "process_id", std::process::id());
    line(text, "run_id", &shared.run_id);
    line(text, "tcp_port", shared.settings.fixed.port);
    line(text, "server_time_usec", shared.clock.wall_us());
    line(text, "uptime_in_seconds", uptime);
    line(text, "uptime_in_days", uptime / 86_400);
    Ok(())
}

fn clients(call: &mut Call<'_>, text: &mut String) -> CommandResult {
    line(text, "connected_clients", call.shared.clients.len());
    line(text, "maxclients", call.shared.settings.max_clients());
    line(text, "blocked_clients", call.shared.blocked.len() + call.shared.pause.waiting());
    Ok(())
}

fn memory(call: &mut Call<'_>, text: &mut String) -> CommandResult {
    // A front end of a shared store has no engine.
    let engine = call.shared.store.db().map_or(0, |db| db.stats().memory.total());
    line(text, "used_memory", engine + call.shared.clients.buffered());
    line(text, "used_memory_engine", engine);
    line(text, "used_memory_clients", call.shared.clients.buffered());
    line(text, "number_of_cached_scripts", call.shared.scripts.cache.lock().len());
    line(text, "maxmemory", 0);
    line(text, "maxmemory_policy", "noeviction");
    Ok(())
}

fn persistence(call: &mut Call<'_>, text: &mut String) -> CommandResult {
    let durability = &call.shared.store.durability;
    line(text, "loading", 0);
    line(text, "rdb_bgsave_in_progress", 0);
    line(text, "rdb_last_bgsave_status", "ok");
    line(text, "rdb_last_save_time", call.shared.last_save.load(Ordering::Relaxed));
    line(text, "aof_enabled", 1);
    line(text, "aof_rewrite_in_progress", 0);
    line(text, "aof_last_write_status", if durability.failure().is_some() { "err" } else { "ok" });
    Ok(())
}

fn stats(call: &mut Call<'_>, text: &mut String) -> CommandResult {
    let shared = call.shared;
    let counters = &shared.counters;
    line(text, "total_connections_received", shared.clients.total());
    line(text, "total_commands_processed", counters.commands());
    line(text, "rejected_connections", counters.rejected_clients.load(Ordering::Relaxed));
    line(text, "total_net_input_bytes", counters.bytes_received.load(Ordering::Relaxed));
    line(text, "total_net_output_bytes", counters.bytes_sent.load(Ordering::Relaxed));
    line(text, "expired_keys", shared.store.expired_keys.load(Ordering::Relaxed));
    line(text, "evicted_keys", 0);
    line(text, "keyspace_hits", counters.hits.load(Ordering::Relaxed));
    line(text, "keyspace_misses", counters.misses.load(Ordering::Relaxed));
    line(text, "pubsub_channels", shared.pubsub.len(ChannelKind::Channel));
    line(text, "pubsub_patterns", shared.pubsub.len(ChannelKind::Pattern));
    line(text, "total_error_replies", counters.errors.load(Ordering::Relaxed));
    Ok(())
}

fn replication(_call: &mut Call<'_>, text: &mut String) -> CommandResult {
    line(text, "role", "master");
    line(text, "connected_slaves", 0);
    line(text, "master_repl_offset", 0);
    Ok(())
}

fn cpu(_call: &mut Call<'_>, text: &mut String) -> CommandResult {
    if let Some(times) = ProcessTimes::current() {
        line(text, "used_cpu_sys", format!("{:.6}", times.system.as_secs_f64()));
        line(text, "used_cpu_user", format!("{:.6}", times.user.as_secs_f64()));
    }
    Ok(())
}

fn command_stats(call: &mut Call<'_>, text: &mut String) -> CommandResult {
    for (name, _, slot) in all_counted() {
        let Some(totals) = call.shared.command_times.totals(slot) else { continue };
        let us = totals.time.as_micros();
        let mean = totals.time.as_secs_f64() * 1e6 / totals.calls().max(1) as f64;
        let value = format!(
            "calls={},usec={us},usec_per_call={mean:.2},rejected_calls={},failed_calls={}",
            totals.calls(),
            totals.rejected,
            totals.failed
        );
        line(text, &format!("cmdstat_{name}"), value);
    }
    Ok(())
}

fn error_stats(call: &mut Call<'_>, text: &mut String) -> CommandResult {
    for (word, count) in call.shared.error_counts.all() {
        line(text, &format!("errorstat_{word}"), format!("count={count}"));
    }
    Ok(())
}

fn latency_stats(call: &mut Call<'_>, text: &mut String) -> CommandResult {
    if !call.shared.latency_percentiles.is_shown() {
        return Ok(());
    }
    let percentiles = call.shared.latency_percentiles.all();
    for (name, _, slot) in all_counted() {
        let Some(totals) = call.shared.command_times.totals(slot) else { continue };
        if totals.calls() > 0 {
            let values = percentiles.iter().map(|percent| {
                let us = totals.durations.percentile(*percent).as_secs_f64() * 1e6;
                format!("p{percent}={us:.3}")
            });
            let value = values.collect::<Vec<String>>().join(",");
            line(text, &format!("latency_percentiles_usec_{name}"), value);
        }
    }
    Ok(())
}

fn cluster(_call: &mut Call<'_>, text: &mut String) -> CommandResult {
    line(text, "cluster_enabled", 0);
    Ok(())
}

fn keyspace(call: &mut Call<'_>, text: &mut String) -> CommandResult {
    let databases = match call.shared.store.layout {
        crate::store::Layout::Raw => 1,
        crate::store::Layout::Typed => DATABASES as u8,
    };
    for database in 0..databases {
        let count = count_keys(call, database)?;
        if count.keys > 0 {
            let value = format!("keys={},expires={},avg_ttl=0", count.keys, count.keys_with_expiry);
            line(text, &format!("db{database}"), value);
        }
    }
    Ok(())
}

fn terrace(call: &mut Call<'_>, text: &mut String) -> CommandResult {
    let store = &call.shared.store;
    line(text, "terrace_layout", store.layout.name());
    line(text, "terrace_read_only", u8::from(store.is_read_only));
    line(text, "terrace_shared_store", u8::from(store.is_shared()));
    let Backend::Database(db) = &store.backend else { return Ok(()) };
    let stats = db.stats();
    line(text, "terrace_last_sequence", stats.last_sequence);
    for (level, row) in stats.levels.iter().enumerate().filter(|(_, row)| row.files > 0) {
        line(
            text,
            &format!("terrace_level{level}"),
            format!("files={},bytes={},runs={}", row.files, row.bytes, row.runs),
        );
    }
    Ok(())
}
