"""A throwaway cluster whose server Patroni starts, stops, promotes and rewinds, with etcd to agree on who leads.

    with Patroni("first", etcd, parameters) as first, Patroni("second", etcd, parameters) as second:
        first.kill9()
        second.poll_until("SELECT NOT pg_is_in_recovery()")

The first that starts makes the database; those that come later are its standbys. Servers listen on the loopback, on a
port of their own, and what they log is in one file with what Patroni does. Patroni is Debian's, which Debian's Python
runs with the packages that lie beside it.
"""

import json
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from harness.cluster import Cluster
from harness.etcd import Etcd, program
from harness.ports import LOOPBACK, free_port
from harness.server import environment

HTTP_SECONDS = 2
SCOPE = "pair"

# How long a leader may be silent: as short as Patroni 3.0 lets it be, and not less than loop_wait and twice
# retry_timeout. Later versions raise it to 20 s.
LEASE_SECONDS = 8
TERMS = {"ttl": LEASE_SECONDS, "loop_wait": 1, "retry_timeout": 3}

TRUSTED = ["local all all trust", "host all all 127.0.0.1/32 trust", "host replication all 127.0.0.1/32 trust"]

# For servers whose disk nobody will miss.
CARELESS = {"fsync": "off", "log_line_prefix": "%m [%p] ", "timezone": "UTC"}


class Patroni(Cluster):
    """One node: a data directory, Patroni, and the server that it runs."""

    def __init__(self, name: str, etcd: Etcd, parameters: Mapping[str, str]) -> None:
        """`parameters` are the server's settings: those of all nodes, which the first puts into etcd."""
        super().__init__(name, server=etcd.server, port=free_port())
        self._etcd = etcd
        self._parameters = dict(parameters)
        self._api = f"{LOOPBACK}:{free_port()}"
        self._yaml = self.base / "patroni.yml"

    @property
    def address(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    def init(self) -> None:
        """Writes what Patroni needs; Patroni makes the data directory."""
        # JSON is YAML.
        self._yaml.write_text(json.dumps(self._configuration(), indent=2))

    def start(self) -> None:
        """Starts Patroni, and waits until the server takes connections: a primary, or a standby of one."""
        patroni = Path(program("patroni"))
        installed = patroni.parents[1]
        libraries = [str(path.parent) for path in installed.glob("lib/*/libpq.so.5")]
        with self.logfile.open("ab") as log:
            self._process = subprocess.Popen(
                [patroni, self._yaml],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=environment()
                | {
                    "PYTHONPATH": str(installed / "lib/python3/dist-packages"),
                    "LD_LIBRARY_PATH": ":".join(libraries),
                },
                **self.server.as_owner,
            )
        self.wait_until(self._ready, "taking connections")

    def begin_stop(self, mode: str = "fast") -> None:
        """Tells Patroni to stop, which stops the server; or kills both, for `immediate`."""
        if mode == "immediate":
            self.kill9()
        else:
            self._patroni.terminate()

    def kill9(self, pid: int | None = None) -> None:
        if pid is None and self._patroni.poll() is None:
            self._patroni.kill()
            self._patroni.wait()
        if pid is not None or self._postmaster() is not None:
            super().kill9(pid)

    @contextmanager
    def unattended(self) -> Iterator[None]:
        """Lets Patroni stand still for as long as the block lasts; the server goes on, if it is not paused, too."""
        self._patroni.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._patroni.send_signal(signal.SIGCONT)

    @property
    def running(self) -> bool:
        return self._process is not None and (self._process.poll() is None or self._postmaster() is not None)

    @property
    def pid(self) -> int:
        pid = self._postmaster()
        if pid is None:
            raise RuntimeError(f"no server of cluster {self.name} is running")
        return pid

    @property
    def _patroni(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError(f"cluster {self.name} was not started")
        return self._process

    def _postmaster(self) -> int | None:
        """The server's process, as long as it runs; Patroni is not its parent."""
        try:
            pid = int((self.data / "postmaster.pid").read_text().splitlines()[0])
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError, IndexError):
            return None
        # One that was killed leaves the file, and another process may get its number.
        return pid if str(self.data).encode() in command else None

    def _ready(self) -> bool:
        if self._patroni.poll() is not None:
            raise RuntimeError(f"Patroni of cluster {self.name} ended; the end of its log:\n{self._log_end()}")
        try:
            with urlopen(f"http://{self._api}/health", timeout=HTTP_SECONDS):
                return True
        except (URLError, ConnectionError, TimeoutError):
            return False

    def _configuration(self) -> dict[str, object]:
        return {
            "scope": SCOPE,
            "name": self.name,
            "restapi": {"listen": self._api, "connect_address": self._api},
            "etcd3": {"hosts": [f"{LOOPBACK}:{member.port}" for member in self._etcd.members]},
            "bootstrap": {
                "dcs": TERMS | {"postgresql": {"use_pg_rewind": True, "parameters": CARELESS | self._parameters}},
                "initdb": [{"encoding": "UTF8"}, {"locale": "C"}, "no-sync"],
            },
            "postgresql": {
                "listen": self.address,
                "connect_address": self.address,
                "data_dir": str(self.data),
                "bin_dir": str(self.server.bindir),
                "pgpass": str(self.base / "pgpass"),
                "authentication": {"superuser": {"username": "postgres"}, "replication": {"username": "replicator"}},
                "pg_hba": TRUSTED,
                "basebackup": [{"checkpoint": "fast"}, "no-sync"],
                "parameters": {"unix_socket_directories": str(self.socket_dir)},
            },
        }
