"""A throwaway etcd of one or three members on free ports of the loopback, with a verb for what a test does to them.

    with Etcd(members=3, tls=True) as etcd:
        cluster.append_conf(f"id_gen.registry = '{etcd.endpoints}'")
        etcd.leader().kill9()

The members run as the servers' user, set up by flags, so that the JSON gateway is on. Leaving the `with` block kills
them and removes their files; a failed test keeps the files and says where they are.
"""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from base64 import b64decode
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any

from harness.network import Namespace
from harness.ports import LOOPBACK, free_port
from harness.server import Server
from harness.waiting import WAIT_SECONDS, wait_until

ANY = "0.0.0.0"
HEALTH_TIMEOUT = "500ms"
# How long members that stutter go on, and how long they stand still then.
STUTTER_GOING_SECONDS, STUTTER_STANDING_SECONDS = 0.05, 0.2

ROOT, ROOT_PASSWORD = "root", "toor"


class Member:
    """One member: a data directory and the process on it."""

    def __init__(self, etcd: "Etcd", name: str) -> None:
        self.etcd = etcd
        self.name = name
        self.data = etcd.base / name
        self.logfile = etcd.base / f"{name}.log"
        self.port, self.peer_port = free_port(), free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http{'s' if self.etcd.tls else ''}://{LOOPBACK}:{self.port}"

    @property
    def peer_url(self) -> str:
        return f"http://{LOOPBACK}:{self.peer_port}"

    @property
    def endpoint(self) -> str:
        """As the setting names it."""
        return self.url.replace("http", "etcd", 1)

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError(f"etcd's member {self.name} is not running")
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Starts it, and waits until it takes part."""
        self.begin_start()
        self.await_start()

    def begin_start(self) -> None:
        command, env = [program("etcd"), *self._flags()], {"PATH": os.environ["PATH"]}
        self._process = self.etcd.server.start_as_owner(command, self.logfile, env, self.etcd.namespace)

    def await_start(self) -> None:
        wait_until(self._is_healthy, f"etcd's member {self.name} is healthy", self.log)

    def stop(self) -> None:
        """Stops it as its administrator would."""
        self._end(signal.SIGTERM)

    def kill9(self) -> None:
        """Kills it as a power cut would."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """Lets it stand still, with all its connections open."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def restart(self) -> None:
        self.stop()
        self.start()

    def restore(self, snapshot: Path) -> None:
        """Starts it again with the state of Etcd.save(), as the same cluster: its only member."""
        self.stop()
        shutil.rmtree(self.data)
        self.etcd.ctl(
            "snapshot", "restore", str(snapshot),
            f"--name={self.name}",
            f"--data-dir={self.data}",
            f"--initial-cluster={self.name}={self.peer_url}",
            f"--initial-advertise-peer-urls={self.peer_url}",
        )  # fmt: skip
        if owner := self.etcd.server.as_owner.get("user"):
            for path in (self.data, *self.data.rglob("*")):
                shutil.chown(path, owner, owner)
        self.start()

    def log(self) -> str:
        return self.logfile.read_text(errors="replace")

    def _flags(self) -> list[str]:
        flags = [
            f"--name={self.name}",
            f"--data-dir={self.data}",
            f"--listen-client-urls={self.url.replace(LOOPBACK, ANY) if self.etcd.namespace else self.url}",
            f"--advertise-client-urls={self.url}",
            f"--listen-peer-urls={self.peer_url}",
            f"--initial-advertise-peer-urls={self.peer_url}",
            f"--initial-cluster={','.join(f'{each.name}={each.peer_url}' for each in self.etcd.members)}",
            "--heartbeat-interval=50",
            "--election-timeout=500",
            *self.etcd.flags,
        ]
        if self.etcd.tls:
            flags += [
                "--client-cert-auth",
                f"--trusted-ca-file={self.etcd.ca_file}",
                f"--cert-file={self.etcd.cert_file}",
                f"--key-file={self.etcd.key_file}",
            ]
        return flags

    def _is_healthy(self) -> bool:
        if not self.running:
            raise RuntimeError(f"etcd's member {self.name} ended; its log:\n{self.log()}")
        try:
            timeouts = [f"--{each}-timeout={HEALTH_TIMEOUT}" for each in ("command", "dial")]
            self.etcd.ctl("endpoint", "health", *timeouts, members=[self])
        except RuntimeError:
            return False
        return True

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            # One that stands still would not see it.
            self._process.send_signal(signal.SIGCONT)
            self._process.wait(WAIT_SECONDS)
            self._process = None


