//! Options of a database: lines `name=value`, and the objects of the user.

use std::str::FromStr;
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
    Setting { name: "create_if_missing", set: |options, value| parse(&mut options.create_if_missing, value) },
    Setting { name: "error_if_exists", set: |options, value| parse(&mut options.error_if_exists, value) },
    Setting { name: "paranoid_checks", set: |options, value| parse(&mut options.paranoid_checks, value) },
    Setting { name: "old_table_names", set: |options, value| parse(&mut options.old_table_names, value) },
    Setting {
        name: "write_buffer_size",
        set: |options, value| parse_some(&mut options.write_buffer_size, value),
    },
    Setting { name: "memory_budget", set: |options, value| parse_some(&mut options.memory_budget, value) },
    Setting { name: "max_open_files", set: |options, value| parse(&mut options.max_open_files, value) },
    Setting { name: "block_size", set: |options, value| parse(&mut options.block_size, value) },
    Setting {
        name: "block_restart_interval",
        set: |options, value| parse(&mut options.block_restart_interval, value),
    },
    Setting { name: "cache_size", set: set_cache_size },
    Setting { name: "compression", set: set_compression },
    Setting { name: "bloom_bits_per_key", set: set_bloom_bits },
];

fn parse<T: FromStr>(option: &mut T, value: &str) -> Option<()> {
    *option = value.parse().ok()?;
    Some(())
}

fn parse_some<T: FromStr>(option: &mut Option<T>, value: &str) -> Option<()> {
    *option = Some(value.parse().ok()?);
    Some(())
}

fn set_cache_size(options: &mut Options, value: &str) -> Option<()> {
    options.block_cache = Some(BlockCache::new(value.parse().ok()?));
    Some(())
}

fn set_compression(options: &mut Options, value: &str) -> Option<()> {
    options.compression = Some(codec_by_name(value)?);
    Some(())
}

fn set_bloom_bits(options: &mut Options, value: &str) -> Option<()> {
    options.filter_policy = Some(Arc::new(BloomFilterPolicy::new(value.parse().ok()?)));
    Some(())
}

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
