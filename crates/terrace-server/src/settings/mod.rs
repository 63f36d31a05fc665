//! Settings that clients can read, and some of them change: CONFIG GET and CONFIG SET.
//!
//! A setting is one row of [`SETTINGS`]. The settings of redis.conf that have no effect here are
//! rows of [`WITHOUT_EFFECT`]: clients can set and read them, because clients and test suites do.

mod without_effect;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use terrace_sync::native_locks::Mutex;
use without_effect::{ALIASES, WITHOUT_EFFECT, checked};

use crate::resp::{Limits, parse_i64, parse_u64};
use crate::shared::Shared;
use crate::store::{DATABASES, SyncMode};

/// Values that can change while the server runs.
#[derive(Debug)]
pub(crate) struct Settings {
    password: Mutex<Option<Arc<[u8]>>>,
    max_clients: AtomicUsize,
    /// Seconds after which an idle connection ends, or 0 for no limit.
    idle_timeout: AtomicU64,
    /// Values of the settings without effect that a client has changed.
    without_effect: Mutex<BTreeMap<&'static str, String>>,
    /// Values that are fixed at the start.
    pub(crate) fixed: FixedSettings,
}

/// Values that are fixed at the start.
#[derive(Debug, Clone, Default)]
pub(crate) struct FixedSettings {
    pub(crate) port: u16,
    pub(crate) bind: String,
    pub(crate) unix_socket: String,
    pub(crate) dir: String,
    /// Directory of checkpoints.
    pub(crate) checkpoints: Option<PathBuf>,
    pub(crate) is_flush_allowed: bool,
    pub(crate) is_debug_enabled: bool,
    pub(crate) is_protected: bool,
}

impl Settings {
    pub(crate) fn new(
        password: Option<&str>,
        max_clients: usize,
        idle_timeout: u64,
        fixed: FixedSettings,
    ) -> Settings {
        Settings {
            password: Mutex::new(password.filter(|text| !text.is_empty()).map(|text| text.as_bytes().into())),
            max_clients: AtomicUsize::new(max_clients),
            idle_timeout: AtomicU64::new(idle_timeout),
            without_effect: Mutex::new(BTreeMap::new()),
            fixed,
        }
    }

    /// Password of the server.
    pub(crate) fn password(&self) -> Option<Arc<[u8]>> {
        self.password.lock().clone()
    }

    /// Maximum number of clients.
    pub(crate) fn max_clients(&self) -> usize {
        self.max_clients.load(Ordering::Relaxed)
    }

    /// Time after which an idle connection ends.
    pub(crate) fn idle_timeout(&self) -> Option<Duration> {
        let seconds = self.idle_timeout.load(Ordering::Relaxed);
        (seconds > 0).then(|| Duration::from_secs(seconds))
    }
}

/// Change of a setting. The error is the reason of a refusal.
type Change = fn(&Shared, &str) -> Result<(), String>;

/// A setting.
pub(crate) struct Setting {
    pub(crate) name: &'static str,
    summary: &'static str,
    get: fn(&Shared) -> String,
    /// None if it is fixed at the start.
    set: Option<Change>,
}

/// Maximum length of the slow log. An entry has at most 32 arguments of 128 bytes.
const MAX_SLOW_COMMANDS: i64 = 100_000;

