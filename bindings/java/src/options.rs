//! Options of a database: lines `name=value`, and the objects of the user.

use std::sync::Arc;

use terrace::compress::codec_by_name;
use terrace::{BlockCache, BloomFilterPolicy, Options};

use crate::call::{Failure, invalid, text};
use crate::callbacks::{JavaComparator, JavaLogger};
use crate::raw::{ByteArray, Env, Object};

/// Arguments of a function that are options.
pub(crate) struct UserOptions<'a> {
    /// Lines `name=value`.
    pub(crate) options: ByteArray<'a>,
    /// Object of the class `DBComparator`, or null.
    pub(crate) comparator: Object<'a>,
    pub(crate) comparator_name: ByteArray<'a>,
    /// Object of the class `LogReceiver`, or null.
    pub(crate) logger: Object<'a>,
}

/// Option that a line may set.
struct Setting {
    name: &'static str,
    set: fn(&mut Options, &str) -> Option<()>,
}

/// All options.
static SETTINGS: &[Setting] = &[
    Setting { name: "create_if_missing", set: |o, v| Some(o.create_if_missing = v.parse().ok()?) },
    Setting { name: "error_if_exists", set: |o, v| Some(o.error_if_exists = v.parse().ok()?) },
    Setting { name: "paranoid_checks", set: |o, v| Some(o.paranoid_checks = v.parse().ok()?) },
    Setting { name: "old_table_names", set: |o, v| Some(o.old_table_names = v.parse().ok()?) },
    Setting { name: "write_buffer_size", set: |o, v| Some(o.write_buffer_size = Some(v.parse().ok()?)) },
    Setting { name: "max_file_size", set: |o, v| Some(o.max_file_size = Some(v.parse().ok()?)) },
    Setting { name: "memory_budget", set: |o, v| Some(o.memory_budget = Some(v.parse().ok()?)) },
    Setting { name: "max_open_files", set: |o, v| Some(o.max_open_files = v.parse().ok()?) },
    Setting { name: "block_size", set: |o, v| Some(o.block_size = v.parse().ok()?) },
    Setting { name: "block_restart_interval", set: |o, v| Some(o.block_restart_interval = v.parse().ok()?) },
    Setting { name: "cache_size", set: |o, v| Some(o.block_cache = Some(BlockCache::new(v.parse().ok()?))) },
    Setting { name: "compression", set: |o, v| Some(o.compression = Some(codec_by_name(v)?)) },
    Setting {
        name: "bloom_bits_per_key",
        set: |o, v| Some(o.filter_policy = Some(Arc::new(BloomFilterPolicy::new(v.parse().ok()?)))),
    },
];

/// Returns the options of the user.
pub(crate) fn user_options(env: Env<'_>, user: UserOptions<'_>) -> Result<Options, Failure> {
    let mut options = Options::default();
    for line in text(env, user.options, "options")?.lines() {
        let (name, value) = line.split_once('=').unwrap_or((line, ""));
        let setting = SETTINGS.iter().find(|setting| setting.name == name);
        let setting = setting.ok_or_else(|| invalid(format!("unknown option {name}")))?;
        (setting.set)(&mut options, value)
            .ok_or_else(|| invalid(format!("option {name}: {value} is out of bounds")))?;
    }
    if !user.comparator.is_null() {
        let name = text(env, user.comparator_name, "name of the comparator")?;
        options.comparator = Arc::new(JavaComparator::new(env, user.comparator, name)?);
    }
    if !user.logger.is_null() {
        options.logger = Some(Arc::new(JavaLogger::new(env, user.logger)?));
    }
    Ok(options)
}
