# One word for each thing to do here; the work is in scripts/. Each target sets up what it needs on this machine.

export PG PG_CONFIG MODE WORKERS KEEP WRITE QUICK SEED MINUTES ONLY IDS CALLS DSN RECORDING TESTS RUNS LOAD FRESH FAULTS
# Empty means all tests, which is not the same as not given.
ifneq ($(origin MARKERS),undefined)
export MARKERS
endif

.PHONY: help all demo demo-fleet dashboard test test-all test-upgrade test-host torture torture-fleet attack attack-planted flaky memory robust fuzz release-check \
	bench docs lint licences install deb deb-arm64 test-deb test-arm64 image-tree dist dist-vendored clean

help: ## Show this list
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14
	@echo
	@echo 'PG=15 chooses the PostgreSQL version (15 to 19; 18-cassert checks itself as it runs);'
	@echo 'PG_CONFIG=/path/to/pg_config an installed server.'

# PGXN's client makes this before `install`, which does it all.
all:
	@:

demo: ## Take the guided tour on a throwaway server (KEEP=1: leave the server running)
	@scripts/run demo/tour.py

demo-fleet: ## See a fleet on etcd paused, cut off, cloned and failed over under load: no duplicate
	@scripts/run demo/fleet.py

dashboard: ## Draw what a server does (DSN='host=... dbname=...', SECONDS=, PROFILE=table.column; RECORDING=file; neither: a made-up load)
	@scripts/dashboard "$(SECONDS)"

test: ## Run the tests that depend on the server (MARKERS='': all; MODE=not-preloaded; WORKERS=1: one after the other)
	@scripts/test

test-all: ## Run the tests on every supported PostgreSQL, with and without preload
	@scripts/test-all

test-upgrade: ## Take a database through pg_upgrade, from the oldest supported PostgreSQL to the newest
	@scripts/upgrade

test-host: ## Run PostgreSQL's own regression and isolation suites on a server with id_gen in it (PG=, MODE=)
	@scripts/host

torture-fleet: ## Pause, cut off, copy and promote servers of a fleet, then look for duplicates (SEED=, MINUTES=, REGISTRY=etcd)
	@scripts/run tests/torture_fleet.py

torture: ## Crash, step and promote servers for minutes, then look for duplicates (SEED=, MINUTES=, IDS=)
	@scripts/run tests/torture.py

attack: ## Explore servers, sessions and features at random, until a violation is found (SEED=, MINUTES=4, ONLY=)
	@scripts/run -m attack

attack-planted: ## Plant faults, one after the other, and see that the attack finds each (FAULTS=, MINUTES= for each, SEED=; FRESH=1)
	@scripts/attack-planted

flaky: ## Repeat tests beside load, and count failures (TESTS='path -k name', RUNS=20, LOAD=8, PG=, MODE=; FRESH=1)
	@scripts/flaky

memory: ## Generate a hundred million IDs in one session and see that it takes no memory (CALLS=)
	@scripts/test memory

robust: ## Run all tests on a server that checks itself, and on the newest: also under valgrind, and `memory`
	@scripts/robust

fuzz: ## Feed the pure code with random bytes under the address sanitizer (MINUTES= for each target)
	@scripts/fuzz

release-check: ## Run everything that is proved about a release (hours), in place of what every change must pass
	@scripts/release-check

bench: ## Measure what an ID costs beside its rivals (QUICK=1; WRITE=1: into docs/)
	@scripts/bench

docs: ## Write docs/reference.md and contrib/prometheus/queries.yaml from a running server's catalogs
	@scripts/docs

lint: ## Check format, warnings and comments
	@scripts/lint

licences: ## Write THIRD-PARTY-LICENSES anew, after a crate has changed
	@scripts/licences

install: ## Build for and install into the server of PG_CONFIG
	@scripts/install

deb: ## Build the Debian package of PG into target/deb
	@scripts/deb

deb-arm64: ## Build it for ARM64, on an x86-64 machine
	@scripts/deb arm64

test-arm64: ## Build for ARM64 on an x86-64 machine, and try it under QEMU (PG=18; MODE=, MINUTES= of torture)
	@scripts/test-arm64

test-deb: ## Try the Debian package of PG in a minimal Debian of its own (as root)
	@scripts/test-deb

image-tree: ## Lay the extension out as CloudNativePG mounts it, into target/image (PG=18 and later)
	@scripts/image-tree

dist: ## Pack the committed sources for PGXN into target/dist
	@scripts/dist

dist-vendored: ## Pack them with all crates, for a build without a network
	@scripts/dist vendored

clean: ## Delete everything that was built
	@scripts/clean
