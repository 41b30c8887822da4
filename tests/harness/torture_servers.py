"""Servers of the torture test: a primary, now and then a standby, one clock for both, and what happens to them.

After each incident the primary is made to generate again. Where it only waits for the clock, because IDs are as far
ahead of it as they may be, the clock is set forward, so that clients spend no time waiting.
"""

import os
import random
import re
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import psycopg

from harness.clock import FakeClock, ahead_ms
from harness.cluster import GENERATING, Cluster
from harness.torture_clients import TABLE, Journal, connect
from harness.torture_schedule import Incident

DATABASES = ("one", "two")

# A promoted server stays above the lead that it is allowed itself, so a standby must not be allowed less than its
# primary was: whatever the primary was set to meanwhile, a new standby begins with this.
CONF = f"""{GENERATING}
id_gen.max_lead = 5s
log_min_messages = log
log_checkpoints = off
wal_keep_size = 1GB
wal_retrieve_retry_interval = 200ms
# These measure by the wall clock.
wal_sender_timeout = 0
wal_receiver_timeout = 0
"""

AHEAD = "53400"
JUMPED = "the clock jumped forward"
REINITIALIZED = "all server processes terminated; reinitializing"
SETTLE_SECONDS = 60.0
CRASH_SECONDS = 5.0
RETRY_SECONDS = 0.05
ATTEMPTS = 20
FLUTTER_STEPS = 12
FLUTTER_S = 0.08

# How far the clock of a promoted server may be behind: it allows for 3 s itself.
PROMOTED_BEHIND_S = 2.0

# Whom a kill or a termination may hit, by the process's title.
TITLES = {"client": r" \[local\] ", "keeper": r"^id_gen keeper", "any process": r""}


class Wall:
    """One wall clock for all servers."""

    def __init__(self) -> None:
        self._clocks: dict[str, FakeClock] = {}
        self._ahead_s = 0.0
        self._latest = time.time()

    def begin(self, server: str) -> FakeClock:
        """The clock for a server that is about to start."""
        return self._clocks.setdefault(server, FakeClock(self._ahead_s))

    def end(self, server: str) -> None:
        """Leaves a server alone that is gone."""
        del self._clocks[server]

    def step(self, seconds: float, trusted: bool = True) -> None:
        """Sets the clock. What it shows up to then counts as its latest, unless no server has `trusted` it."""
        if trusted:
            self._latest = max(self._latest, self._now())
        self._ahead_s += seconds
        for clock in self._clocks.values():
            clock.step(seconds)

    @property
    def behind_s(self) -> float:
        """By how much it is behind the latest time it has shown."""
        return max(0.0, self._latest - self._now())

    def _now(self) -> float:
        return time.time() + self._ahead_s


