"""A throwaway etcd of one member or several, on free ports of the loopback.

    with Etcd() as etcd:
        etcd.registry           # what id_gen.registry should say
        with etcd.stopped(): ...

Its files lie in a temporary directory. A member is a process of its own, which can be killed, paused and started again.
"""

import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

LOOPBACK = "127.0.0.1"
WAIT_SECONDS = 30.0
POLL_SECONDS = 0.05


def program(name: str) -> Path:
    """A program of etcd's, which `scripts/run` has put on PATH."""
    found = shutil.which(name)
    if found is None:
        raise FileNotFoundError(f"{name} is missing: no Debian package could be unpacked, so it must be on PATH")
    return Path(found)


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on."""
    sockets = [socket.create_server((LOOPBACK, 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Member:
    """One process of etcd."""

    def __init__(self, name: str, directory: Path, client_port: int, peer_port: int) -> None:
        self.name = name
        self.directory = directory
        self.client_url = f"http://{LOOPBACK}:{client_port}"
        self.peer_url = f"http://{LOOPBACK}:{peer_port}"
        self.address = f"{LOOPBACK}:{client_port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, cluster: str) -> None:
        """Starts it, as one of those members; does not wait for it."""
        with (self.directory / f"{self.name}.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    program("etcd"), "--name", self.name, "--data-dir", self.directory / self.name,
                    "--listen-client-urls", self.client_url, "--advertise-client-urls", self.client_url,
                    "--listen-peer-urls", self.peer_url, "--initial-advertise-peer-urls", self.peer_url,
                    "--initial-cluster", cluster, "--unsafe-no-fsync",
                    "--heartbeat-interval", "50", "--election-timeout", "500", "--logger", "zap",
                ],
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip

    def signal(self, number: signal.Signals) -> None:
        if self._process is None:
            raise RuntimeError(f"etcd member {self.name} is not running")
        self._process.send_signal(number)

    def kill(self) -> None:
        """Kills it, as a power cut would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    @property
    def running(self) -> bool:
        return self._process is not None


class Etcd:
    """The members of one etcd."""

    def __init__(self, count: int = 1) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="id_gen_etcd_"))
        ports = free_ports(2 * count)
        self.members = [
            Member(f"m{index}", self.directory, client, peer)
            for index, (client, peer) in enumerate(zip(ports[::2], ports[1::2], strict=True))
        ]

    def __enter__(self) -> "Etcd":
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        for member in self.members:
            member.kill()
        if error is None:
            shutil.rmtree(self.directory)
        else:
            error.add_note(f"The files of etcd are kept in {self.directory}")

    @property
    def registry(self) -> str:
        """The value of `id_gen.registry` that names all members."""
        return ", ".join(f"etcd://{member.address}" for member in self.members)

    def start(self) -> None:
        """Starts the members that do not run, and waits until they answer."""
        cluster = ",".join(f"{member.name}={member.peer_url}" for member in self.members)
        for member in self.members:
            if not member.running:
                member.start(cluster)
        self.await_health()

    def await_health(self) -> None:
        """Waits until a write is acknowledged."""
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            answer = self.ctl("put", "health", "asked", check=False)
            if answer.returncode == 0:
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"etcd does not answer: {answer.stderr}; its files are in {self.directory}")
            time.sleep(POLL_SECONDS)

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Stops all members for as long as the block lasts, without closing their connections."""
        for member in self.members:
            member.signal(signal.SIGSTOP)
        try:
            yield
        finally:
            for member in self.members:
                member.signal(signal.SIGCONT)
            self.await_health()

    def ctl(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Runs etcdctl."""
        endpoints = ",".join(member.address for member in self.members)
        command = [program("etcdctl"), "--endpoints", endpoints, "--command-timeout", "2s", *arguments]
        environment = {"ETCDCTL_API": "3", "PATH": ""}
        done = subprocess.run(command, env=environment, text=True, capture_output=True)
        if check and done.returncode != 0:
            raise RuntimeError(f"etcdctl {' '.join(arguments)} failed: {done.stderr}")
        return done

    def delete(self, prefix: str) -> None:
        """Deletes all keys with a prefix: what nobody should ever do to a fleet."""
        self.ctl("del", "--prefix", prefix)
