"""Runs PostgreSQL's own regression and isolation suites on a server with id_gen in it.

The extension is in every database, a layout is set that is not the default, and every plan that may be parallel is, so
that what a parallel worker takes over from its leader is tried, too. A suite that fails is run once more on the same
server without id_gen; what fails there as well is not id_gen's doing, and is not counted.

    make test-host                          PostgreSQL 15
    make test-host PG=17 MODE=not-preloaded
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness import PRELOADED, Cluster, Server
from harness.catalog import twins

# In the mode without the line in postgresql.conf, what makes sessions have the library although no test calls it.
LOADED = "shared_preload_libraries" if PRELOADED else "session_preload_libraries"
# As many workers as a server has by default are the suites' own, as in a server without id_gen. The keeper is one more.
DEFAULT_WORKERS = 8
LINES_SHOWN = 60
# Many times what a suite takes. isolationtester waits without end if a statement sends a message before it is blocked.
LIMIT_MINUTES = 30

# What pg_regress prints of each test: before PostgreSQL 16, and since, when its answer came to be in TAP.
ANSWER = re.compile(r"(?:test| {4}) *(?P<test>\S+) +\.\.\. (?P<word>\w+)|(?P<tap>(?:not )?ok) \d+ +[-+] (?P<name>\S+)")

# `opr_sanity` looks for functions with one name and the same arguments, in any two schemas. PostgreSQL 17 and later
# have some that id_gen has for older ones, and keeps on these (sql/uuid.sql, sql/uuid_extract.sql). It may find no
# others.
PAIR = r" *\d+ \| (?P<name>{names}) +\| +\d+ \| (?P=name) *"
ROWS = re.compile(r"\(\d+ rows\)")


@dataclass(frozen=True)
class Suite:
    """Tests of PostgreSQL's, and what runs them."""

    name: str
    program: Path
    inputs: Path
    database: str
    options: Sequence[str]


@dataclass(frozen=True)
class Outcome:
    """Whether each test answered as expected, and where the differences lie if one did not."""

    good: dict[str, bool]
    output: Path

    @property
    def bad(self) -> set[str]:
        return {test for test, good in self.good.items() if not good}


def suites(server: Server, inputs: Path) -> list[Suite]:
    programs = server.pg_regress.parent.parent
    return [
        Suite(
            "regression",
            server.pg_regress,
            inputs / "regress",
            "regression",
            ("--dlpath=.", "--max-concurrent-tests=20", "--schedule=parallel_schedule"),
        ),
        Suite(
            "isolation",
            programs / "isolation/pg_isolation_regress",
            inputs / "isolation",
            "isolation_regression",
            # The two that are in no schedule, because they need prepared transactions.
            ("--schedule=isolation_schedule", "prepared-transactions", "prepared-transactions-cic"),
        ),
    ]


def configuration(server: Server, with_id_gen: bool) -> str:
    forced = "debug_parallel_query" if server.version >= 16 else "force_parallel_mode"
    conf = f"{forced} = regress\nmax_prepared_transactions = 2\n"
    if with_id_gen:
        workers = DEFAULT_WORKERS + PRELOADED
        conf += f"{LOADED} = 'id_gen'\nmax_worker_processes = {workers}\n"
        conf += "id_gen.worker_id = 1\nid_gen.layout = 'wide'\n"
    return conf


