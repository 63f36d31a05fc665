//! A set of options that Terrace and stock LevelDB both understand, drawn from a seed.

use std::fmt;
use std::sync::Arc;

use terrace_format::comparator::{Comparator, bytewise};

use crate::rng::Rng;

/// The order of user keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComparatorKind {
    /// LevelDB's own.
    Bytewise,
    /// Bytewise from last to first, under a name of its own.
    Reverse,
    /// Short keys before long ones, bytewise among those of one length.
    Shortlex,
}

impl ComparatorKind {
    /// As an engine wants it.
    pub fn build(self) -> Arc<dyn Comparator> {
        match self {
            ComparatorKind::Bytewise => bytewise(),
            ComparatorKind::Reverse => Arc::new(Reverse),
            ComparatorKind::Shortlex => Arc::new(Shortlex),
        }
    }
}

/// Bytewise, backwards; shortens no keys, as a comparator of the C API can't.
struct Reverse;

impl Comparator for Reverse {
    fn name(&self) -> &str {
        "terrace.test.Reverse"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        b.cmp(a)
    }
}

/// By length first: a prefix comes before every longer key, whatever that begins with.
struct Shortlex;

impl Comparator for Shortlex {
    fn name(&self) -> &str {
        "terrace.test.Shortlex"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        (a.len(), a).cmp(&(b.len(), b))
    }
}

/// Options by value: printable, and the same for both engines. Default is LevelDB's defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "LevelDB's own option names")]
pub struct Settings {
    pub comparator: ComparatorKind,
    pub create_if_missing: bool,
    pub error_if_exists: bool,
    pub paranoid_checks: bool,
    pub write_buffer_size: usize,
    pub max_open_files: usize,
    /// None is the engine's own default cache.
    pub cache_bytes: Option<usize>,
    pub block_size: usize,
    pub block_restart_interval: usize,
    pub max_file_size: usize,
    pub snappy: bool,
    /// Instead of snappy; stock LevelDB lacks it.
    pub zstd: bool,
    /// The C API of stock LevelDB can't set this one.
    pub reuse_logs: bool,
    /// 0 is no filter.
    pub bloom_bits: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            comparator: ComparatorKind::Bytewise,
            create_if_missing: false,
            error_if_exists: false,
            paranoid_checks: false,
            write_buffer_size: 4 << 20,
            max_open_files: 1000,
            cache_bytes: None,
            block_size: 4096,
            block_restart_interval: 16,
            max_file_size: 2 << 20,
            snappy: true,
            zstd: false,
            reuse_logs: false,
            bloom_bits: 0,
        }
    }
}

impl Settings {
    /// The defaults, with `create_if_missing`.
    pub fn create() -> Settings {
        Settings { create_if_missing: true, ..Settings::default() }
    }

    /// A random set of those that only Terrace can have.
    pub fn draw_with_terrace_features(rng: &mut Rng, order: ComparatorKind) -> Settings {
        let settings = Settings::draw(rng, order);
        Settings { zstd: rng.one_in(4), ..settings }
    }

    /// A random set for a database in `order`. Everything is small, so that flushes and compactions come often.
    pub fn draw(rng: &mut Rng, order: ComparatorKind) -> Settings {
        Settings {
            comparator: order,
            create_if_missing: true,
            error_if_exists: false,
            paranoid_checks: rng.one_in(2),
            write_buffer_size: rng.pick(&[4 << 10, 16 << 10, 64 << 10, 64 << 10, 256 << 10]),
            max_open_files: rng.pick(&[8, 74, 100, 1000]),
            cache_bytes: rng.pick(&[None, Some(0), Some(16 << 10), Some(1 << 20)]),
            block_size: rng.pick(&[64, 1 << 10, 4 << 10, 64 << 10]),
            block_restart_interval: rng.pick(&[1, 2, 16]),
            max_file_size: rng.pick(&[2 << 10, 64 << 10, 1 << 20, 2 << 20]),
            snappy: rng.one_in(2),
            zstd: false,
            reuse_logs: rng.one_in(2),
            bloom_bits: rng.pick(&[0, 0, 1, 10, 20]),
        }
    }
}

impl fmt::Display for Settings {
    /// The fields that differ from the defaults; they are enough to type the set in again.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (given, default) = (format!("{self:?}"), format!("{:?}", Settings::default()));
        let fields = |text: &str| -> Vec<String> {
            let inside = text.trim_start_matches("Settings { ").trim_end_matches(" }");
            inside.split(", ").map(str::to_owned).collect()
        };
        let differ: Vec<String> = fields(&given)
            .into_iter()
            .zip(fields(&default))
            .filter(|(a, b)| a != b)
            .map(|(a, _)| a)
            .collect();
        f.write_str(&differ.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_lists_non_default_fields() {
        let set = Settings { block_size: 64, cache_bytes: Some(0), ..Settings::create() };
        assert_eq!(set.to_string(), "create_if_missing: true, cache_bytes: Some(0), block_size: 64");
    }

    #[test]
    fn reverse_comparator_orders_descending() {
        let order = ComparatorKind::Reverse.build();
        assert!(order.compare(b"a", b"b").is_gt() && order.compare(b"a", b"").is_lt());
    }

    #[test]
    fn shortlex_compares_length_first() {
        let order = ComparatorKind::Shortlex.build();
        assert!(order.compare(b"b", b"aa").is_lt() && order.compare(b"ab", b"aa").is_gt());
    }
}
