"""Proves that the attack finds faults: plants those of `core/src/planted.rs`, one after the other, in the servers that
the attack starts, and runs the attack until it finds each.

    make attack-planted                                   all faults, up to 20 minutes each
    make attack-planted FAULTS='StartIgnoresFile' SEED=7  one of them, with a seed that has found it
    make attack-planted MINUTES=60                        longer
    make attack-planted FRESH=1                           from the beginning

Before the first fault the attack runs without any, and must find nothing: an attack that always finds something proves
nothing. Results are kept in target/attack/planted.json, so a command that was stopped continues with the fault that it
was in, and what was searched for longer is searched for again only if it was not found. The output of each attack is in
target/attack/<fault>.log. Exits with 1 if a fault was not found.
"""

import json
import os
import re
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from attack.faults import ROOT, faults
from harness import Server

RESULTS = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target") / "attack"
MINUTES = float(os.environ.get("MINUTES") or 20)
MODE = os.environ.get("MODE") or "preloaded"

# How long an attack may take to end after its time.
PATIENCE_S = 600.0
STOP_S = 120.0

# Oracles have names of lower-case words. Others are errors of the attack itself.
FOUND = re.compile(r"found: (?!attacker$)([a-z ]+)")
# How often an attack that fails by itself, not by an oracle, is repeated with another seed.
RETRIES = 2

# An attack without a fault.
NONE = "none"


@dataclass(frozen=True)
class Result:
    """What came of one search."""

    fault: str
    server: str
    minutes: float
    """How long it could take."""
    seed: int
    seconds: float
    found: str | None
    """The oracle."""
    problem: str | None
    """Why the attack ended in another way than it should."""

    @property
    def is_as_wanted(self) -> bool:
        return self.problem is None and (self.found is None) == (self.fault == NONE)

    @property
    def is_final(self) -> bool:
        """Whether to search again is of no use."""
        return self.problem is None and (self.found is not None or self.minutes >= MINUTES)


class Journal:
    """The results so far, by server and fault."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._results: dict[str, Result] = {}
        if file.exists() and not os.environ.get("FRESH"):
            results = (Result(**each) for each in json.loads(file.read_text()))
            self._results = {self._key(result.server, result.fault): result for result in results}

    @staticmethod
    def _key(server: str, fault: str) -> str:
        return f"{server} {fault}"

    def get(self, server: str, fault: str) -> Result | None:
        return self._results.get(self._key(server, fault))

    def put(self, result: Result) -> None:
        self._results[self._key(result.server, result.fault)] = result
        new = self._file.with_suffix(".new")
        new.write_text(json.dumps([asdict(each) for each in self._results.values()], indent=2) + "\n")
        new.rename(self._file)


def search(fault: str, server: str) -> Result:
    """Runs the attack on servers with a fault, until it finds it or its time is over."""
    seed = int(os.environ.get("SEED") or secrets.randbelow(1_000_000))
    env = {key: value for key, value in os.environ.items() if key != "ID_GEN_PLANTED"}
    env |= {"MINUTES": f"{MINUTES:g}", "SEED": str(seed), "SHRINK": "0"}
    if fault != NONE:
        env["ID_GEN_PLANTED"] = fault
    log = RESULTS / f"{fault}.log"
    began = time.monotonic()
    with log.open("wb") as output:
        # A group of its own, to be stopped as a whole.
        attack = subprocess.Popen(
            [sys.executable, "-m", "attack"],
            env=env,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status: int | None = attack.wait(MINUTES * 60 + PATIENCE_S)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            stop(attack)
    seconds = time.monotonic() - began
    lines = log.read_text(errors="replace").strip().splitlines()
    found = FOUND.fullmatch(lines[-1]) if lines else None
    oracle, problem = None, None
    match status:
        case 0:
            pass
        case 1 if found is not None:
            oracle = found[1]
        case None:
            problem = f"did not end: see {log}"
        case _:
            problem = f"ended with status {status}: see {log}"
    return Result(fault, server, MINUTES, seed, round(seconds, 1), oracle, problem)


def stop(attack: subprocess.Popen[bytes]) -> None:
    """Lets an attack that still runs stop its servers."""
    if attack.poll() is None:
        os.killpg(attack.pid, signal.SIGINT)
        try:
            attack.wait(STOP_S)
        except subprocess.TimeoutExpired:
            os.killpg(attack.pid, signal.SIGKILL)
            attack.wait()


def wanted() -> list[str]:
    """The faults to search for, those that FAULTS names or all that a server of this mode can have."""
    known = {fault.name: fault for fault in faults()}
    if names := os.environ.get("FAULTS", "").replace(",", " ").split():
        if unknown := set(names) - known.keys():
            sys.exit(f"core/src/planted.rs has no fault {', '.join(sorted(unknown))}")
        return names
    if others := [fault.name for fault in known.values() if not fault.is_of(MODE)]:
        print(f"Left out, because a server of mode {MODE} does not have them: {', '.join(others)}", flush=True)
    return [fault.name for fault in known.values() if fault.is_of(MODE)]


def table(results: Iterable[Result]) -> str:
    oracles = {fault.name: "/".join(fault.oracles) for fault in faults()}
    lines = [f"{'fault':<26}{'seconds':>9}{'seed':>12}  found by (expected)"]
    for result in results:
        outcome = result.problem or result.found or "nothing"
        expected = f" ({oracles[result.fault]})" if result.fault in oracles else ""
        lines.append(f"{result.fault:<26}{result.seconds:>9.1f}{result.seed:>12}  {outcome}{expected}")
    return "\n".join(lines)


def main() -> int:
    RESULTS.mkdir(parents=True, exist_ok=True)
    server = f"{Server.from_environment().version}-{MODE}"
    journal = Journal(RESULTS / "planted.json")
    names = wanted()
    results = []
    for name in [NONE, *names]:
        result = journal.get(server, name)
        if result is None or not result.is_final:
            print(f"{name}: searching for up to {MINUTES:g} min", flush=True)
            result = search(name, server)
            for _ in range(RETRIES):
                if result.problem is None or name == NONE or os.environ.get("SEED"):
                    break
                print(f"{name}: {result.problem}", flush=True)
                result = search(name, server)
            journal.put(result)
        print(table([result]).splitlines()[1], flush=True)
        results.append(result)
        if name == NONE and not result.is_as_wanted:
            sys.exit("The attack must find nothing where nothing is planted.")
    print(f"\nPostgreSQL {server}, up to {MINUTES:g} min for each fault\n{table(results)}")
    planted = [result for result in results if result.fault != NONE]
    missed = [result.fault for result in planted if not result.is_as_wanted]
    if seconds := [result.seconds for result in planted if result.is_as_wanted]:
        print(f"\n{len(seconds)} of {len(planted)} found: median {median(seconds):.0f} s, at most {max(seconds):.0f} s")
    if missed:
        print(f"Not found: {', '.join(missed)}")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
