//! Settings of redis.conf without effect here. Clients can set and read them.

use Form::{Memory, MemoryOrPercent, Number, SavePoints, Text, Words, YesNo};

use super::{memory_value, number, parse_yes_no, yes_no};
use crate::resp::{parse_i64, parse_u64};

/// Form of the values of a setting.
#[derive(Debug, Clone, Copy)]
pub(super) enum Form {
    YesNo,
    /// Integer between two others.
    Number(i64, i64),
    /// Number of bytes between two others, with or without a unit.
    Memory(u64, u64),
    MemoryOrPercent,
    /// One of some words, or several of them.
    Words(&'static [&'static str], bool),
    /// Pairs of seconds and changes.
    SavePoints,
    Text,
}

const I32_MIN: i64 = i32::MIN as i64;
const I32_MAX: i64 = i32::MAX as i64;
/// Maximum of sizes in Redis.
const MAX_SIZE: u64 = i64::MAX as u64;
const SHUTDOWN: &[&str] = &["default", "save", "nosave", "now", "force"];

/// Settings of redis.conf without effect, with the value that they have first, and with the form
/// that Redis 7.0 demands.
pub(super) static WITHOUT_EFFECT: &[(&str, &str, Form)] = &[
    ("acl-pubsub-default", "resetchannels", Words(&["allchannels", "resetchannels"], false)),
    ("acllog-max-len", "128", Number(0, i64::MAX)),
    ("active-defrag-cycle-max", "25", Number(1, 99)),
    ("active-defrag-cycle-min", "1", Number(1, 99)),
    ("active-defrag-ignore-bytes", "104857600", Memory(1, MAX_SIZE)),
    ("active-defrag-max-scan-fields", "1000", Number(1, i64::MAX)),
    ("active-defrag-threshold-lower", "10", Number(0, 1000)),
    ("active-defrag-threshold-upper", "100", Number(0, 1000)),
    ("active-expire-effort", "1", Number(1, 10)),
    ("activedefrag", "no", YesNo),
    ("activerehashing", "yes", YesNo),
    ("always-show-logo", "no", YesNo),
    ("aof-disable-auto-gc", "no", YesNo),
    ("aof-load-truncated", "yes", YesNo),
    ("aof-rewrite-incremental-fsync", "yes", YesNo),
    ("aof-timestamp-enabled", "no", YesNo),
    ("aof-use-rdb-preamble", "yes", YesNo),
    ("appendonly", "yes", YesNo),
    ("auto-aof-rewrite-min-size", "67108864", Memory(0, MAX_SIZE)),
    ("auto-aof-rewrite-percentage", "100", Number(0, I32_MAX)),
    ("client-query-buffer-limit", "268435456", Memory(1048576, MAX_SIZE)),
    ("cluster-enabled", "no", YesNo),
    ("crash-log-enabled", "yes", YesNo),
    ("crash-memcheck-enabled", "yes", YesNo),
    ("dbfilename", "dump.rdb", Text),
    ("disable-thp", "yes", YesNo),
    ("dynamic-hz", "yes", YesNo),
    ("hash-max-listpack-entries", "512", Number(0, i64::MAX)),
    ("hash-max-listpack-value", "64", Memory(0, MAX_SIZE)),
    ("hll-sparse-max-bytes", "3000", Memory(0, MAX_SIZE)),
    ("hz", "10", Number(0, I32_MAX)),
    ("io-threads", "1", Number(1, 128)),
    ("jemalloc-bg-thread", "yes", YesNo),
    ("lazyfree-lazy-eviction", "no", YesNo),
    ("lazyfree-lazy-expire", "no", YesNo),
    ("lazyfree-lazy-server-del", "no", YesNo),
    ("lazyfree-lazy-user-del", "no", YesNo),
    ("lazyfree-lazy-user-flush", "no", YesNo),
    ("lfu-decay-time", "1", Number(0, I32_MAX)),
    ("lfu-log-factor", "10", Number(0, I32_MAX)),
    ("list-compress-depth", "0", Number(0, I32_MAX)),
    ("list-max-listpack-size", "-2", Number(I32_MIN, I32_MAX)),
    ("loglevel", "notice", Words(&["debug", "verbose", "notice", "warning"], false)),
    ("maxmemory", "0", Memory(0, u64::MAX)),
    ("maxmemory-clients", "0", MemoryOrPercent),
    ("maxmemory-eviction-tenacity", "10", Number(0, 100)),
    (
        "maxmemory-policy",
        "noeviction",
        Words(
            &[
                "volatile-lru",
                "volatile-lfu",
                "volatile-random",
                "volatile-ttl",
                "allkeys-lru",
                "allkeys-lfu",
                "allkeys-random",
                "noeviction",
            ],
            false,
        ),
    ),
    ("maxmemory-samples", "5", Number(1, I32_MAX)),
    ("min-replicas-max-lag", "10", Number(0, I32_MAX)),
    ("min-replicas-to-write", "0", Number(0, I32_MAX)),
    ("no-appendfsync-on-rewrite", "no", YesNo),
    ("oom-score-adj", "no", Words(&["no", "yes", "relative", "absolute"], false)),
    ("oom-score-adj-values", "0 200 800", Text),
    ("proc-title-template", "{title} {listen-addr} {server-mode}", Text),
    ("propagation-error-behavior", "ignore", Words(&["ignore", "panic", "panic-on-replicas"], false)),
    ("rdb-del-sync-files", "no", YesNo),
    ("rdb-save-incremental-fsync", "yes", YesNo),
    ("rdbchecksum", "yes", YesNo),
    ("rdbcompression", "yes", YesNo),
    ("repl-backlog-size", "1048576", Memory(1, MAX_SIZE)),
    ("repl-backlog-ttl", "3600", Number(0, i64::MAX)),
    ("repl-disable-tcp-nodelay", "no", YesNo),
    ("repl-diskless-load", "disabled", Words(&["disabled", "on-empty-db", "swapdb"], false)),
    ("repl-diskless-sync", "yes", YesNo),
    ("repl-diskless-sync-delay", "5", Number(0, I32_MAX)),
    ("repl-diskless-sync-max-replicas", "0", Number(0, I32_MAX)),
    ("repl-ping-replica-period", "10", Number(1, I32_MAX)),
    ("repl-timeout", "60", Number(1, I32_MAX)),
    ("replica-announce-ip", "", Text),
    ("replica-announce-port", "0", Number(0, 65535)),
    ("replica-announced", "yes", YesNo),
    ("replica-ignore-disk-write-errors", "no", YesNo),
    ("replica-ignore-maxmemory", "yes", YesNo),
    ("replica-lazy-flush", "no", YesNo),
    ("replica-priority", "100", Number(0, I32_MAX)),
    ("replica-read-only", "yes", YesNo),
    ("replica-serve-stale-data", "yes", YesNo),
    ("sanitize-dump-payload", "no", Words(&["no", "yes", "clients"], false)),
    ("save", "", SavePoints),
    ("set-max-intset-entries", "512", Number(0, i64::MAX)),
    ("set-proc-title", "yes", YesNo),
    ("shutdown-on-sigint", "default", Words(SHUTDOWN, true)),
    ("shutdown-on-sigterm", "default", Words(SHUTDOWN, true)),
    ("shutdown-timeout", "10", Number(0, I32_MAX)),
    ("stop-writes-on-bgsave-error", "yes", YesNo),
    ("stream-node-max-bytes", "4096", Memory(0, MAX_SIZE)),
    ("stream-node-max-entries", "100", Number(0, i64::MAX)),
    ("tcp-keepalive", "300", Number(0, I32_MAX)),
    ("tracking-table-max-keys", "1000000", Number(0, i64::MAX)),
    ("zset-max-listpack-entries", "128", Number(0, i64::MAX)),
    ("zset-max-listpack-value", "64", Memory(0, MAX_SIZE)),
];

