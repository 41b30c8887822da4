"""What an ID costs, beside its rivals, on throwaway servers in one run.

Rivals take turns in every measurement, so that a machine that drifts slows all alike; medians are compared, and the
ratios are held against bounds, which they must keep. Absolute times are the machine's.

    make bench             everything (about half an hour)
    make bench QUICK=1     smaller tables, fewer rounds (about four minutes)
    make bench WRITE=1     kept in benches/results, and shown in docs/benchmarks.md with those of other servers
    make bench ONLY=fleet  what fleets cost alone (or family, horizon, managed, moving, ranges, sizes); with WRITE=1, it
                           replaces just that of what was kept
"""

import os
import platform
import re
import sys
from pathlib import Path
from typing import NamedTuple

import batches
import blocks
import calls
import counting
import crowds
import family
import first_id
import horizon
import managed_services
import moving
import opening
import plots
import profiles
import psycopg
import ranges
import registrars
import registry
import reservation
import sizes
import strict
import tables
from report import Report, markdown, ratios, show

from harness import GENERATING, PRELOADED, Cluster

HERE = Path(__file__).parent
RESULTS = HERE / "results"
DOCS = HERE.parent / "docs"
ONE_ID, CLIENTS, BULK_INSERT = (DOCS / "plots" / f"{name}.svg" for name in ("one-id", "clients", "bulk-insert"))

# What docs/benchmarks.md and the plots show all figures of.
IN_FULL = "PostgreSQL 15"

CONF = f"""{GENERATING}
id_gen.layout = 'wide'
jit = off
max_connections = 200
shared_buffers = 1GB
max_wal_size = 8GB
checkpoint_timeout = 1h
autovacuum = off
max_parallel_workers_per_gather = 0
"""


class Size(NamedTuple):
    """How much to measure."""

    calls: int
    call_rounds: int
    counting_starts: int
    crowd_seconds: int
    crowd_rounds: int
    block_rounds: int
    batch: int
    table: int
    table_rounds: int
    insert_seconds: int
    insert_rounds: int
    strict_seconds: int
    reservation_seconds: int
    reservation_rounds: int
    registry_starts: int
    registrar_seconds: int
    first_ids: int
    openings: int


FULL = Size(2_000_000, 7, 60, 2, 7, 1, 10_000_000, 5_000_000, 5, 5, 20, 8, 3, 4, 60, 60, 15, 5)
QUICK = Size(1_000_000, 5, 5, 1, 1, 0, 2_000_000, 1_000_000, 1, 1, 1, 2, 3, 1, 5, 10, 3, 1)


def version(connection: psycopg.Connection) -> str:
    """With what PostgreSQL takes random bytes from, which is most of what a UUIDv4 costs."""
    query = "SELECT split_part(version(), ' on ', 1), current_setting('ssl_library')"
    server, ssl_library = connection.execute(query).fetchone() or ("?", "")
    return f"{server}, random bytes from {ssl_library or 'the operating system'}"


def machine() -> str:
    model = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    processor = re.sub(r"\((R|TM)\)", "", model[1]) if model else platform.processor()
    return f"{processor}, {os.cpu_count()} cores"


def command(major: int, quick: bool) -> str:
    """What is typed for such a run."""
    words = [f"PG={major}", *([] if PRELOADED else ["MODE=not-preloaded"]), *(["QUICK=1"] if quick else [])]
    return " ".join(["make bench", *words, "WRITE=1"])


def write_docs() -> None:
    """Shows what was found on each machine and server so far."""
    reports = sorted(map(Report.load, RESULTS.glob("*/*.json")), key=lambda report: (report.machine, report.server))
    plots_shown = [plot.relative_to(DOCS) for plot in (ONE_ID, CLIENTS, BULK_INSERT)]
    (DOCS / "benchmarks.md").write_text(markdown(reports, IN_FULL, plots_shown))


def results_of(report: Report) -> Path:
    """A directory for each machine, a file for each server."""
    directory, file = ("-".join(re.findall(r"[a-z0-9]+", name.lower())) for name in (report.machine, report.server))
    return RESULTS / directory / f"{file}.json"


def add_fleet(report: Report, size: Size) -> None:
    """What a fleet costs its servers, and its registry."""
    measurements = (
        lambda: registry.measure(CONF, size.registry_starts),
        lambda: first_id.measure(size.first_ids),
        lambda: registrars.measure(size.registrar_seconds),
        lambda: opening.measure(size.openings),
    )
    for measure in measurements:
        section, targets = measure()
        report.add(section, *targets)


def add_horizon(report: Report, size: Size) -> None:
    """What the commit horizon costs who reads it, and who makes IDs."""
    section, targets = horizon.measure(CONF, size.call_rounds)
    report.add(section, *targets)
    if PRELOADED:
        # A call costs the same in both modes, and only the preloaded library can be told from one without a part of it.
        section, targets = counting.measure(counting.HORIZON, CONF, size.counting_starts)
        report.add(section, *targets)
        section, targets = horizon.inserts(CONF, size.crowd_seconds, size.insert_rounds)
        report.add(section, *targets)


