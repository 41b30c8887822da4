"""`make attack`: explores the product at random, in several processes, until something is found or the time is over.

    make attack                  4 minutes
    make attack MINUTES=60       an hour
    make attack SEED=7           the same steps as in the run that printed this seed
    make attack ONLY=Copies      one machine of MACHINES alone
    make attack WORKERS=1        one exploration at a time

It prints what it has found as a short script of steps, with all statements in target/attack, and ends with the table
of actions that met features.
"""

import contextlib
import io
import multiprocessing
import os
import secrets
import signal
import sys
import time
from collections import Counter
from multiprocessing.connection import Connection, wait
from pathlib import Path

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from attack.action import Meetings
from attack.converter import Converter
from attack.copies import Copies
from attack.dumps import Dumps
from attack.explorer import Explorer, TimeIsUp
from attack.finding import Finding
from attack.fleet import Fleet
from attack.horizon import Horizon
from attack.managed import Managed
from attack.masks import Masks
from attack.offsets import Offsets
from attack.sessions import Sessions
from attack.shards import Shards
from attack.surroundings import Surroundings
from attack.tickets import Tickets


class Server(Copies, Dumps, Tickets, Shards, Horizon, Sessions, Masks):
    """Servers and their copies, with all features."""


class Converting(Dumps, Converter, Surroundings):
    """Few servers, whose columns are converted."""

    # So that its jobs are met more often.
    generate = uuids = decode = misspell = put_clock_right = reset_reservation = set_for_role = None


class Managing(Managed):
    """A server of databases with the script for managed services."""


class Dividing(Offsets):
    """Databases as servers, whose sequences are divided."""


MACHINES: dict[str, type[Explorer]] = {
    "Server": Server,
    "Fleet": Fleet,
    "Converting": Converting,
    "Managing": Managing,
    "Dividing": Dividing,
}
EXAMPLES, STEPS = 20, 25
LOGS = Path(os.environ.get("CARGO_TARGET_DIR", "target")) / "attack"


def end_now(number: int, frame: object) -> None:
    raise TimeIsUp


def explore(machine: type[Explorer], number: int, deadline: float, output: Connection) -> None:
    """One process: explores until the deadline, and sends what it met and what it found."""
    Explorer.deadline = deadline
    # Another one has found something: servers are stopped, and nothing is left behind.
    signal.signal(signal.SIGTERM, end_now)
    Explorer.meetings = meetings = Meetings()
    found: tuple[str, str] | None = None
    printed = io.StringIO()
    try:
        for batch in range(sys.maxsize):
            seeded = seed(number * 1_000_003 + batch)(type(machine.__name__, (machine,), {}))
            with contextlib.redirect_stdout(printed):
                run_state_machine_as_test(
                    seeded,
                    settings=settings(
                        max_examples=EXAMPLES,
                        stateful_step_count=STEPS,
                        deadline=None,
                        database=None,
                        print_blob=False,
                        phases=[Phase.generate, Phase.shrink],
                        suppress_health_check=list(HealthCheck),
                        report_multiple_bugs=False,
                    ),
                )
    except TimeIsUp:
        if Explorer.problem is not None:
            # Shorter steps that lead to it were still looked for.
            found = (getattr(Explorer.problem, "oracle", type(Explorer.problem).__name__), f"{Explorer.problem}")
    except BaseException as error:  # noqa: BLE001, whatever it is, it is reported
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if not isinstance(error, Finding) and isinstance(Explorer.problem, Finding):
            # Hypothesis says that it did not come again, or not in the same way.
            Explorer.problem.__notes__ = getattr(error, "__notes__", [])
            error = Explorer.problem
        notes = "\n".join(getattr(error, "__notes__", []))
        found = (
            error.oracle if isinstance(error, Finding) else type(error).__name__,
            f"{error}\n{notes}\n{printed.getvalue()}",
        )
        if not isinstance(error, Finding):
            import traceback

            found = (found[0], found[1] + "".join(traceback.format_exception(error)))
    transcript = Explorer.last.transcript if Explorer.last else []
    output.send((number, meetings.taken, meetings.met, found, transcript if found else []))
    output.close()


def main() -> int:
    minutes = float(os.environ.get("MINUTES") or 4)
    first = int(os.environ.get("SEED") or secrets.randbelow(1_000_000))
    workers = int(os.environ.get("WORKERS") or max(2, (os.cpu_count() or 1)))
    machines = [MACHINES[name] for name in (os.environ.get("ONLY") or ",".join(MACHINES)).split(",")]
    print(f"seed {first}: {minutes:g} minutes, {workers} explorations at a time", flush=True)
    deadline = time.monotonic() + minutes * 60
    context = multiprocessing.get_context("fork")
    began = time.monotonic()
    running = []
    for number in range(max(workers, len(machines))):
        mine, theirs = context.Pipe(duplex=False)
        process = context.Process(
            target=explore, args=(machines[number % len(machines)], first * 100 + number, deadline, theirs)
        )
        process.start()
        theirs.close()
        running.append((process, mine))
    taken, met = Counter(), Counter()
    finding: tuple[str, str] | None = None
    while running:
        for ready in wait([pipe for _, pipe in running]):
            [(process, _)] = [each for each in running if each[1] is ready]
            running = [each for each in running if each[1] is not ready]
            try:
                number, steps, meetings, found, transcript = ready.recv()
            except EOFError:
                number, steps, meetings, found, transcript = (
                    0,
                    Counter(),
                    Counter(),
                    ("attacker", "a process of it ended"),
                    [],
                )
            process.join()
            taken += steps
            met += meetings
            if found and finding is None:
                finding = found
                LOGS.mkdir(parents=True, exist_ok=True)
                log = LOGS / f"{number}.log"
                log.write_text("\n".join(transcript) + "\n")
                print(f"{time.monotonic() - began:.0f} s: {found[1]}\nAll statements: {log}", flush=True)
                for other, _ in running:
                    other.terminate()
    show(taken, met)
    if finding is not None:
        print(f"found: {finding[0]}")
        return 1
    print(f"nothing found with seed {first}")
    return 0


def show(taken: Counter[tuple[str, str]], met: Counter[tuple[str, str]]) -> None:
    """The table of actions by features, with how often each pair met."""
    features = sorted({name for kind, name in taken if kind == "use"})
    actions = sorted({name for kind, name in taken if kind == "action"})
    print(f"{'':<20}{'taken':>8}" + "".join(f"{each[:11]:>12}" for each in features))
    print(f"{'':<20}{'':>8}" + "".join(f"{taken['use', each]:>12}" for each in features))
    for each in actions:
        print(
            f"{each:<20}{taken['action', each]:>8}" + "".join(f"{met[each, feature] or '':>12}" for feature in features)
        )


if __name__ == "__main__":
    sys.exit(main())