class Etcd:
    """All members, and what a client needs to reach them."""

    def __init__(
        self,
        members: int = 1,
        *,
        tls: bool = False,
        flags: Sequence[str] = (),
        server: Server | None = None,
        namespace: Namespace | None = None,
    ) -> None:
        """With `tls`, members speak HTTPS, and only to who has a certificate; `flags` are added to each command. With a
        `namespace` they are in a network of their own, where they take connections from every cable."""
        self.server = server or Server.from_environment()
        self.namespace = namespace
        self.tls = tls
        self.flags = flags
        self.base = Path(tempfile.mkdtemp(prefix="id_gen_etcd_", dir=self.server.run_directory))
        self.ca_file = self.base / "ca.pem"
        self.cert_file = self.base / "cert.pem"
        self.key_file = self.base / "key.pem"
        self.password_file = self.base / "password"
        self._root: list[str] = []
        if tls:
            self._make_certificates()
        self._give_to_owner()
        self.members = [Member(self, f"m{number}") for number in range(members)]

    def __enter__(self) -> "Etcd":
        try:
            for member in self.members:
                member.begin_start()
            for member in self.members:
                member.await_start()
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for member in self.members:
            member.kill9()
        if error is not None and not isinstance(error, KeyboardInterrupt | SystemExit):
            error.add_note(f"The files of etcd are kept in {self.base}")
        else:
            shutil.rmtree(self.base)

    @property
    def endpoints(self) -> str:
        """All members, as the setting names them."""
        return ",".join(member.endpoint for member in self.members)

    def named(self, addresses: Sequence[str]) -> str:
        """The members by other addresses, as the setting names them."""
        return ",".join(f"etcd://{address}" for address in addresses)

    def leader(self) -> Member:
        """The member that leads, once there is one."""
        found: list[Member] = []

        def is_found() -> bool:
            running = [member for member in self.members if member.running]
            status = json.loads(self.ctl("endpoint", "status", "--write-out=json", members=running))
            leading = [each["Endpoint"] for each in status if _leads(each["Status"])]
            found[:] = [member for member in running if member.url in leading]
            return len(found) == 1

        wait_until(is_found, "one member of etcd leads")
        return found[0]

    @contextmanager
    def stuttering(self) -> Iterator[None]:
        """All members stand still most of the time, as with a disk that takes long for every write."""
        ended = threading.Event()

        def stutter() -> None:
            while not ended.wait(STUTTER_GOING_SECONDS):
                for member in self.members:
                    member.pause()
                ended.wait(STUTTER_STANDING_SECONDS)
                for member in self.members:
                    member.resume()

        with ThreadPoolExecutor(1) as threads:
            stuttered = threads.submit(stutter)
            try:
                yield
            finally:
                ended.set()
                stuttered.result()

    def ctl(self, *arguments: str, members: Sequence[Member] | None = None) -> str:
        """What etcdctl prints; after enable_auth(), to root."""
        done = subprocess.run(
            self._inside(
                program("etcdctl"),
                f"--endpoints={','.join(member.url for member in members or self.members)}",
                *([f"--cacert={self.ca_file}", f"--cert={self.cert_file}", f"--key={self.key_file}"] * self.tls),
                *self._root,
                *arguments,
            ),
            env={"PATH": os.environ["PATH"], "ETCDCTL_API": "3"},
            text=True,
            capture_output=True,
        )
        if done.returncode != 0:
            raise RuntimeError(f"etcdctl {' '.join(arguments)} failed:\n{done.stderr}")
        return done.stdout

    def _inside(self, *command: object) -> list[object]:
        return self.namespace.inside(*command) if self.namespace else list(command)

    def fill(self, size: int) -> None:
        """Puts values of 50 kB until the database has so many bytes. What was put last may not count yet."""
        for number in count():
            [status] = json.loads(self.ctl("endpoint", "status", "--write-out=json"))
            if status["Status"]["dbSize"] >= size:
                return
            self.ctl("put", f"filler{number}", "x" * 50_000)

    def save(self) -> Path:
        """A snapshot of what it has, for Member.restore()."""
        snapshot = self.base / "snapshot"
        self.ctl("snapshot", "save", str(snapshot))
        return snapshot

    def history(self, prefix: str) -> list[tuple[str, str]]:
        """Every key with this prefix and every value that it ever had. Nothing is compacted unless a test does it."""
        status = json.loads(self.ctl("endpoint", "status", "--write-out=json"))
        revision = max(each["Status"]["header"]["revision"] for each in status)
        found: list[tuple[str, str]] = []
        watch = subprocess.Popen(
            self._inside(
                # Who asks may be killed meanwhile, and what is left would keep its output open.
                "timeout", f"{WAIT_SECONDS:.0f}",
                program("etcdctl"),
                f"--endpoints={self.members[0].url}",
                *self._root,
                "watch", "--prefix", prefix, "--rev=1", "--write-out=json",
            ),
            env={"PATH": os.environ["PATH"], "ETCDCTL_API": "3"},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        with watch:
            # Something to see at the end, so that nobody waits for more.
            self.ctl("put", f"{prefix}end", "")
            assert watch.stdout
            for line in watch.stdout:
                events = json.loads(line)["Events"]
                for event in events:
                    key = b64decode(event["kv"]["key"]).decode()
                    if key == f"{prefix}end" and event["kv"]["mod_revision"] > revision:
                        watch.terminate()
                        return found
                    if "value" in event["kv"]:
                        found.append((key, b64decode(event["kv"]["value"]).decode()))
        raise RuntimeError("etcd's history ended before its end")

    def enable_auth(self, user: str = "id_gen", password: str = "secret") -> None:
        """From now on etcd asks for a user: this one, who may use what begins with /id_gen/ and whose password
        `password_file` holds."""
        self.password_file.write_text(f"{password}\n")
        self._give_to_owner()
        self.ctl("user", "add", f"{ROOT}:{ROOT_PASSWORD}")
        self.ctl("user", "grant-role", ROOT, ROOT)
        self.ctl("user", "add", f"{user}:{password}")
        self.ctl("role", "add", user)
        self.ctl("role", "grant-permission", user, "readwrite", "--prefix", "/id_gen/")
        self.ctl("user", "grant-role", user, user)
        self.ctl("auth", "enable")
        self._root = [f"--user={ROOT}:{ROOT_PASSWORD}"]

    def take_users(self, other: "Etcd") -> None:
        """Its state will be that of another one, which asks for a user."""
        self._root = other._root

    def _make_certificates(self) -> None:
        """An authority, and a certificate that serves both sides."""
        ca_key, request, extensions = (self.base / name for name in ("ca-key.pem", "request.pem", "extensions"))
        extensions.write_text(f"subjectAltName = IP:{LOOPBACK}\n")
        new_key = ("req", "-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")
        _openssl(*new_key, "-x509", "-days", "2", "-subj", "/CN=authority", "-keyout", ca_key, "-out", self.ca_file)
        _openssl(*new_key, "-subj", "/CN=id_gen", "-keyout", self.key_file, "-out", request)
        _openssl(
            "x509", "-req", "-days", "2", "-in", request, "-extfile", extensions,
            "-CA", self.ca_file, "-CAkey", ca_key, "-CAcreateserial", "-out", self.cert_file,
        )  # fmt: skip

    def _give_to_owner(self) -> None:
        if owner := self.server.as_owner.get("user"):
            for path in (self.base, *self.base.glob("*.pem"), *self.base.glob("password")):
                shutil.chown(path, owner, owner)


def _leads(status: dict[str, Any]) -> bool:
    return status.get("leader") == status["header"]["member_id"]


def program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise FileNotFoundError(f"{name} is missing: no Debian package could be unpacked, so it must be on PATH")
    return found


def _openssl(*arguments: str | Path) -> None:
    done = subprocess.run(["openssl", *arguments], text=True, capture_output=True)
    if done.returncode != 0:
        raise RuntimeError(f"openssl {arguments[0]} failed:\n{done.stderr}")