/// Settings with an effect.
static SETTINGS: &[Setting] = &[
    Setting {
        name: "appendfsync",
        summary: "Moment at which writes are synced: always, everysec or no",
        get: |shared| shared.store.durability.mode().to_string(),
        set: Some(set_sync),
    },
    Setting {
        name: "bind",
        summary: "Addresses of the server",
        get: |shared| shared.settings.fixed.bind.clone(),
        set: None,
    },
    Setting {
        name: "busy-reply-threshold",
        summary: "Milliseconds after which a script can be ended",
        get: script_limit,
        set: Some(set_script_limit),
    },
    Setting {
        name: "client-output-buffer-limit",
        summary: "Unsent output at which a client is disconnected: class, hard, soft, seconds",
        get: |shared| shared.clients.output_limits.text(),
        set: Some(|shared, value| Ok(shared.clients.output_limits.set(value, parse_memory)?)),
    },
    Setting {
        name: "daemonize",
        summary: "The server stays in the foreground",
        get: |_| "no".into(),
        set: None,
    },
    Setting { name: "databases", summary: "Number of databases", get: |_| DATABASES.to_string(), set: None },
    Setting {
        name: "dir",
        summary: "Directory of the database",
        get: |shared| shared.settings.fixed.dir.clone(),
        set: None,
    },
    Setting {
        name: "enable-debug-command",
        summary: "DEBUG is permitted",
        get: |shared| yes_no(shared.settings.fixed.is_debug_enabled),
        set: None,
    },
    Setting {
        name: "lua-time-limit",
        summary: "Milliseconds after which a script can be ended",
        get: script_limit,
        set: Some(set_script_limit),
    },
    Setting {
        name: "latency-monitor-threshold",
        summary: "Milliseconds from which on LATENCY records an event; 0 for none",
        get: |shared| shared.latency_events.threshold_ms().to_string(),
        set: Some(|shared, value| {
            let ms = number(value, 0, i64::MAX)?;
            shared.latency_events.set_threshold_ms(ms.unsigned_abs());
            Ok(())
        }),
    },
    Setting {
        name: "latency-tracking",
        summary: "INFO latencystats has the percentiles of commands",
        get: |shared| yes_no(shared.latency_percentiles.is_shown()),
        set: Some(|shared, value| {
            shared.latency_percentiles.show(parse_yes_no(value)?);
            Ok(())
        }),
    },
    Setting {
        name: "latency-tracking-info-percentiles",
        summary: "Percentiles of INFO latencystats",
        get: |shared| shared.latency_percentiles.text(),
        set: Some(|shared, value| match shared.latency_percentiles.set(value) {
            true => Ok(()),
            false => Err("the percentiles should be numbers between 0.0 and 100.0".into()),
        }),
    },
    Setting {
        name: "maxclients",
        summary: "Maximum number of clients",
        get: |shared| shared.settings.max_clients().to_string(),
        set: Some(set_max_clients),
    },
    Setting {
        name: "notify-keyspace-events",
        summary: "Classes of keyspace events that are published",
        get: |shared| shared.store.key_events.text(),
        set: Some(|shared, value| match shared.store.key_events.choose(value) {
            true => Ok(()),
            false => Err("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.".into()),
        }),
    },
    Setting {
        name: "port",
        summary: "TCP port",
        get: |shared| shared.settings.fixed.port.to_string(),
        set: None,
    },
    Setting {
        name: "protected-mode",
        summary: "Other machines cannot connect without a password",
        get: |shared| yes_no(shared.settings.fixed.is_protected),
        set: None,
    },
    Setting {
        name: "proto-max-bulk-len",
        summary: "Maximum size of an argument, in bytes",
        get: |_| Limits::AFTER_LOGIN.arg_bytes.to_string(),
        set: None,
    },
    Setting { name: "replicaof", summary: "The server has no replicas", get: |_| String::new(), set: None },
    Setting {
        name: "requirepass",
        summary: "Password of the default user",
        get: password_text,
        set: Some(set_password),
    },
    Setting { name: "slaveof", summary: "The server has no replicas", get: |_| String::new(), set: None },
    Setting {
        name: "slowlog-log-slower-than",
        summary: "Microseconds from which on the slow log keeps a command; -1 for none",
        get: |shared| shared.slow_log.threshold_us().to_string(),
        set: Some(|shared, value| {
            shared.slow_log.set_threshold_us(number(value, -1, i64::MAX)?);
            Ok(())
        }),
    },
    Setting {
        name: "slowlog-max-len",
        summary: "Maximum number of entries of the slow log",
        get: |shared| shared.slow_log.max_len().to_string(),
        set: Some(|shared, value| {
            shared.slow_log.set_max_len(number(value, 0, MAX_SLOW_COMMANDS)? as usize);
            Ok(())
        }),
    },
    Setting {
        name: "timeout",
        summary: "Seconds after which an idle connection ends; 0 for no limit",
        get: |shared| shared.settings.idle_timeout.load(Ordering::Relaxed).to_string(),
        set: Some(set_idle_timeout),
    },
    Setting {
        name: "unixsocket",
        summary: "Path of the Unix socket",
        get: |shared| shared.settings.fixed.unix_socket.clone(),
        set: None,
    },
];