/// Older names of settings.
pub(super) static ALIASES: &[(&str, &str)] = &[
    ("hash-max-ziplist-entries", "hash-max-listpack-entries"),
    ("hash-max-ziplist-value", "hash-max-listpack-value"),
    ("list-max-ziplist-size", "list-max-listpack-size"),
    ("min-slaves-max-lag", "min-replicas-max-lag"),
    ("min-slaves-to-write", "min-replicas-to-write"),
    ("repl-ping-slave-period", "repl-ping-replica-period"),
    ("slave-announce-ip", "replica-announce-ip"),
    ("slave-announce-port", "replica-announce-port"),
    ("slave-ignore-maxmemory", "replica-ignore-maxmemory"),
    ("slave-lazy-flush", "replica-lazy-flush"),
    ("slave-priority", "replica-priority"),
    ("slave-read-only", "replica-read-only"),
    ("slave-serve-stale-data", "replica-serve-stale-data"),
    ("zset-max-ziplist-entries", "zset-max-listpack-entries"),
    ("zset-max-ziplist-value", "zset-max-listpack-value"),
];

/// Checks a value of a setting without effect. Returns the value that clients read.
pub(super) fn checked(form: Form, value: &str) -> Result<String, String> {
    match form {
        YesNo => parse_yes_no(value).map(yes_no),
        Number(min, max) => number(value, min, max).map(|number| number.to_string()),
        Memory(min, max) => match memory_value(value).ok_or("argument must be a memory value")? {
            size if (min..=max).contains(&size) => Ok(size.to_string()),
            _ => Err(format!("argument must be between {min} and {max} inclusive")),
        },
        MemoryOrPercent => memory_or_percent(value),
        Words(words, are_several) => chosen_words(words, are_several, value),
        SavePoints => match are_save_points(value) {
            true => Ok(value.to_owned()),
            false => Err("Invalid save parameters".into()),
        },
        Text => Ok(value.to_owned()),
    }
}

