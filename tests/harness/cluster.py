"""A throwaway PostgreSQL cluster with a verb for everything a test does to a server.

    with Cluster(conf=GENERATING) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        cluster.kill9()
        cluster.start()

The names follow PostgreSQL's own Cluster.pm. A cluster listens only on a Unix socket in a directory of its own, so no
two of them can meet, and no other server of the machine can be reached by mistake. Leaving the `with` block stops the
server and removes its files; a failed test keeps the files and says where they are. Nothing here sleeps and hopes:
every wait polls a condition, and fails naming it.
"""

import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import psycopg

from harness.clock import FakeClock
from harness.network import Namespace
from harness.server import Server, environment
from harness.shim import EMULATED
from harness.template import new_data_directory
from harness.waiting import wait_until

# Compiling queries took a tenth of what the servers do, for no test: it is the attacker whose servers do it.
DEFAULTS = """
fsync = off
jit = off
log_line_prefix = '%m [%p] '
timezone = 'UTC'
# A standby that connects late finds what it needs: segments are small.
wal_keep_size = 64MB
"""

# How a server comes by the library: from its start, or only where it is used, as PostgreSQL 17 and later allow.
PRELOADED = (os.environ.get("MODE") or "preloaded") == "preloaded"
PRELOAD = "shared_preload_libraries = 'id_gen'\n"

# The processes that the view shows, titled nearly as PostgreSQL does it.
TITLES_BY_SQL = """
SELECT pid || ' ' || CASE backend_type
         WHEN 'client backend' THEN format('%s %s [local] ', usename, datname)
         ELSE backend_type
       END
  FROM pg_stat_activity
 WHERE pid <> pg_backend_pid()
"""

# What a server needs before it generates snowflakes.
GENERATING = f"{PRELOAD if PRELOADED else ''}id_gen.worker_id = 1\n"

# How the title of every process of a server begins, once it has one.
TITLE = "postgres: "

SHUTDOWN_SIGNALS = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}

ERROR_REPORT = re.compile(
    r"^(?:psql:.*?: )?(?:ERROR|FATAL):  (?P<sqlstate>\w{5}): (?P<message>.*?)$"
    r"(?:\nDETAIL:  (?P<detail>.*?)$)?"
    r"(?:\nHINT:  (?P<hint>.*(?:\n(?!CONTEXT:|LOCATION:|psql:).+)*)$)?",
    re.MULTILINE,
)


# What psql passes on as it stands, in one message, and prints what comes of it.
ONE_STATEMENT = re.compile(r"\s*(?!COPY\b)\w[^;\\]*;?\s*", re.IGNORECASE)


class SqlError(Exception):
    """A statement that the server refused, taken apart."""

    def __init__(self, report: str) -> None:
        super().__init__(report.strip())
        found = ERROR_REPORT.search(report)
        parts = found.groupdict() if found else {}
        self.sqlstate: str | None = parts.get("sqlstate")
        self.message: str | None = parts.get("message")
        self.detail: str | None = parts.get("detail")
        self.hint: str | None = parts.get("hint")

    @classmethod
    def of(cls, error: psycopg.Error) -> "SqlError":
        """The same as psql would report it."""
        diag = error.diag
        if error.sqlstate is None:
            return cls(str(error))
        parts = [f"{diag.severity_nonlocalized or diag.severity}:  {error.sqlstate}: {diag.message_primary}"]
        more = (("DETAIL", diag.message_detail), ("HINT", diag.message_hint), ("CONTEXT", diag.context))
        return cls("\n".join(parts + [f"{name}:  {text}" for name, text in more if text]))