/// Settings that are fixed at the start here, but not in Redis.
static REPEATABLE: &[&str] = &["bind", "port", "protected-mode", "proto-max-bulk-len"];

/// Setting for people: name, value, whether CONFIG SET can change it, and a summary.
pub(crate) type DescribedSetting = (&'static str, String, bool, &'static str);

/// Describes all settings with an effect. A password is not shown.
pub(crate) fn with_effect(shared: &Shared) -> impl Iterator<Item = DescribedSetting> {
    SETTINGS.iter().map(|row| {
        let value = (row.get)(shared);
        let is_secret = row.name == "requirepass" && !value.is_empty();
        let value = if is_secret { "(redacted)".into() } else { value };
        (row.name, value, row.set.is_some(), row.summary)
    })
}

/// Returns the names and values of all settings that match one of `patterns`.
pub(crate) fn matching(shared: &Shared, patterns: &[&[u8]]) -> Vec<(&'static str, String)> {
    let is_wanted = |name: &str| {
        patterns.iter().any(|pattern| crate::glob::is_match(&pattern.to_ascii_lowercase(), name.as_bytes()))
    };
    let with_effect =
        SETTINGS.iter().filter(|row| is_wanted(row.name)).map(|row| (row.name, (row.get)(shared)));
    let changed = shared.settings.without_effect.lock();
    let names = WITHOUT_EFFECT.iter().map(|row| (row.0, row.0)).chain(ALIASES.iter().copied());
    let without_effect = names.filter(|(name, _)| is_wanted(name)).map(|(name, present)| {
        let initial = WITHOUT_EFFECT.iter().find(|row| row.0 == present);
        let value = changed.get(present).map(String::as_str).or(initial.map(|row| row.1));
        (name, value.unwrap_or_default().to_owned())
    });
    let mut found: Vec<_> = with_effect.chain(without_effect).collect();
    found.sort_unstable();
    found
}

/// Changes all settings of `pairs`, or none.
///
/// # Errors
///
/// The text of the error reply.
pub(crate) fn change_all(shared: &Shared, pairs: &[(&str, &str)]) -> Result<(), String> {
    for (index, (name, _)) in pairs.iter().enumerate() {
        if pairs[..index].iter().any(|(other, _)| other.eq_ignore_ascii_case(name)) {
            return Err(failed(name, "duplicate parameter"));
        }
    }
    let mut changed: Vec<(&str, String)> = Vec::new();
    for (name, value) in pairs {
        let old = matching(shared, &[name.as_bytes()]).pop().map(|(_, value)| value);
        if let Err(reason) = change(shared, name, value) {
            // The old values were valid.
            let restored = changed.iter().rev().map(|(name, value)| change(shared, name, value));
            restored.for_each(|result| debug_assert!(result.is_ok()));
            return Err(reason);
        }
        changed.extend(old.map(|old| (*name, old)));
    }
    Ok(())
}

fn failed(name: &str, reason: &str) -> String {
    format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}")
}

/// Changes the setting `name`.
///
/// # Errors
///
/// The text of the error reply.
pub(crate) fn change(shared: &Shared, name: &str, value: &str) -> Result<(), String> {
    let failed = |reason: &str| failed(name, reason);
    if let Some(setting) = SETTINGS.iter().find(|row| row.name.eq_ignore_ascii_case(name)) {
        let Some(set) = setting.set else {
            // Clients may store the values that they have read. Redis can change these settings.
            let is_same = REPEATABLE.contains(&setting.name) && (setting.get)(shared) == value;
            return if is_same { Ok(()) } else { Err(failed("can't set immutable config")) };
        };
        return set(shared, value).map_err(|reason| failed(&reason));
    }
    let alias = ALIASES.iter().find(|(old, _)| old.eq_ignore_ascii_case(name));
    let present = alias.map_or(name, |(_, present)| present);
    match WITHOUT_EFFECT.iter().find(|row| row.0.eq_ignore_ascii_case(present)) {
        Some((known, _, form)) => {
            let value = checked(*form, value).map_err(|reason| failed(&reason))?;
            shared.settings.without_effect.lock().insert(known, value);
            Ok(())
        }
        None => Err(format!("ERR Unknown option or number of arguments for CONFIG SET - '{name}'")),
    }
}