def add_moving(report: Report, size: Size) -> None:
    """What it costs to look at stored IDs, and to move a table over."""
    section, targets = profiles.measure(CONF, size.table, size.table_rounds)
    report.add(section, *targets)
    section, targets = moving.measure(CONF, size.table // 5, size.table_rounds)
    report.add(section, *targets)


def add_family(report: Report, size: Size) -> None:
    """What every other kind of ID costs."""
    section, targets = family.costs(CONF, size.calls, size.call_rounds)
    report.add(section, *targets)
    section, targets = family.in_order(CONF, size.crowd_seconds, size.crowd_rounds)
    report.add(section, *targets)


def add_ranges(report: Report, size: Size) -> None:
    """What ranges, offsets, shards, causal order and servers for tests cost."""
    measurements = (
        lambda: ranges.causal_order(CONF, size.calls, size.call_rounds),
        lambda: ranges.shards(CONF, size.calls, size.call_rounds, size.crowd_seconds, size.crowd_rounds),
        lambda: ranges.tickets(CONF, size.calls, size.call_rounds, size.crowd_seconds, size.crowd_rounds),
    )
    for measure in measurements:
        section, targets = measure()
        report.add(section, *targets)
    report.add(ranges.servers_for_tests(CONF, size.calls // 10, size.call_rounds))


def add_sizes(report: Report, size: Size) -> None:
    """What a key of each kind takes on disk."""
    section, targets = sizes.measure(CONF, size.table)
    report.add(section, *targets)


def add_managed(report: Report, size: Size) -> None:
    """What the script for managed services costs, beside the library."""
    for section, targets in managed_services.measure(CONF, size.calls // 10, size.crowd_seconds, size.call_rounds):
        report.add(section, *targets)


# What can be measured alone.
PARTS = {
    "family": add_family,
    "fleet": add_fleet,
    "horizon": add_horizon,
    "managed": add_managed,
    "moving": add_moving,
    "ranges": add_ranges,
    "sizes": add_sizes,
}


def finish(report: Report) -> None:
    show(ratios([report]))
    if not all(target.holds for target in report.targets):
        sys.exit("some ratios are out of bounds; measure again on a quiet machine before trusting either")


def main() -> None:
    quick, write = (bool(os.environ.get(name)) for name in ("QUICK", "WRITE"))
    size = QUICK if quick else FULL
    if only := os.environ.get("ONLY"):
        if only not in PARTS or not PRELOADED:
            sys.exit(f"alone there is ONLY= with one of {', '.join(PARTS)}, for the preloaded library")
        alone(only, size, quick, write)
    else:
        everything(size, quick, write)


def alone(part: str, size: Size, quick: bool, write: bool) -> None:
    with Cluster("asked") as cluster, cluster.connect() as connection:
        major = cluster.server.version
        report = Report(f"PostgreSQL {major}", version(connection), machine(), command(major, quick))
    PARTS[part](report, size)
    if write:
        kept = Report.load(results_of(report))
        kept.replace(report)
        kept.save(results_of(report))
        write_docs()
    finish(report)


def everything(size: Size, quick: bool, write: bool) -> None:
    with Cluster("bench", conf=CONF) as cluster, cluster.connect() as connection:
        connection.execute((HERE / "rivals.sql").read_text())
        major = cluster.server.version
        server = f"PostgreSQL {major}{'' if PRELOADED else ', not preloaded'}"
        report = Report(server, version(connection), machine(), command(major, quick))
        print(f"{report.server}: {report.version}, {report.machine}", flush=True)

        cost = calls.costs(cluster, connection, size.calls, size.call_rounds)
        section, targets = calls.section(cost, size.calls, size.call_rounds)
        report.add(section, *targets)

        single = crowds.rates(cluster, crowds.SINGLE, 1, 1, 1)
        report.add(crowds.section(single, "One ID a statement"))
        bulk = crowds.rates(cluster, crowds.BULK, crowds.IDS_PER_STATEMENT, size.crowd_seconds, size.crowd_rounds)
        report.add(crowds.section(bulk, f"{crowds.IDS_PER_STATEMENT:,} IDs a statement"), *crowds.targets(bulk))

        report.targets.append(blocks.in_order(cluster, size.crowd_seconds, size.crowd_rounds))
        if size.block_rounds:
            report.add(blocks.measure(cluster, size.crowd_seconds, size.block_rounds))

        section, targets = batches.measure(connection, size.batch, size.call_rounds)
        report.add(section, *targets)

        load = tables.loads(connection, size.table, size.table_rounds)
        section, targets = tables.load_section(load, size.table)
        report.add(section, *targets)
        report.add(tables.reads(connection, size.table_rounds))
        report.add(tables.single_inserts(cluster, connection, size.insert_seconds))
    section, targets = strict.measure(size.strict_seconds)
    report.add(section, *targets)
    add_family(report, size)
    add_ranges(report, size)
    add_horizon(report, size)
    add_moving(report, size)
    add_sizes(report, size)
    add_managed(report, size)
    if PRELOADED:
        section, targets = counting.measure(counting.STATISTICS, CONF, size.counting_starts)
        report.add(section, *targets)
    section, targets = reservation.measure(size.reservation_seconds, size.reservation_rounds)
    report.add(section, *targets)
    if PRELOADED:
        # The registrar is the same in both modes.
        add_fleet(report, size)

    if write:
        report.save(results_of(report))
        if report.server == IN_FULL:
            plots.call_costs(cost, report.machine, ONE_ID)
            plots.scaling(bulk, report.machine, CLIENTS)
            plots.loads(load, size.table, report.machine, BULK_INSERT)
        write_docs()
    finish(report)


if __name__ == "__main__":
    main()
