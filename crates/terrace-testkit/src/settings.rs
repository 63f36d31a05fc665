//! Options that Terrace and stock LevelDB both have, drawn from a seed.

use std::fmt;
use std::sync::Arc;

use terrace_format::comparator::{Comparator, bytewise};

use crate::rng::Rng;

/// Order of user keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComparatorKind {
    /// LevelDB's bytewise order.
    Bytewise,
    /// Reverse bytewise order, with its own name.
    Reverse,
    /// Short keys before long ones, and bytewise order between keys of one length.
    Shortlex,
}

impl ComparatorKind {
    /// Returns the comparator for an engine.
    pub fn build(self) -> Arc<dyn Comparator> {
        match self {
            ComparatorKind::Bytewise => bytewise(),
            ComparatorKind::Reverse => Arc::new(Reverse),
            ComparatorKind::Shortlex => Arc::new(Shortlex),
        }
    }
}

/// Reverse bytewise order. It shortens no keys, because a comparator of the C API can't.
struct Reverse;

impl Comparator for Reverse {
    fn name(&self) -> &str {
        "terrace.test.Reverse"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        b.cmp(a)
    }
}

/// Order by length, then bytewise. A prefix sorts before all longer keys, whatever their first
/// bytes.
struct Shortlex;

impl Comparator for Shortlex {
    fn name(&self) -> &str {
        "terrace.test.Shortlex"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        (a.len(), a).cmp(&(b.len(), b))
    }
}

/// Options as values that can be printed and used by both engines. The defaults are LevelDB's.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "LevelDB's own option names")]
pub struct Settings {
    pub comparator: ComparatorKind,
    pub create_if_missing: bool,
    pub error_if_exists: bool,
    pub paranoid_checks: bool,
    pub write_buffer_size: usize,
    pub max_open_files: usize,
    /// Size of the block cache, or None for the engine's default cache.
    pub cache_bytes: Option<usize>,
    pub block_size: usize,
    pub block_restart_interval: usize,
    pub max_file_size: usize,
    pub snappy: bool,
    /// Zstd instead of snappy; stock LevelDB lacks it.
    pub zstd: bool,
    /// Leveled compaction also while a load is running; stock LevelDB has no choice.
    pub leveled: bool,
    /// The C API of stock LevelDB can't set this option.
    pub reuse_logs: bool,
    /// Bits per key, or 0 for no filter.
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
            leveled: false,
            reuse_logs: false,
            bloom_bits: 0,
        }
    }
}

impl Settings {
    /// Returns the defaults with `create_if_missing`.
    pub fn create() -> Settings {
        Settings { create_if_missing: true, ..Settings::default() }
    }

    /// Draws options, including those that only Terrace has.
    pub fn draw_with_terrace_features(rng: &mut Rng, comparator: ComparatorKind) -> Settings {
        let settings = Settings::draw(rng, comparator);
        Settings { zstd: rng.one_in(4), leveled: rng.one_in(2), ..settings }
    }

    /// Draws options for a database with this comparator. All sizes are small, so that flushes and
    /// compactions are frequent.
    pub fn draw(rng: &mut Rng, comparator: ComparatorKind) -> Settings {
        Settings {
            comparator,
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
            leveled: false,
            reuse_logs: rng.one_in(2),
            bloom_bits: rng.pick(&[0, 0, 1, 10, 20]),
        }
    }
}

impl fmt::Display for Settings {
    /// Lists the fields that differ from the defaults, in Rust syntax.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let actual = format!("{self:?}");
        let default = format!("{:?}", Settings::default());
        let fields = |text: &str| -> Vec<String> {
            let inside = text.trim_start_matches("Settings { ").trim_end_matches(" }");
            inside.split(", ").map(str::to_owned).collect()
        };
        let differ: Vec<String> = fields(&actual)
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
        let comparator = ComparatorKind::Reverse.build();
        assert!(comparator.compare(b"a", b"b").is_gt() && comparator.compare(b"a", b"").is_lt());
    }

    #[test]
    fn shortlex_compares_length_first() {
        let comparator = ComparatorKind::Shortlex.build();
        assert!(comparator.compare(b"b", b"aa").is_lt() && comparator.compare(b"ab", b"aa").is_gt());
    }
}
