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
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from attack.faults import ROOT, faults
from harness import Server

RESULTS = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target") / "attack"
JOURNAL = RESULTS / "planted.json"
MINUTES = float(os.environ.get("MINUTES") or 20)
MODE = os.environ.get("MODE") or "preloaded"
SERVER = f"{Server.from_environment().version}-{MODE}"

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
    """What came of one search, which could take so many minutes: the oracle, or why the attack ended in another way."""

    fault: str
    server: str
    minutes: float
    seed: int
    seconds: float
    found: str | None
    problem: str | None

    @property
    def is_as_wanted(self) -> bool:
        return self.problem is None and (self.found is None) == (self.fault == NONE)

    @property
    def is_final(self) -> bool:
        """Whether to search again is of no use."""
        return self.problem is None and (self.found is not None or self.minutes >= MINUTES)

    def __str__(self) -> str:
        oracles = {fault.name: f" ({'/'.join(fault.oracles)})" for fault in faults()}
        outcome = f"{self.problem or self.found or 'nothing'}{oracles.get(self.fault, '')}"
        return f"{self.fault:<26}{self.seconds:>9.1f}{self.seed:>12}  {outcome}"


def journal() -> dict[str, Result]:
    """The results so far."""
    if not JOURNAL.exists() or os.environ.get("FRESH"):
        return {}
    results = (Result(**each) for each in json.loads(JOURNAL.read_text()))
    return {f"{result.server} {result.fault}": result for result in results}


def search(fault: str) -> Result:
    """Runs the attack on servers with a fault, until it finds it or its time is over."""
    seed = int(os.environ.get("SEED") or secrets.randbelow(1_000_000))
    env = {key: value for key, value in os.environ.items() if key != "ID_GEN_PLANTED"}
    env |= {"MINUTES": f"{MINUTES:g}", "SEED": str(seed), "SHRINK": "0"}
    if fault != NONE:
        env["ID_GEN_PLANTED"] = fault
    log = RESULTS / f"{fault}.log"
    began = time.monotonic()
    command = [sys.executable, "-m", "attack"]
    with log.open("wb") as output:
        # A group of its own, to be stopped as a whole.
        attack = subprocess.Popen(command, env=env, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            ended = f"ended with status {attack.wait(MINUTES * 60 + PATIENCE_S)}"
        except subprocess.TimeoutExpired:
            ended = "did not end"
        finally:
            stop(attack)
    seconds = round(time.monotonic() - began, 1)
    found = FOUND.fullmatch(([""] + log.read_text(errors="replace").strip().splitlines())[-1])
    oracle = found[1] if found and ended == "ended with status 1" else None
    problem = None if oracle or ended == "ended with status 0" else f"{ended}: see {log}"
    return Result(fault, SERVER, MINUTES, seed, seconds, oracle, problem)


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


def main() -> int:
    RESULTS.mkdir(parents=True, exist_ok=True)
    known, results = journal(), []
    for name in [NONE, *wanted()]:
        result = known.get(f"{SERVER} {name}")
        if result is None or not result.is_final:
            print(f"{name}: searching for up to {MINUTES:g} min", flush=True)
            result = search(name)
            for _ in range(0 if name == NONE or os.environ.get("SEED") else RETRIES):
                if result.problem is None:
                    break
                print(f"{name}: {result.problem}", flush=True)
                result = search(name)
            known[f"{SERVER} {name}"] = result
            new = JOURNAL.with_suffix(".new")
            new.write_text(json.dumps([asdict(each) for each in known.values()], indent=2) + "\n")
            new.rename(JOURNAL)
        print(result, flush=True)
        results.append(result)
        if name == NONE and not result.is_as_wanted:
            sys.exit("The attack must find nothing where nothing is planted.")
    print(f"\nPostgreSQL {SERVER}, up to {MINUTES:g} min for each fault")
    print(f"{'fault':<26}{'seconds':>9}{'seed':>12}  found by (expected)", *results, sep="\n")
    planted = results[1:]
    missed = [result.fault for result in planted if not result.is_as_wanted]
    if seconds := [result.seconds for result in planted if result.is_as_wanted]:
        print(f"\n{len(seconds)} of {len(planted)} found: median {median(seconds):.0f} s, at most {max(seconds):.0f} s")
    if missed:
        print(f"Not found: {', '.join(missed)}")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