fn memory_or_percent(value: &str) -> Result<String, String> {
    const INVALID: &str = "argument must be a memory or percent value";
    match value.strip_suffix('%') {
        Some(percent) => match parse_u64(percent.as_bytes()).ok_or(INVALID)? {
            0..=100 => Ok(value.to_owned()),
            _ => Err("percentage argument must be less or equal to 100".into()),
        },
        None => Ok(memory_value(value).ok_or(INVALID)?.to_string()),
    }
}

/// Returns the words of `value` as they are in `words`, and in the same order.
fn chosen_words(words: &[&str], are_several: bool, value: &str) -> Result<String, String> {
    let given: Vec<&str> = if are_several { value.split(' ').collect() } else { vec![value] };
    if !given.iter().all(|given| has_word(words, given)) {
        return Err(format!("argument(s) must be one of the following: {}", words.join(", ")));
    }
    let chosen: Vec<&str> = words.iter().filter(|word| has_word(&given, word)).copied().collect();
    Ok(chosen.join(" "))
}

fn has_word(words: &[&str], wanted: &str) -> bool {
    words.iter().any(|word| word.eq_ignore_ascii_case(wanted))
}

/// True for pairs of seconds and changes, or for nothing.
fn are_save_points(value: &str) -> bool {
    let numbers: Option<Vec<i64>> = value.split(' ').map(|text| parse_i64(text.as_bytes())).collect();
    value.is_empty()
        || numbers.is_some_and(|numbers| {
            numbers.len() % 2 == 0 && numbers.chunks(2).all(|pair| pair[0] >= 1 && pair[1] >= 0)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_settings_without_effect() {
        for (name, value, expected) in [
            ("maxmemory", "10mb", Ok("10485760")),
            ("maxmemory", "7", Ok("7")),
            ("maxmemory", "-1", Err("argument must be a memory value")),
            ("maxmemory", "bla", Err("argument must be a memory value")),
            ("maxmemory", "9223372036854775807gb", Err("argument must be a memory value")),
            ("maxmemory-clients", "7%", Ok("7%")),
            ("maxmemory-clients", "107%", Err("percentage argument must be less or equal to 100")),
            ("maxmemory-clients", "x", Err("argument must be a memory or percent value")),
            ("appendonly", "NO", Ok("no")),
            ("appendonly", "maybe", Err("argument must be 'yes' or 'no'")),
            ("hz", "1kb", Err("argument couldn't be parsed into an integer")),
            ("hz", "-1", Err("argument must be between 0 and 2147483647 inclusive")),
            ("loglevel", "WARNING", Ok("warning")),
            (
                "loglevel",
                "warning notice",
                Err("argument(s) must be one of the following: debug, verbose, notice, warning"),
            ),
            ("shutdown-on-sigint", "now NOSAVE", Ok("nosave now")),
            ("save", "900 1", Ok("900 1")),
            ("save", "", Ok("")),
            ("save", "900", Err("Invalid save parameters")),
            ("save", "0 1", Err("Invalid save parameters")),
        ] {
            let (_, _, form) = WITHOUT_EFFECT.iter().find(|row| row.0 == name).unwrap();
            let expected = expected.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(checked(*form, value), expected, "{name} {value}");
        }
    }

    #[test]
    fn first_values_are_valid() {
        for (name, initial, form) in WITHOUT_EFFECT {
            assert_eq!(checked(*form, initial), Ok((*initial).to_owned()), "{name}");
        }
    }
}