class Cluster:
    """One data directory and the server process on it."""

    # Where it takes connections beside its socket.
    listens_on = ""
    data_directory = "data"

    def __init__(
        self,
        name: str = "main",
        *,
        conf: str = "",
        env: Mapping[str, str] | None = None,
        clock: FakeClock | None = None,
        standby_of: "Cluster | None" = None,
        copy_of: "Cluster | None" = None,
        clone_of: "Cluster | None" = None,
        upgrade_of: "Cluster | None" = None,
        server: Server | None = None,
        port: int | None = None,
        namespace: Namespace | None = None,
        initdb: Sequence[str] = (),
    ) -> None:
        """`conf` is added to postgresql.conf, `env` to the environment of the server process, which sees `clock`, and
        `initdb` to that program's options. A `port` tells servers apart for people: their sockets never meet. With a
        `namespace` it has a network of its own."""
        self.name = name
        self.server = server or Server.from_environment()
        self._conf = conf
        self._env = dict(env or {})
        self._initdb = initdb
        # What the server's command line has in addition, from the next start on.
        self.arguments: list[str] = []
        self._namespace = namespace
        self._original = standby_of or copy_of
        self._is_standby = standby_of is not None
        self._cloned = clone_of
        self._predecessor = upgrade_of
        self._process: subprocess.Popen[bytes] | None = None
        # While somebody waits: a connection to each database that was asked.
        self._asking: dict[str, psycopg.Connection] | None = None
        self._kept = False
        self.port = port
        self.base = self._directory(self.server.run_directory)
        self.socket_dir = self._directory(Path("/tmp"))
        self.data = self.base / self.data_directory
        self.logfile = self.base / "log"
        if clock is not None:
            self._env |= clock.environment(self.base)

    # Life and death of the server

    def __enter__(self) -> "Cluster":
        try:
            self.init()
            self.take_over()
            self.start()
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._kept:
            return
        if self.running:
            self.stop("immediate")
        # Also a failed assertion of pytest's own, which is no Exception; but not Ctrl-C.
        if error is not None and not isinstance(error, KeyboardInterrupt | SystemExit):
            shutil.rmtree(self.socket_dir)
            error.add_note(f"The files of cluster {self.name} are kept in {self.base}")
        else:
            self.destroy()

    def init(self) -> None:
        """Creates the data directory: a new one, for a standby or a copy from a base backup of the other, or for a
        clone as a copy of its files."""
        if self._cloned is not None:
            self._clone(self._cloned)
        elif self._original is None:
            # Two servers of an upgrade must agree, and those before 18 have no checksums by default.
            old = self._predecessor.server.version if self._predecessor else self.server.version
            checksums = ["--no-data-checksums"] if old < 18 <= self.server.version else []
            new_data_directory(self.server, self.data, [*checksums, *self._initdb])
            self.append_conf(DEFAULTS)
        else:
            self._run_as_owner(
                "pg_basebackup", "--pgdata", self.data, "--dbname", self._original.conninfo(),
                "--checkpoint=fast", "--no-sync", *(["--write-recovery-conf"] if self._is_standby else []),
            )  # fmt: skip
        self.append_conf(self._conf)
        if self.port is not None:
            self.append_conf(f"port = {self.port}")

    def take_over(self, *options: str) -> None:
        """Fills the cluster by pg_upgrade with what its (stopped) predecessor holds; `--check` only looks."""
        if self._predecessor is not None:
            self._run_as_owner(
                "pg_upgrade", "--username=postgres", "--no-sync",
                "--old-bindir", self._predecessor.server.bindir, "--old-datadir", self._predecessor.data,
                "--new-bindir", self.server.bindir, "--new-datadir", self.data, "--socketdir", self.socket_dir,
                *options,
            )  # fmt: skip

    def start(self) -> None:
        """Starts the server, and waits until it takes connections."""
        postgres = [self.server.bindir / "postgres", "-D", self.data, "-k", self.socket_dir, "-h", self.listens_on]
        postgres += self.arguments
        env = environment() | self._env
        self._process = self.server.start_as_owner(postgres, self.logfile, env, self._namespace)
        self.wait_until(self._ready, "taking connections")

    def stop(self, mode: str = "fast") -> None:
        """Stops the server: `smart`, `fast` or `immediate`, as for pg_ctl."""
        self.begin_stop(mode)
        self.await_stop()

    def begin_stop(self, mode: str = "fast") -> None:
        """Tells the server to stop, and does not wait for it."""
        self._signal(SHUTDOWN_SIGNALS[mode])

    def await_stop(self) -> None:
        """Waits until the server has stopped."""
        self.wait_until(lambda: not self.running, "gone")
        self._process = None

    def restart(self, mode: str = "fast") -> None:
        self.stop(mode)
        self.start()

    def reload(self) -> None:
        """Makes the server read its configuration again. Sessions follow soon after: poll for what must change."""
        self._signal(signal.SIGHUP)

    def kill9(self, pid: int | None = None) -> None:
        """Kills the whole server, as a power cut would, or one backend of it."""
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
            return
        self._halt([self.pid])
        orphans = _children(self.pid)
        self._signal(signal.SIGKILL)
        self.await_stop()
        self.wait_until(lambda: not any(map(_alive, orphans)), "rid of the killed server's backends")

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Lets all processes of the server stand still for as long as the block lasts, as a suspended machine does."""
        processes = [self.pid]
        try:
            # The postmaster first, so that it starts no process that the list misses.
            self._halt(processes)
            processes += _children(self.pid)
            self._halt(processes[1:])
            yield
        finally:
            for pid in processes:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def promote(self) -> None:
        """Turns a standby into a primary."""
        self.psql("SELECT pg_promote()")

    def rewind_to(self, successor: "Cluster") -> None:
        """Turns this stopped server into a standby of the one that was promoted in its place."""
        # Before 16 its control file says only then that it is on another timeline.
        successor.psql("CHECKPOINT")
        self._run_as_owner(
            "pg_rewind", "--target-pgdata", self.data, "--source-server", successor.conninfo(),
            "--write-recovery-conf", "--no-sync",
        )  # fmt: skip

    def keep(self) -> None:
        """Leaves the server running when the `with` block ends."""
        self._kept = True

    def destroy(self) -> None:
        """Removes every file of the (stopped) cluster, also the memory of it that a member of a fleet has left."""
        self._forget_memory()
        shutil.rmtree(self.base, ignore_errors=True)
        shutil.rmtree(self.socket_dir, ignore_errors=True)

    def _forget_memory(self) -> None:
        if self.data.exists():
            directory = self.data.stat()
            Path(f"/dev/shm/id_gen.{directory.st_dev}.{directory.st_ino}").unlink(missing_ok=True)

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The postmaster's process ID."""
        if self._process is None:
            raise RuntimeError(f"cluster {self.name} is not running")
        return self._process.pid

    def processes(self) -> dict[int, str]:
        """The processes of the server and their titles, for example `id_gen keeper`."""
        if EMULATED:
            # They are titles within QEMU, and the system sees those of QEMU.
            try:
                lines = self.psql(TITLES_BY_SQL).splitlines()
            except SqlError:
                lines = []
            return {int(pid): title for pid, _, title in (line.partition(" ") for line in lines)}
        titles = {pid: _command_line(pid) for pid in _children(self.pid)}
        return {pid: title.removeprefix(TITLE) for pid, title in titles.items() if title.startswith(TITLE)}

    # Settings and log

    def append_conf(self, text: str) -> None:
        with (self.data / "postgresql.conf").open("a") as conf:
            conf.write(f"\n{text}\n")

    def log(self, since: int = 0) -> str:
        """The server log from an offset that `log_position` gave."""
        with self.logfile.open("rb") as log:
            log.seek(since)
            return log.read().decode(errors="replace")

    @property
    def log_position(self) -> int:
        return self.logfile.stat().st_size

    def wait_for_log(self, pattern: str, since: int = 0) -> None:
        self.wait_until(lambda: re.search(pattern, self.log(since)), f"logging {pattern!r}")

    # Talking to the server

    def conninfo(self, dbname: str = "postgres") -> str:
        """Where the server is, in libpq's words."""
        port = "" if self.port is None else f" port={self.port}"
        return f"host={self.socket_dir}{port} user=postgres dbname={dbname}"

    def connect(self, dbname: str = "postgres", **options: str) -> psycopg.Connection:
        """A psycopg connection, in autocommit mode."""
        return psycopg.connect(self.conninfo(dbname), autocommit=True, **options)

    def run(self, program: str, *arguments: str | Path, dbname: str = "postgres", stdin: str = "") -> str:
        """Runs a client program of this server's version (psql, pg_dump, ...) and returns what it prints."""
        where = {"PGHOST": str(self.socket_dir), "PGUSER": "postgres", "PGDATABASE": dbname}
        if self.port is not None:
            where["PGPORT"] = str(self.port)
        done = subprocess.run(
            [self.server.bindir / program, *arguments],
            env=environment() | where,
            input=stdin,
            text=True,
            capture_output=True,
        )
        if done.returncode != 0:
            raise SqlError(done.stderr)
        return done.stdout.removesuffix("\n")

    def psql(self, sql: str, dbname: str = "postgres") -> str:
        """Runs SQL as psql does, and returns the bare output: a line per row, `|` between columns."""
        if ONE_STATEMENT.fullmatch(sql):
            return self._query(sql, dbname)
        options = ("-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-v", "VERBOSITY=verbose")
        return self.run("psql", *options, dbname=dbname, stdin=sql)

    @contextmanager
    def database(self, name: str, owner: str = "postgres", template: str = "template0") -> Iterator[str]:
        """A new database, empty unless it is a copy of another, for as long as the block lasts."""
        self.psql(f"CREATE DATABASE {name} OWNER {owner} TEMPLATE {template}")
        try:
            yield name
        finally:
            self.psql(f"DROP DATABASE {name}")

    def poll_until(self, query: str, dbname: str = "postgres", expected: str = "t") -> None:
        """Waits until a query gives the expected answer; a server that is not up yet counts as not yet."""
        answer = ""

        def as_expected() -> bool:
            nonlocal answer
            try:
                answer = self.psql(query, dbname)
            except SqlError as error:
                answer = str(error)
            return answer == expected

        self.wait_until(as_expected, f"answering {expected!r} to {query!r}", lambda: f"its last answer: {answer}")

    def wait_for_catchup(self, standby: "Cluster") -> None:
        """Waits until a standby follows this server, and has replayed what was written here so far.

        A base backup may hold all of it, so the position alone does not say that the standby hears of what comes next.
        """
        position = self.psql("SELECT pg_current_wal_lsn()")
        standby.poll_until(
            f"SELECT pg_last_wal_replay_lsn() >= '{position}'"
            " AND EXISTS (SELECT FROM pg_stat_wal_receiver WHERE status = 'streaming')"
        )

    def wait_until(self, condition: Callable[[], Any], what: str, more: Callable[[], str] | None = None) -> None:
        """Waits until a condition of the test's own holds. What it asks of this server comes over one connection: a new
        process for each look would be most of what the tests cost."""
        if self._asking is None:
            self._asking = asking = {}
            try:
                self.wait_until(condition, what, more)
            finally:
                self._asking = None
                for connection in asking.values():
                    connection.close()
            return
        wait_until(
            condition, f"cluster {self.name} is {what}", more or (lambda: f"the end of its log:\n{self._log_end()}")
        )

    # How it is done

    def _query(self, sql: str, dbname: str) -> str:
        """What psql prints of one statement, whose process would take more time than most statements."""
        try:
            result = self._result(sql, dbname)
        except psycopg.Error as error:
            raise SqlError.of(error) from error
        assert result is not None
        values = (
            (result.get_value(row, column) or b"" for column in range(result.nfields)) for row in range(result.ntuples)
        )
        return b"\n".join(map(b"|".join, values)).decode()

    def _result(self, sql: str, dbname: str) -> psycopg.pq.abc.PGresult | None:
        asking = self._asking
        kept = asking.pop(dbname, None) if asking is not None else None
        connection = kept or self.connect(dbname)
        try:
            return connection.execute(sql.encode()).pgresult
        except psycopg.Error:
            if kept is None or not kept.closed:
                raise
        finally:
            if asking is None or connection.closed or dbname in asking:
                connection.close()
            else:
                asking[dbname] = connection
        # The server was started again since the last look.
        return self._result(sql, dbname)

    def _directory(self, parent: Path) -> Path:
        path = Path(tempfile.mkdtemp(prefix=f"id_gen_{self.name}_", dir=parent))
        if owner := self.server.as_owner.get("user"):
            shutil.chown(path, owner, owner)
        return path

    def _clone(self, other: "Cluster") -> None:
        with other.paused():
            self.copy_files(other)

    def copy_files(self, other: "Cluster") -> None:
        """Copies the files of another server, which has stopped or stands still."""
        subprocess.run(["cp", "-a", other.data, self.data], check=True)
        self._forget_process()

    def _forget_process(self) -> None:
        # On a machine of its own, nobody would take the other's process for this server's.
        (self.data / "postmaster.pid").unlink(missing_ok=True)

    def _run_as_owner(self, program: str, *arguments: str | Path) -> None:
        done = subprocess.run(
            [self.server.bindir / program, *arguments],
            env=environment() | self._env,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            **self.server.as_owner | {"cwd": self.base},
        )
        if done.returncode != 0:
            raise RuntimeError(f"{program} failed for cluster {self.name}:\n{done.stdout}")

    def _signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def _halt(self, processes: list[int]) -> None:
        """Stops processes, and waits until they stand still. A signal is only on its way when `kill` returns: on
        another processor the postmaster may be in the midst of a fork, and a backend in that of a write."""
        for pid in processes:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        self.wait_until(lambda: all(_state(pid) in ("T", "Z", None) for pid in processes), "standing still")

    def _ready(self) -> bool:
        if not self.running:
            raise RuntimeError(f"cluster {self.name} did not start; the end of its log:\n{self._log_end()}")
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) >= 8 and lines[0] == str(self.pid) and lines[7].strip() in ("ready", "standby")

    def _log_end(self) -> str:
        return "\n".join(self.log().splitlines()[-20:])


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _alive(pid: int) -> bool:
    """Whether a process still runs; one that has ended and waits for its parent to notice does not."""
    return _state(pid) not in ("Z", None)


def _state(pid: int) -> str | None:
    """A process's state as `ps` shows it: `T` is stopped, `Z` has ended; None is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None
