"""`make attack`: explores the product at random, in several processes, until something is found or the time is over.
README.md has its arguments. It prints what it has found as a short script of steps, with all statements in
target/attack, and ends with the table of actions that met features.
"""

import contextlib
import io
import multiprocessing
import os
import secrets
import signal
import sys
import time
import traceback
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from attack.action import Meetings
from attack.explorer import Explorer, TimeIsUp
from attack.finding import Finding
from attack.machines import MACHINES, TURNS

# Of one turn of a machine. The first exploration of a turn is always the shortest one there is.
EXPLORATIONS, STEPS = 8, 25
LOGS = Path(os.environ.get("CARGO_TARGET_DIR", "target")) / "attack"


@dataclass
class Result:
    """What came of one process: the oracle of what was found, if something was."""

    number: int
    meetings: Meetings
    oracle: str | None = None
    text: str = ""
    transcript: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Plan:
    """What is explored, and for how long."""

    seed: int
    turns: tuple[str, ...]
    workers: int
    minutes: float
    shrink: bool

    @classmethod
    def from_environment(cls) -> "Plan":
        given = {
            name: os.environ[name] for name in ("SEED", "ONLY", "WORKERS", "MINUTES", "SHRINK") if os.environ.get(name)
        }
        turns = tuple(given["ONLY"].split(",")) if "ONLY" in given else TURNS
        if unknown := set(turns) - MACHINES.keys():
            sys.exit(f"there is no machine {', '.join(unknown)}; there are {', '.join(MACHINES)}")
        return cls(
            seed=int(given.get("SEED", secrets.randbelow(1_000_000))),
            turns=turns,
            # They wait most of the time.
            workers=int(given.get("WORKERS", (os.cpu_count() or 1) + 2)),
            minutes=float(given.get("MINUTES", 4)),
            shrink=given.get("SHRINK") != "0",
        )


def end_now(number: int, frame: object) -> None:
    raise TimeIsUp


def explore(plan: Plan, number: int, deadline: float, output: Connection) -> None:
    """One process: explores until the deadline, and sends its result."""
    Explorer.deadline = deadline
    # Another one has found something: servers are stopped, and nothing is left behind.
    signal.signal(signal.SIGTERM, end_now)
    Explorer.meetings = Meetings()
    result = Result(number, Explorer.meetings)
    printed = io.StringIO()
    phases = [Phase.generate, Phase.shrink] if plan.shrink else [Phase.generate]
    try:
        for turn in range(sys.maxsize):
            # Processes begin at different places of the list.
            machine = MACHINES[plan.turns[(turn + number * 3) % len(plan.turns)]]
            seeded = seed((plan.seed * 100 + number) * 1_000_003 + turn)(type(machine.__name__, (machine,), {}))
            with contextlib.redirect_stdout(printed):
                run_state_machine_as_test(
                    seeded,
                    settings=settings(
                        max_examples=EXPLORATIONS,
                        stateful_step_count=STEPS,
                        deadline=None,
                        database=None,
                        print_blob=False,
                        phases=phases,
                        suppress_health_check=list(HealthCheck),
                        report_multiple_bugs=False,
                    ),
                )
    except BaseException as error:  # noqa: BLE001, whatever it is, it is reported
        result.oracle, result.text = judge(error, printed.getvalue())
    if result.oracle is not None and Explorer.last is not None:
        result.transcript = Explorer.last.transcript
    output.send(result)
    output.close()


def judge(error: BaseException, printed: str) -> tuple[str | None, str]:
    """The oracle that was violated, if one was, and how."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, TimeIsUp):
        # A shorter script may still have been looked for.
        if Explorer.problem is None:
            return None, ""
        error = Explorer.problem
    elif not isinstance(error, Finding) and isinstance(Explorer.problem, Finding):
        # Hypothesis says that it did not come again, or not in the same way.
        Explorer.problem.__notes__ = getattr(error, "__notes__", [])
        error = Explorer.problem
    text = "\n".join([str(error), *getattr(error, "__notes__", []), printed])
    if isinstance(error, Finding):
        return error.oracle, text
    return type(error).__name__, text + "".join(traceback.format_exception(error))


def main() -> int:
    plan = Plan.from_environment()
    print(f"seed {plan.seed}: {plan.minutes:g} minutes, {plan.workers} explorations at a time", flush=True)
    began = time.monotonic()
    context = multiprocessing.get_context("fork")
    running: dict[Connection, multiprocessing.Process] = {}
    for number in range(plan.workers):
        mine, theirs = context.Pipe(duplex=False)
        process = context.Process(target=explore, args=(plan, number, began + plan.minutes * 60, theirs))
        process.start()
        theirs.close()
        running[mine] = process
    all_meetings = Meetings()
    first: Result | None = None
    while running:
        for pipe in wait(list(running)):
            process = running.pop(pipe)
            try:
                result = pipe.recv()
            except EOFError:
                result = Result(0, Meetings(), oracle="attacker", text="one of its processes has ended")
            process.join()
            all_meetings.add(result.meetings)
            if result.oracle is not None and first is None:
                first = result
                for other in running.values():
                    other.terminate()
                tell(result, time.monotonic() - began)
    print(all_meetings)
    print(f"found: {first.oracle}" if first else f"nothing found with seed {plan.seed}")
    return 1 if first else 0


def tell(result: Result, seconds: float) -> None:
    LOGS.mkdir(parents=True, exist_ok=True)
    log = LOGS / f"statements-{result.number}.log"
    log.write_text("\n".join(result.transcript) + "\n")
    print(f"after {seconds:.0f} s: {result.text}\nAll statements: {log}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
