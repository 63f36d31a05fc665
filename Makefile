# Everything one does here. `make` alone lists it.

.DEFAULT_GOAL := help
.PHONY: help setup build lib install uninstall deb run test platforms msrv bench doc notices package packages

TARGET := $${CARGO_TARGET_DIR:-target}
PREFIX := /usr/local
# What .ci/setup puts below target/, where the system has none or an old one. Then Rust right after its installation,
# before a new shell knows its directory.
export PATH := $(abspath $(or $(CARGO_TARGET_DIR),target))/tools/bin:$(PATH):$(HOME)/.cargo/bin
CITIES := data/cities.tsv.zst
# Optimised, with every assertion and overflow check on: two million model operations take seconds.
CI := --profile ci
# Many tests wait for a time, a browser or another process. So more run at a time than there are processors.
TEST_THREADS := $(shell expr 3 '*' $$(getconf _NPROCESSORS_ONLN))
# Engines of terrace-store that need packages of the system.
FEATURES = $$(.ci/features 2>/dev/null)

help:  ## List these commands
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 16

setup:  ## Install what building and testing need from the system
	@.ci/setup

build:  ## Build the program `terrace`, optimised
	@.ci/setup build
	@cargo build --release --package terrace-cli

lib:  ## Build the libraries that take LevelDB's place, shared and static, and libterrace.a
	@.ci/setup build
	@cargo build --release --package terrace-capi
	@CXXFLAGS=-Wl,--strip-debug crates/terrace-capi/link.sh "$(TARGET)/release/libterrace_capi.a" "$(TARGET)/dropin"

install:  ## Install program, libraries, headers, manual pages and completions below PREFIX=/usr/local
	@test -f "$(TARGET)/dropin/libleveldb.a" -a -f "$(TARGET)/release/terrace" || \
		{ echo "nothing to install: make build lib first, and not as root" >&2; exit 1; }
	@crates/terrace-capi/install.sh "$(TARGET)/dropin" "$(DESTDIR)$(PREFIX)" "$(TARGET)/release/terrace"
	@test -n "$(DESTDIR)" || PATH=$$PATH:/sbin:/usr/sbin ldconfig 2>/dev/null || true

uninstall:  ## Remove all that was installed below PREFIX=/usr/local
	@crates/terrace-capi/install.sh --uninstall "$(DESTDIR)$(PREFIX)"
	@test -n "$(DESTDIR)" || PATH=$$PATH:/sbin:/usr/sbin ldconfig 2>/dev/null || true

deb: build lib  ## Build the packages of Debian: the program, the library with `with-terrace`, libterrace.a
	@crates/terrace-capi/deb.sh "$(TARGET)/dropin" "$$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)" "$(TARGET)" \
		"$(TARGET)/release/terrace"

run: build  ## Show what it does, on a database of 171,075 cities
	@"$(TARGET)/release/terrace" tour $(CITIES)

test:  ## Check everything: format, lints, tidiness, tests, a share of every attack
	@.ci/setup test
	cargo fmt --all --check
	@.ci/features >/dev/null
	cargo clippy --workspace --all-targets $(FEATURES) $(CI) --quiet -- --deny warnings
	cargo xtask tidy
	.ci/notices --check
	RUST_TEST_THREADS=$${RUST_TEST_THREADS:-$(TEST_THREADS)} cargo test --workspace $(FEATURES) $(CI) -- --quiet
	cargo test --package terrace-format --no-default-features $(CI) -- --quiet
	cargo check --package terrace --no-default-features $(CI) --quiet
	cargo xtask check
	cargo xtask bindings
	cargo xtask redis-suites --share
	cargo xtask platforms

platforms:  ## Build and test for all other platforms, with emulators: ARM, musl, macOS, Windows
	@.ci/setup
	cargo xtask platforms --all

msrv:  ## Check with the oldest supported Rust
	@.ci/msrv

bench: build  ## Measure it beside LevelDB, RocksDB and LMDB, within five minutes
	@mkdir -p "$(TARGET)/bench"
	@"$(TARGET)/release/terrace" bench --suite quick --engines terrace,leveldb,rocksdb,lmdb,lmdb-renewed --rounds 3 \
		--dir "$(TARGET)/bench" --json "$(TARGET)/bench.json" --report "$(TARGET)/report.html"

doc:  ## Make the documentation of the crates
	@RUSTDOCFLAGS="--deny warnings" cargo doc --workspace --no-deps

notices:  ## Write the licences of the crates in the library and the program
	@.ci/notices

packages:  ## Build all packages in target/packages, and try each in an empty environment
	@.ci/setup build
	@.ci/packages

package:  ## Make the packages of all published crates, and build each from its package
	@# Cargo takes packages of one version for the same, and would build with what it unpacked and built before.
	@rm -rf "$(TARGET)/crate-packages" "$${CARGO_HOME:-$$HOME/.cargo}"/registry/src/-*/terrace*
	@cargo package --workspace --target-dir "$(TARGET)/crate-packages" \
		$(addprefix --exclude ,xtask terrace-testkit terrace-linearizability terrace-torture \
		terrace-java terrace-node terrace-python)
