//! Unsafe code stays in few files, and its sites are counted.

use super::Problem;
use super::source::Source;
use super::tree::Tree;

/// Files with unsafe code: the start of a path, and the purpose of the code.
static ALLOWED: &[(&str, &str)] = &[
    ("bindings/java/src/raw.rs", "calls the Java virtual machine"),
    ("bindings/node/src/raw.rs", "calls Node-API without the conversions of napi-rs"),
    ("crates/terrace/src/memtable/arena.rs", "hands out memory that several threads fill at the same time"),
    ("crates/terrace/src/memtable/btree", "follows the links of a tree into its arena"),
    (
        "crates/terrace/src/memtable/cursor.rs",
        "follows the pointers of a position into the arena of its tree",
    ),
    ("crates/terrace/src/memtable/node.rs", "follows the slots of a node into the arena of its tree"),
    ("crates/terrace/src/memtable/version_chain.rs", "follows the links of a chain into its arena"),
    ("crates/terrace-bench/src/engine/c_api.rs", "calls the C functions that LevelDB and RocksDB share"),
    ("crates/terrace-bench/src/engine/leveldb_c.rs", "calls LevelDB's C functions"),
    ("crates/terrace-bench/src/engine/rocksdb_c.rs", "calls RocksDB's C functions"),
    ("crates/terrace-bench/src/engine/rocksdb_tables.rs", "calls RocksDB's C functions for table files"),
    ("crates/terrace-bench/src/engine/rocksdb_txn.rs", "calls RocksDB's C functions for transactions"),
    ("crates/terrace-bench/src/engine/lmdb_c.rs", "calls LMDB's C functions"),
    ("crates/terrace-bench/src/run/clock.rs", "reads the time stamp counter"),
    ("crates/terrace-capi/", "implements functions for C and C++, and calls their callbacks"),
    (
        "crates/terrace-cli/src/terminal/closed_output.rs",
        "registers a function that runs before Rust's runtime",
    ),
    ("crates/terrace-env/src/crc32c.rs", "computes checksums with the instruction of aarch64"),
    ("crates/terrace-env/src/mapped_slice.rs", "keeps a part of a mapped file together with the file"),
    ("crates/terrace-env/src/prefetch.rs", "prefetches cache lines"),
    ("crates/terrace-env/src/posix", "maps files into memory and locks them"),
    ("crates/terrace-env/src/windows/calls.rs", "calls Windows"),
    ("crates/terrace-sync/src/fork.rs", "keeps the guards of locks from the start of a fork to its end"),
    (
        "crates/terrace-sync/src/hazard.rs",
        "lends values without a reference count, and frees them after the last reader",
    ),
    ("crates/terrace-sync/src/loom_cell.rs", "shares loom's cells among loom's threads"),
    ("crates/terrace-testkit/src/stock_leveldb", "calls the C functions of the stock library"),
    ("crates/terrace-torture/src/harness/fork", "forks"),
    ("crates/terrace-torture/src/harness/refusals/seccomp.rs", "installs a filter of system calls"),
    ("crates/terrace-torture/src/allocation_counter.rs", "counts memory around the system's allocator"),
];

/// Lines of a file with `unsafe`, tests included.
pub(super) fn sites(source: &Source) -> impl Iterator<Item = usize> {
    source.paths.iter().filter(|path| path.text == "unsafe").map(|path| path.line)
}

/// Unsafe code outside of these files.
pub(super) fn check(tree: &Tree) -> Vec<Problem> {
    let outside = tree.sources.iter().filter(|source| !is_allowed(&source.path));
    outside.flat_map(|source| sites(source).map(|line| problem(&source.path, line))).collect()
}

fn is_allowed(file: &str) -> bool {
    ALLOWED.iter().any(|(prefix, _)| file.starts_with(prefix))
}

fn problem(file: &str, line: usize) -> Problem {
    Problem {
        file: file.into(),
        line,
        finding: "`unsafe`".into(),
        reason: "unsafe code stays in the files that are reviewed for it".into(),
        fix: "use safe code, or add the file with its purpose to ALLOWED in xtask/src/tidy/unsafe_code.rs"
            .into(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::expect;
    use super::*;

    #[test]
    fn outside() {
        let path = "crates/terrace/src/cache.rs";
        let text = "a\nunsafe { f() }\nunsafe impl Send for A {}";
        expect(check, &[(path, text)], &[&format!("{path}:2: `unsafe`"), &format!("{path}:3: `unsafe`")]);
    }

    #[test]
    fn inside() {
        expect(check, &[("crates/terrace-env/src/posix/map.rs", "unsafe { f() }")], &[]);
    }

    #[test]
    fn only_words_about_it() {
        expect(check, &[("crates/terrace/src/a.rs", "#![deny(unsafe_code)] // unsafe\nf(\"unsafe\")")], &[]);
    }
}
