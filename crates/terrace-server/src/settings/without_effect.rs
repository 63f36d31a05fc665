//! Settings of redis.conf without effect here. Clients can set and read them.

use super::{parse_memory, parse_yes_no, yes_no};
use crate::resp::{parse_i64, parse_u64};

/// Settings of redis.conf without effect, with the value that they have first.
pub(super) static WITHOUT_EFFECT: &[(&str, &str)] = &[
    ("acl-pubsub-default", "resetchannels"),
    ("acllog-max-len", "128"),
    ("active-defrag-cycle-max", "25"),
    ("active-defrag-cycle-min", "1"),
    ("active-defrag-ignore-bytes", "104857600"),
    ("active-defrag-max-scan-fields", "1000"),
    ("active-defrag-threshold-lower", "10"),
    ("active-defrag-threshold-upper", "100"),
    ("active-expire-effort", "1"),
    ("activedefrag", "no"),
    ("activerehashing", "yes"),
    ("always-show-logo", "no"),
    ("aof-disable-auto-gc", "no"),
    ("aof-load-truncated", "yes"),
    ("aof-rewrite-incremental-fsync", "yes"),
    ("aof-timestamp-enabled", "no"),
    ("aof-use-rdb-preamble", "yes"),
    ("appendonly", "yes"),
    ("auto-aof-rewrite-min-size", "67108864"),
    ("auto-aof-rewrite-percentage", "100"),
    ("client-query-buffer-limit", "268435456"),
    ("cluster-enabled", "no"),
    ("crash-log-enabled", "yes"),
    ("crash-memcheck-enabled", "yes"),
    ("dbfilename", "dump.rdb"),
    ("disable-thp", "yes"),
    ("dynamic-hz", "yes"),
    ("hash-max-listpack-entries", "512"),
    ("hash-max-listpack-value", "64"),
    ("hll-sparse-max-bytes", "3000"),
    ("hz", "10"),
    ("io-threads", "1"),
    ("jemalloc-bg-thread", "yes"),
    ("lazyfree-lazy-eviction", "no"),
    ("lazyfree-lazy-expire", "no"),
    ("lazyfree-lazy-server-del", "no"),
    ("lazyfree-lazy-user-del", "no"),
    ("lazyfree-lazy-user-flush", "no"),
    ("lfu-decay-time", "1"),
    ("lfu-log-factor", "10"),
    ("list-compress-depth", "0"),
    ("list-max-listpack-size", "-2"),
    ("loglevel", "notice"),
    ("maxmemory", "0"),
    ("maxmemory-clients", "0"),
    ("maxmemory-eviction-tenacity", "10"),
    ("maxmemory-policy", "noeviction"),
    ("maxmemory-samples", "5"),
    ("min-replicas-max-lag", "10"),
    ("min-replicas-to-write", "0"),
    ("no-appendfsync-on-rewrite", "no"),
    ("oom-score-adj", "no"),
    ("oom-score-adj-values", "0 200 800"),
    ("proc-title-template", "{title} {listen-addr} {server-mode}"),
    ("propagation-error-behavior", "ignore"),
    ("rdb-del-sync-files", "no"),
    ("rdb-save-incremental-fsync", "yes"),
    ("rdbchecksum", "yes"),
    ("rdbcompression", "yes"),
    ("repl-backlog-size", "1048576"),
    ("repl-backlog-ttl", "3600"),
    ("repl-disable-tcp-nodelay", "no"),
    ("repl-diskless-load", "disabled"),
    ("repl-diskless-sync", "yes"),
    ("repl-diskless-sync-delay", "5"),
    ("repl-diskless-sync-max-replicas", "0"),
    ("repl-ping-replica-period", "10"),
    ("repl-timeout", "60"),
    ("replica-announce-ip", ""),
    ("replica-announce-port", "0"),
    ("replica-announced", "yes"),
    ("replica-ignore-disk-write-errors", "no"),
    ("replica-ignore-maxmemory", "yes"),
    ("replica-lazy-flush", "no"),
    ("replica-priority", "100"),
    ("replica-read-only", "yes"),
    ("replica-serve-stale-data", "yes"),
    ("sanitize-dump-payload", "no"),
    ("save", ""),
    ("set-max-intset-entries", "512"),
    ("set-proc-title", "yes"),
    ("shutdown-on-sigint", "default"),
    ("shutdown-on-sigterm", "default"),
    ("shutdown-timeout", "10"),
    ("stop-writes-on-bgsave-error", "yes"),
    ("stream-node-max-bytes", "4096"),
    ("stream-node-max-entries", "100"),
    ("tcp-keepalive", "300"),
    ("tracking-table-max-keys", "1000000"),
    ("zset-max-listpack-entries", "128"),
    ("zset-max-listpack-value", "64"),
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

/// Checks a value of a setting without effect, whose kind its `initial` value shows. Returns the
/// value that clients read.
pub(super) fn checked(name: &str, initial: &str, value: &str) -> Result<String, String> {
    /// Settings with further words, or with values of another form.
    const WORDS: &[&str] = &["oom-score-adj", "sanitize-dump-payload"];
    match initial {
        _ if WORDS.contains(&name) => Ok(value.to_owned()),
        _ if name == "maxmemory-clients" && value.ends_with('%') => {
            let percent = parse_u64(value.trim_end_matches('%').as_bytes()).filter(|percent| *percent <= 100);
            percent.map(|_| value.to_owned()).ok_or("percentage argument must be less or equal to 100".into())
        }
        "yes" | "no" => parse_yes_no(value).map(yes_no),
        initial if parse_i64(initial.as_bytes()).is_some() => {
            let number = parse_memory(value).ok_or("argument couldn't be parsed into an integer")?;
            Ok(number.to_string())
        }
        _ => Ok(value.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_settings_without_effect() {
        for (name, initial, value, expected) in [
            ("maxmemory", "0", "10mb", Ok("10485760")),
            ("maxmemory", "0", "7", Ok("7")),
            ("maxmemory", "0", "bla", Err("argument couldn't be parsed into an integer")),
            ("maxmemory", "0", "9223372036854775807gb", Err("argument couldn't be parsed into an integer")),
            ("appendonly", "yes", "NO", Ok("no")),
            ("appendonly", "yes", "maybe", Err("argument must be 'yes' or 'no'")),
            ("save", "", "900 1", Ok("900 1")),
        ] {
            let expected = expected.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(checked(name, initial, value), expected, "{name} {value}");
        }
    }
}