def run(server: Server, suite: Suite, with_id_gen: bool) -> Outcome:
    """Runs a suite on a cluster of its own."""
    how = "with id_gen" if with_id_gen else "without id_gen"
    step(f"The {suite.name} suite {how}")
    output = Path(tempfile.mkdtemp(prefix=f"id_gen_host_{suite.name}_", dir=server.run_directory))
    if owner := server.as_owner.get("user"):
        shutil.chown(output, owner, owner)
    began = time.monotonic()
    with Cluster("host", server=server, conf=configuration(server, with_id_gen)) as cluster:
        if with_id_gen:
            for database in ("template1", "postgres"):
                cluster.psql("CREATE EXTENSION id_gen", database)
        good = answers(cluster, suite, output, ["--load-extension=id_gen"] if with_id_gen else [])
        if with_id_gen and not good.get("opr_sanity", True) and only_twins(suite, output, twins(cluster)):
            print(f"{suite.name}, opr_sanity: finds the functions that PostgreSQL has, too, and nothing else")
            good["opr_sanity"] = True
        if with_id_gen and all(good.values()):
            cluster.psql("SELECT snowflake_next()", suite.database)
        shutil.copy(cluster.logfile, output)
    outcome = Outcome(good, output)
    print(f"{suite.name}, {how}: {len(good)} tests, {len(outcome.bad)} failed, {time.monotonic() - began:.0f} s")
    if not outcome.bad:
        shutil.rmtree(output)
    return outcome


def answers(cluster: Cluster, suite: Suite, output: Path, options: Sequence[str]) -> dict[str, bool]:
    command = ["timeout", f"{LIMIT_MINUTES}m", suite.program]
    command += [f"--bindir={cluster.server.bindir}", f"--host={cluster.socket_dir}", "--user=postgres"]
    command += [f"--dbname={suite.database}", "--inputdir=.", f"--outputdir={output}", *options, *suite.options]
    good = {}
    with subprocess.Popen(
        command,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        **cluster.server.as_owner | {"cwd": suite.inputs},
    ) as process:
        for line in process.stdout:
            print(line, end="", flush=True)
            if found := ANSWER.match(line):
                good[found["test"] or found["name"]] = found["word"] != "FAILED" and found["tap"] != "not ok"
    # It fails if a test did. If none did, it did not get to all of them.
    if process.returncode != 0 and all(good.values()):
        raise RuntimeError(f"{suite.program.name} stopped before the end, see {output}")
    return good


def only_twins(suite: Suite, output: Path, functions: Sequence[str]) -> bool:
    """Whether the answer of `opr_sanity` is as expected but for the rows of twins, which also widen its columns."""
    names = sorted({function.partition("(")[0] for function in functions})
    pair = re.compile(PAIR.format(names="|".join(names)))

    def others(answer: Path) -> list[str]:
        lines = [line for line in answer.read_text().splitlines() if not pair.fullmatch(line)]
        return [re.sub("[ -]", "", line) for line in lines if not ROWS.fullmatch(line)]

    return others(output / "results/opr_sanity.out") == others(suite.inputs / "expected/opr_sanity.out")


def report(outcome: Outcome) -> None:
    diffs = outcome.output / "regression.diffs"
    lines = diffs.read_text(errors="replace").splitlines() if diffs.exists() else []
    print(*lines[:LINES_SHOWN], sep="\n")
    print(f"... all {len(lines)} lines, and the server's log beside them: {diffs}")


def step(text: str) -> None:
    print(f"\033[1;32m==>\033[0m {text}", flush=True)


def main() -> bool:
    server = Server.from_environment()
    passed = 0
    failed = []
    for suite in suites(server, Path(os.environ["ID_GEN_SUITES"])):
        outcome = run(server, suite, with_id_gen=True)
        passed += len(outcome.good) - len(outcome.bad)
        if outcome.bad:
            report(outcome)
            reference = run(server, suite, with_id_gen=False)
            for test in sorted(outcome.bad & reference.bad):
                print(f"{suite.name}, {test}: fails without id_gen too")
            not_reached = reference.good.keys() - outcome.good.keys()
            failed += [f"{suite.name}, {test}" for test in sorted((outcome.bad | not_reached) - reference.bad)]
    print(*(f"\nFailed: {test}" for test in failed), sep="")
    mode = "preloaded" if PRELOADED else "not-preloaded"
    print(f"\nPostgreSQL {server.version}, {mode}, its own suites: {passed} passed, {len(failed)} failed")
    return not failed


if __name__ == "__main__":
    sys.exit(not main())