/// Returns a number of bytes, which may have a unit such as `kb` (1,024) or `k` (1,000). As in
/// Redis, nothing is zero, and zeros may lead.
fn memory_value(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, unit) = text.split_at(digits);
    let factor: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    let number: u64 = if digits.is_empty() { 0 } else { digits.parse().ok()? };
    number.checked_mul(factor)
}

/// Returns a number of bytes as a signed integer.
fn parse_memory(text: &str) -> Option<i64> {
    i64::try_from(memory_value(text)?).ok()
}

fn yes_no(is_yes: bool) -> String {
    if is_yes { "yes".into() } else { "no".into() }
}

fn parse_yes_no(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("argument must be 'yes' or 'no'".into()),
    }
}

/// Returns the integer `text`, if it is between `min` and `max`.
fn number(text: &str, min: i64, max: i64) -> Result<i64, String> {
    let number = parse_i64(text.as_bytes()).ok_or("argument couldn't be parsed into an integer")?;
    match (min..=max).contains(&number) {
        true => Ok(number),
        false => Err(format!("argument must be between {min} and {max} inclusive")),
    }
}

fn set_sync(shared: &Shared, value: &str) -> Result<(), String> {
    let mode =
        SyncMode::by_name(value).ok_or("argument(s) must be one of the following: everysec, always, no")?;
    shared.store.durability.set_mode(mode);
    Ok(())
}

fn set_max_clients(shared: &Shared, value: &str) -> Result<(), String> {
    let count = parse_u64(value.as_bytes()).filter(|count| (1..=1_000_000).contains(count));
    let count = count.ok_or("argument must be between 1 and 1000000 inclusive")?;
    shared.settings.max_clients.store(count as usize, Ordering::Relaxed);
    Ok(())
}

fn script_limit(shared: &Shared) -> String {
    shared.scripts.run_state.time_limit_ms().to_string()
}

fn set_script_limit(shared: &Shared, value: &str) -> Result<(), String> {
    let ms = parse_u64(value.as_bytes()).filter(|ms| i64::try_from(*ms).is_ok());
    let ms = ms.ok_or("argument must be between 0 and 9223372036854775807 inclusive")?;
    shared.scripts.run_state.set_time_limit_ms(ms);
    Ok(())
}

fn set_idle_timeout(shared: &Shared, value: &str) -> Result<(), String> {
    let seconds = number(value, 0, i32::MAX.into())?;
    shared.settings.idle_timeout.store(seconds.unsigned_abs(), Ordering::Relaxed);
    Ok(())
}

fn set_password(shared: &Shared, value: &str) -> Result<(), String> {
    if value.is_empty() && !shared.settings.fixed.is_protected {
        return Err("the server listens beyond this machine and needs a password".into());
    }
    *shared.settings.password.lock() = (!value.is_empty()).then(|| value.as_bytes().into());
    Ok(())
}

fn password_text(shared: &Shared) -> String {
    shared.settings.password().map_or(String::new(), |bytes| String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_lower_case() {
        let mut names: Vec<&str> = SETTINGS
            .iter()
            .map(|row| row.name)
            .chain(WITHOUT_EFFECT.iter().map(|row| row.0))
            .chain(ALIASES.iter().map(|row| row.0))
            .collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(names.iter().all(|name| *name == name.to_ascii_lowercase()));
        for (_, present) in ALIASES {
            assert!(WITHOUT_EFFECT.iter().any(|row| row.0 == *present), "{present}");
        }
    }
}
