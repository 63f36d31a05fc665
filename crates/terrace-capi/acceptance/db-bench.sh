#!/bin/bash
# LevelDB's own db_bench, unmodified, from the Debian source package: compiled against the installed development files,
# run with the stock library and with the library under test. Its counts must be equal; its timings may differ.
. "$(dirname "$0")/common.sh"
need libleveldb-dev libgtest-dev libgmock-dev g++
debsrc leveldb
S="$SCRATCH/src-leveldb"; B="$SCRATCH/db-bench"; mkdir -p "$B/port"
cat >"$B/port/port_config.h" <<'E2'
#define HAVE_FDATASYNC 1
#define HAVE_FULLFSYNC 0
#define HAVE_O_CLOEXEC 1
#define HAVE_CRC32C 0
#define HAVE_SNAPPY 0
E2
# Its helpers are hidden, so that they cannot replace the library's.
[ -x "$B/db_bench" ] || g++ -std=c++17 -O2 -DNDEBUG -w -fvisibility=hidden -DLEVELDB_PLATFORM_POSIX=1 -DLEVELDB_SHARED_LIBRARY \
  -I"$B" -I"$S" -I"$S/include" "$S/benchmarks/db_bench.cc" "$S"/util/{testutil,histogram,crc32c,coding,logging}.cc \
  -o "$B/db_bench" -lleveldb -lpthread >"$B/build.log" 2>&1 || die "build: $(grep -m1 -E 'error|undefined' "$B/build.log")"
N=${NUM:-20000}
BENCHMARKS=fillseq,fillsync,fillrandom,overwrite,readrandom,readseq,readreverse,compact,readrandom,readmissing,readhot,seekrandom,seekordered,deleteseq,deleterandom,readrandom,readwhilewriting,fill100K,open,crc32c
run() { rm -rf "$B/db"; "$@" "$B/db_bench" --db="$B/db" --num=$N --benchmarks=$BENCHMARKS; }
# operations and results without timings; readwhilewriting depends on the progress of its writer
counts() { sed -nE '/^readwhilewriting/d; s/^([a-zA-Z0-9]+) +: +[0-9.]+ micros\/op;[^(]*/\1 /p; /^(Keys|Values|Entries|RawSize|FileSize)/p' "$1"; }
LABEL=db_bench; t=$(now)
run uselib_logged >"$B/ours.out" 2>"$B/ours.err"; rc=$?
check_loaded loaded_by_log
[ $rc = 0 ] && pass runs "$(since $t)" "$(grep -c micros/op "$B/ours.out") benchmarks" || fail runs "$(since $t)" "exit $rc: $(tail -1 "$B/ours.err")"
run env >"$B/stock.out" 2>"$B/stock.err" || fail stock-runs 0 "$(tail -1 "$B/stock.err")"
if diff <(counts "$B/stock.out") <(counts "$B/ours.out") >"$B/counts.diff"; then pass equal-counts 0 "$(counts "$B/ours.out" | wc -l) lines"; else fail equal-counts 0 "$(head -3 "$B/counts.diff" | tr '\n' ' ')"; fi
rm -rf "$B/db"
finish