class Servers:
    """The primary, the standby if there is one, their clock, and the methods for everything that happens to them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.where = directory / "primary"
        self.count: Counter[str] = Counter()
        self.wrong: list[str] = []
        """What should not have happened, apart from what the clients' records prove."""
        self._wall = Wall()
        self._journal = Journal(directory, "driver")
        self._started = 0
        self._standby: Cluster | None = None
        self._primary = self._new_server()

    def prepare(self) -> None:
        """Makes the databases, and lets clients in."""
        self._primary.psql(f"CREATE DATABASE {DATABASES[0]}")
        self._primary.psql(f"CREATE EXTENSION id_gen; {TABLE}", DATABASES[0])
        self._primary.psql(f"CREATE DATABASE {DATABASES[1]} TEMPLATE {DATABASES[0]}")
        self._announce()

    def close(self) -> None:
        self._retire(self._primary)
        if self._standby is not None:
            self._retire(self._standby)

    def apply(self, incident: Incident) -> str:
        """Lets it happen, makes the primary generate again, and says in a few words what happened."""
        what, _, whom = incident.kind.partition(" ")
        story = self._happen(incident, what, whom)
        self._settle()
        return story

    def _happen(self, incident: Incident, what: str, whom: str) -> str:
        match what, whom:
            case "kill", "postmaster":
                return "kill -9 of the postmaster" + self._kill_postmaster(incident.step_s)
            case "kill", _:
                return self._kill(incident, whom)
            case "immediate", _:
                return "immediate stop" + self._stop_immediately(incident.step_s)
            case "failover", _:
                return self._fail_over()
            case "restart", _:
                return self._restart(incident)
            case "terminate", _:
                return self._terminate(incident, whom)
            case "reload", _:
                return self._reload(incident)
            case "new", _:
                return self._build_standby()
            case "clock", "back":
                return self._back(incident)
            case "clock", "forward":
                return self._forward(incident)
            case "clock", "flutter":
                return self._flutter(incident)
            case "clock", "jump":
                return self._jump(incident)
            case "clock", "jump while down":
                return self._jump_while_down(incident)
        raise ValueError(f"nobody knows how to do this: {incident.kind}")

    # Crashes

    def _kill(self, incident: Incident, whom: str) -> str:
        for _ in range(ATTEMPTS):
            since = self._primary.log_position
            pid, title = self._victim(incident, whom)
            with suppress(ProcessLookupError):
                self._primary.kill9(pid)
                if self._reinitialized(since):
                    self._count_crash("processes killed")
                    return f"kill -9 of {pid}, {title}"
        raise RuntimeError(f"killing processes does not make {self._primary.name} crash")

    def _reinitialized(self, since: int) -> bool:
        """Whether the server notices a crash; it does not if the process was about to end by itself."""
        deadline = time.monotonic() + CRASH_SECONDS
        while time.monotonic() < deadline:
            if REINITIALIZED in self._primary.log(since):
                return True
            time.sleep(RETRY_SECONDS)
        return False

    def _victim(self, incident: Incident, whom: str) -> tuple[int, str]:
        deadline = time.monotonic() + SETTLE_SECONDS
        while time.monotonic() < deadline:
            processes = self._primary.processes()
            found = sorted(pid for pid, title in processes.items() if re.search(TITLES[whom], title))
            if found:
                pid = found[int(incident.pick * len(found))]
                return pid, processes[pid]
            time.sleep(RETRY_SECONDS)
        raise TimeoutError(f"there is no process to kill: {whom}")

    def _kill_postmaster(self, step_s: float) -> str:
        self._primary.kill9()
        self._count_crash("postmasters killed")
        return self._start_again(step_s)

    def _stop_immediately(self, step_s: float) -> str:
        self._primary.stop("immediate")
        self._count_crash("immediate stops")
        return self._start_again(step_s)

    def _count_crash(self, kind: str) -> None:
        self.count["crashes"] += 1
        self.count[f"  {kind}"] += 1

    def _start_again(self, step_s: float) -> str:
        """Starts the primary, after setting the clock if it shall be set."""
        if step_s:
            self._step(step_s)
            self.count["  while a server was down"] += 1
        self._primary.start()
        return f", clock {step_s:+.3f} s while down" if step_s else ""

    def _fail_over(self) -> str:
        # A standby knows when its primary last committed, not what the clock had shown before it was set back.
        put_right = max(0.0, self._wall.behind_s - PROMOTED_BEHIND_S)
        if put_right:
            self._step(put_right)
        old, new = self._primary, self._standby
        if new is None:
            raise RuntimeError("there is no standby to promote")
        old.stop("immediate")
        self._count_crash("immediate stops")
        new.promote()
        self.count["promotions"] += 1
        self._primary, self._standby = new, None
        self._announce()
        self._retire(old)
        return f"failover to {new.name}" + (f", clock put right by {put_right:.3f} s before" if put_right else "")

    # What administrators do

    def _restart(self, incident: Incident) -> str:
        self._primary.stop("fast")
        self.count["clean restarts"] += 1
        return "clean restart" + self._start_again(incident.step_s)

    def _terminate(self, incident: Incident, whom: str) -> str:
        pid, title = self._victim(incident, whom)
        if whom == "client":
            self._primary.psql(f"SELECT pg_terminate_backend({pid})")
        else:
            # pg_terminate_backend() knows only processes that are connected to a database.
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        self.count["terminations"] += 1
        return f"termination of {pid}, {title}"

    def _reload(self, incident: Incident) -> str:
        name, value = incident.setting or ("worker_id", "1")
        self._primary.append_conf(f"id_gen.{name} = {value}")
        self._primary.reload()
        self.count["reloads"] += 1
        return f"reload with {name} = {value}"

    def _build_standby(self) -> str:
        if self._standby is not None:
            self._retire(self._standby)
            self._standby = None
        self._standby = self._new_server(standby_of=self._primary)
        self.count["standbys built"] += 1
        return f"new standby {self._standby.name}"

    # The clock

    def _back(self, incident: Incident) -> str:
        self._step(incident.step_s)
        time.sleep(incident.hold_s)
        if not incident.agreed and -incident.step_s < incident.hold_s:
            return f"clock {incident.step_s:+.3f} s"
        beyond = -incident.step_s + incident.pick
        self._step(beyond)
        return f"clock {incident.step_s:+.3f} s, and {beyond:+.3f} s after {incident.hold_s:.1f} s"

    def _forward(self, incident: Incident) -> str:
        self._step(incident.step_s)
        return f"clock {incident.step_s:+.3f} s"

    def _flutter(self, incident: Incident) -> str:
        dice = random.Random(incident.pick)
        for _ in range(FLUTTER_STEPS):
            self._step(dice.uniform(-FLUTTER_S, FLUTTER_S), counted=False)
            time.sleep(dice.uniform(0, FLUTTER_S))
        self.count["clock steps"] += 1
        return f"{FLUTTER_STEPS} clock steps of up to {FLUTTER_S * 1000:.0f} ms in a row"

    def _jump(self, incident: Incident) -> str:
        return self._distrusted(incident, self._step)

    def _jump_while_down(self, incident: Incident) -> str:
        return self._distrusted(incident, self._kill_postmaster) + ", the postmaster killed before"

    def _distrusted(self, incident: Incident, jump: Callable[[float], object]) -> str:
        seconds = self._wall.behind_s + incident.step_s
        jump(seconds)
        time.sleep(incident.hold_s)
        error = self._answer()
        if error is None or JUMPED not in str(error):
            self.wrong.append(f"a jump of {seconds:+.3f} s was not refused as such: {error}")
        story = f"clock {seconds:+.3f} s, "
        if incident.agreed:
            self._accept_clock()
            return story + "accepted"
        self._step(-seconds, trusted=False)
        return story + "put right"

    def _step(self, seconds: float, counted: bool = True, trusted: bool = True) -> None:
        self._wall.step(seconds, trusted)
        self.count["clock steps"] += counted

    def _accept_clock(self) -> None:
        self._primary.psql("SELECT id_gen_clock_accept()", DATABASES[0])
        self.count["jumps accepted"] += 1

    # How it goes on

    def _settle(self) -> None:
        """Waits until the primary generates. Where it only waits for the clock, the clock is set."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while (error := self._answer()) is not None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self._primary.name} has not generated for {SETTLE_SECONDS:.0f} s: {error}")
            if error.sqlstate == AHEAD and (lead := ahead_ms(error.diag.message_detail)):
                self._step(lead / 1000, counted=False)
                self.count["more steps, to catch up"] += 1
            elif JUMPED in str(error):
                self.wrong.append(f"a jump was refused that nobody made: {error}")
                self._accept_clock()
            else:
                time.sleep(RETRY_SECONDS)

    def _answer(self) -> psycopg.Error | None:
        """Asks for an ID until the server answers, and returns its refusal, if it is one."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while (error := self._probe()) is not None and not error.sqlstate:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self._primary.name} has not answered for {SETTLE_SECONDS:.0f} s: {error}")
            time.sleep(RETRY_SECONDS)
        return error

    def _probe(self) -> psycopg.Error | None:
        """Asks for an ID, and returns what stands in the way."""
        try:
            with connect(self.where, DATABASES[0]) as connection:
                self._journal.note("connected", f"pid {connection.info.backend_pid} at {connection.info.host}")
                self._journal.keep(np.array(connection.execute("SELECT snowflake_next()").fetchone()))
                self._journal.note("probe")
        except psycopg.Error as error:
            self._journal.note_error(error)
            return error
        return None

    def _new_server(self, standby_of: Cluster | None = None) -> Cluster:
        self._started += 1
        name = f"server{self._started}"
        return Cluster(name, conf=CONF, clock=self._wall.begin(name), standby_of=standby_of).__enter__()

    def _retire(self, cluster: Cluster) -> None:
        if cluster.running:
            cluster.stop("immediate")
        shutil.copy(cluster.logfile, self.directory / f"{cluster.name}.log")
        cluster.destroy()
        self._wall.end(cluster.name)

    def _announce(self) -> None:
        """Tells clients where the primary is."""
        new = self.where.with_suffix(".new")
        new.write_text(self._primary.conninfo())
        new.rename(self.where)
