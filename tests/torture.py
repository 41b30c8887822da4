"""The torture: everything that makes ID generators repeat themselves, happening to one, while clients watch it.

Eight clients ask for IDs and keep each one they were given outside the server. Meanwhile processes and servers are
killed, stopped, reloaded and failed over, and the wall clock is set back and forth, while they run and while they are
down. In the end no ID may have been given twice, and none may be out of order. A seed brings back the same sequence of
incidents with the same parameters; when each falls between two statements of a client is the machine's affair, and so
are the steps by which the clock is let catch up where clients would wait for it.

    make torture                20 million IDs or more, 50 crashes and 50 steps of the clock
    make torture SEED=7         the same incidents as in the run that printed this seed
    make torture MINUTES=30     as long as wanted
    make torture IDS=1000000    as many IDs as wanted, with whatever happens meanwhile

Without MINUTES it ends after nine minutes at the latest, and has then failed.
"""

import os
import secrets
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path

from harness.torture_clients import Findings, check_records, run_client
from harness.torture_schedule import FULL_ROUND, incidents, length
from harness.torture_servers import DATABASES, Servers

CLIENTS = 8
STOP_SECONDS = 20.0


@dataclass(frozen=True)
class Plan:
    """How long, and what. It ends when everything has been reached, and in any case after `minutes`."""

    seed: int
    ids: int | None = 20_000_000
    """None: as many as there will be."""
    rounds: int = 5
    minutes: float = 9.0
    deck: Mapping[str, int] = field(default_factory=lambda: FULL_ROUND)

    @classmethod
    def from_environment(cls) -> "Plan":
        seed, ids, minutes = (os.environ.get(name) for name in ("SEED", "IDS", "MINUTES"))
        plan = cls(int(seed) if seed else secrets.randbelow(1_000_000))
        if ids or minutes:
            plan = replace(plan, ids=int(ids) if ids else None, rounds=0)
        return replace(plan, minutes=float(minutes)) if minutes else plan

    def fulfilled(self, given: int, happened: int) -> bool:
        return self.ids is not None and given >= self.ids and happened >= self.rounds * length(self.deck)


@dataclass(frozen=True)
class Report:
    """How it went."""

    plan: Plan
    seconds: float
    fulfilled: bool
    count: Counter[str]
    findings: Findings
    wrong: list[str]
    directory: Path
    """What the clients kept, the servers' logs and the list of incidents; gone if all is well."""

    @property
    def clean(self) -> bool:
        return self.findings.clean and not self.wrong

    def __str__(self) -> str:
        findings = self.findings
        rows: list[tuple[str, object]] = [("seed", self.plan.seed), ("seconds", round(self.seconds))]
        rows += [(name, self.count[name]) for name in COUNTS]
        rows += [("IDs given", f"{findings.given:,}"), ("connections", f"{findings.connections:,}")]
        rows += [(f"refusals with {sqlstate}", f"{times:,}") for sqlstate, times in findings.refusals.most_common()]
        rows += [
            ("connections lost", f"{findings.lost:,}"),
            ("duplicates", findings.repeated),
            ("not increasing within a connection", findings.decreasing),
            ("connections that began below an ID given before", findings.behind),
        ]
        lines = [f"{name:<50}{value:>14}" for name, value in rows]
        if not self.fulfilled:
            lines.append(f"Ended by time, after {self.plan.minutes:g} min.")
        lines += self.wrong
        if not self.clean:
            lines += [f"{fault}:\n  {each}" for fault, examples in findings.evidence.items() for each in examples]
            lines.append(f"All records are kept in {self.directory}")
        return "\n".join(lines)


# What is counted while it happens; the indented ones are contained in the count above them.
COUNTS = (
    "crashes", "  processes killed", "  postmasters killed", "  immediate stops",
    "clock steps", "  while a server was down", "more steps, to catch up", "jumps accepted",
    "clean restarts", "terminations", "reloads", "standbys built", "promotions",
)  # fmt: skip


def torture(plan: Plan, tell: Callable[[str], None] = print) -> Report:
    """Runs a plan."""
    directory = Path(tempfile.mkdtemp(prefix="id_gen_torture_"))
    try:
        servers = Servers(directory)
        try:
            servers.prepare()
            with crowd_of_clients(servers, plan.seed):
                started = time.monotonic()
                fulfilled = run_incidents(servers, plan, started, tell)
                seconds = time.monotonic() - started
        finally:
            servers.close()
    except BaseException as error:
        error.add_note(f"All records are kept in {directory}")
        raise
    report = Report(plan, seconds, fulfilled, servers.count, check_records(directory), servers.wrong, directory)
    if report.clean:
        shutil.rmtree(directory)
    return report


def run_incidents(servers: Servers, plan: Plan, started: float, tell: Callable[[str], None]) -> bool:
    """Lets things happen until the plan is fulfilled, or its time is over."""
    with (servers.directory / "incidents").open("w", buffering=1) as file:
        for number, incident in enumerate(incidents(plan.seed, plan.deck)):
            given = sum(ids.stat().st_size for ids in servers.directory.glob("*.ids")) // 8
            if plan.fulfilled(given, number):
                return True
            if time.monotonic() - started > plan.minutes * 60:
                return plan.ids is None
            time.sleep(incident.pause_s)
            at = time.time()
            story = servers.apply(incident)
            file.write(f"{at:.6f} to {time.time():.6f}: {story}: {incident}\n")
            tell(f"{time.monotonic() - started:6.1f} s {given / 1e6:7.2f} M IDs  #{number + 1:<4}{story}")
    raise AssertionError("a schedule has no end")


@contextmanager
def crowd_of_clients(servers: Servers, seed: int) -> Iterator[None]:
    """Clients that go on until the block ends; one that fails by itself is an error."""
    context = get_context("fork")
    stop = context.Event()
    crowd = [
        context.Process(
            target=run_client,
            args=(f"client{number}", servers.directory, servers.where, DATABASES[number % 2], seed + number, stop),
        )
        for number in range(CLIENTS)
    ]
    for each in crowd:
        each.start()
    try:
        yield
    finally:
        stop.set()
        deadline = time.monotonic() + STOP_SECONDS
        for each in crowd:
            each.join(max(0.0, deadline - time.monotonic()))
            if each.is_alive():
                each.kill()
                each.join()
    failed = [each.name for each in crowd if each.exitcode]
    if failed:
        raise RuntimeError(f"these clients ended by themselves, or did not end: {', '.join(failed)}")


if __name__ == "__main__":
    report = torture(Plan.from_environment(), lambda line: print(line, flush=True))
    print(report)
    sys.exit(not (report.clean and report.fulfilled))
