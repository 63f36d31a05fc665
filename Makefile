# Everything one does here. `make` alone lists it.

.DEFAULT_GOAL := help
.PHONY: help setup build lib install run test bench doc notices package

TARGET := $${CARGO_TARGET_DIR:-target}
PREFIX := /usr/local
CITIES := data/cities.tsv.zst
# Optimised, with every assertion and overflow check on: two million model operations take seconds.
CI := --profile ci

help:  ## List these commands
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 16

setup:  ## Install what building and testing need from the system
	@.ci/setup

build:  ## Build the program `terrace`, optimised
	@cargo build --release --package terrace-cli

lib:  ## Build the library that takes LevelDB's place
	@cargo build --release --package terrace-capi
	@CXXFLAGS=-Wl,--strip-debug crates/terrace-capi/link.sh "$(TARGET)/release/libterrace_capi.a" "$(TARGET)/dropin"

install:  ## Put it, its headers and its packages for CMake and pkg-config below PREFIX=/usr/local
	@test -f "$(TARGET)/dropin/libleveldb.so.1d" || { echo "no library to install: make lib first, and not as root" >&2; exit 1; }
	@crates/terrace-capi/install.sh "$(TARGET)/dropin" "$(DESTDIR)$(PREFIX)"

run: build  ## Show what it does, on a database of 171,075 cities
	@"$(TARGET)/release/terrace" tour $(CITIES)

test:  ## Check everything: format, lints, tidiness, tests, a share of every attack
	cargo fmt --all --check
	cargo clippy --workspace --all-targets $(CI) --quiet -- --deny warnings
	cargo xtask tidy
	.ci/notices --check
	cargo test --workspace $(CI) -- --quiet
	cargo test --package terrace-format --no-default-features $(CI) -- --quiet
	cargo check --package terrace --no-default-features $(CI) --quiet
	cargo xtask check

bench: build  ## Measure it beside LevelDB, RocksDB and LMDB, within five minutes
	@mkdir -p "$(TARGET)/bench"
	@"$(TARGET)/release/terrace" bench --suite quick --engines terrace,leveldb,rocksdb,lmdb,lmdb-renewed --rounds 3 \
		--dir "$(TARGET)/bench" --json "$(TARGET)/bench.json" --report "$(TARGET)/report.html"

doc:  ## Make the documentation of the crates
	@RUSTDOCFLAGS="--deny warnings" cargo doc --workspace --no-deps

notices:  ## Write the licences of the crates in the library and the program
	@.ci/notices

package:  ## Make the packages of all published crates, and build each from its package
	@# Cargo takes packages of one version for the same, and would build with what it unpacked and built before.
	@rm -rf "$(TARGET)/packages" "$${CARGO_HOME:-$$HOME/.cargo}"/registry/src/-*/terrace*
	@cargo package --workspace --target-dir "$(TARGET)/packages" \
		$(addprefix --exclude ,xtask terrace-testkit terrace-linearizability terrace-torture)
