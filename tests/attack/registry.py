"""The registry of all fleets that a process of the attacker explores: one etcd, as starting one takes a second. Each
exploration has a fleet of its own in it."""

import json
import secrets
import shutil
import subprocess
from contextlib import suppress
from multiprocessing import util
from pathlib import Path
from typing import ClassVar

from harness.etcd import Etcd, Member, program

# Shows at once that a log holds it.
PASSWORD = "open-sesame-4711"


class Registry:
    """A member of etcd, which may be lost, and brought back from what was saved; and one of another cluster, which may
    have the same."""

    _of_process: ClassVar["Registry | None"] = None

    def __init__(self) -> None:
        # A login may not take longer than a request of a fleet with short terms, also where the machine is busy.
        self.etcd = Etcd(flags=["--bcrypt-cost=4"]).__enter__()
        self.etcd.enable_auth(password=PASSWORD)
        self.other = Etcd().__enter__()
        self.is_paused = False

    @classmethod
    def of_process(cls) -> "Registry":
        if cls._of_process is None:
            cls._of_process = cls()
            util.Finalize(None, cls._of_process.close, exitpriority=10)
        return cls._of_process

    @property
    def member(self) -> Member:
        return self.etcd.members[0]

    @property
    def conf(self) -> str:
        return (
            f"id_gen.registry = '{self.etcd.endpoints}'\n"
            "id_gen.registry_user = 'id_gen'\n"
            f"id_gen.registry_password_file = '{self.etcd.password_file}'\n"
        )

    @property
    def answers(self) -> bool:
        return self.member.running and not self.is_paused

    def pause(self) -> None:
        self.member.pause()
        self.is_paused = True

    def resume(self) -> None:
        self.member.resume()
        self.is_paused = False

    def kill(self) -> None:
        self.member.kill9()
        self.is_paused = False

    def put_right(self) -> None:
        """It answers again."""
        if self.is_paused:
            self.resume()
        if not self.member.running:
            self.member.start()

    def save(self) -> Path:
        """A backup, as its administrator makes it."""
        file = self.etcd.base / "backup"
        self.etcd.ctl("snapshot", "save", str(file))
        return file

    def restore(self, file: Path, *, elsewhere: bool = False) -> None:
        """Brings back what was saved, in its place, or with another address."""
        self.is_paused = False
        self._restore(self.etcd, file, elsewhere=elsewhere)

    def copy(self) -> str:
        """Restores what it has in the other cluster as well. Returns where that is."""
        self.other.take_users(self.etcd)
        self._restore(self.other, self.save())
        return self.other.endpoints

    def foreign(self, fleet: str) -> str:
        """The other cluster has another fleet of this name, with the same terms and without members. Returns where that
        is."""
        endpoints = self.copy()
        prefix = f"/id_gen/{fleet}/"
        [status] = json.loads(self.other.ctl("endpoint", "status", "--write-out=json"))
        meta = json.loads(self.other.ctl("get", "--print-value-only", f"{prefix}meta"))
        meta |= {"id": secrets.token_hex(16), "registry": f"etcd {status['Status']['header']['cluster_id']}"}
        self.other.ctl("del", "--prefix", prefix)
        self.other.ctl("put", f"{prefix}meta", json.dumps(meta))
        return endpoints

    def foreign_numbers(self, fleet: str) -> str:
        """What that fleet's members have."""
        return self.other.ctl("get", "--prefix", f"/id_gen/{fleet}/n/")

    def _restore(self, etcd: Etcd, file: Path, *, elsewhere: bool = False) -> None:
        [old] = etcd.members
        old.kill9()
        member = Member(etcd, "m0") if elsewhere else old
        shutil.rmtree(old.data)
        etcd.members[:] = [member]
        command = [
            program("etcdctl"), "snapshot", "restore", file, f"--name={member.name}", f"--data-dir={member.data}",
            f"--initial-cluster={member.name}={member.peer_url}", f"--initial-advertise-peer-urls={member.peer_url}",
        ]  # fmt: skip
        owner = etcd.server.as_owner.get("user")
        subprocess.run(command, env={"ETCDCTL_API": "3", "PATH": "/usr/bin:/bin"}, check=True, capture_output=True)
        if owner:
            subprocess.run(["chown", "-R", f"{owner}:", member.data], check=True)
        member.start()

    def forget(self, fleet: str) -> None:
        """All that it knows of a fleet is gone."""
        self.etcd.ctl("del", "--prefix", f"/id_gen/{fleet}/")

    def bounds(self, fleet: str) -> dict[tuple[int, int], list[int]]:
        """Every bound that it ever granted, by port and worker ID, in order."""
        found: dict[tuple[int, int], list[int]] = {}
        for key, value in self.etcd.history(f"/id_gen/{fleet}/n/"):
            grant = json.loads(value)
            found.setdefault((grant["port"], int(key.rpartition("/")[2])), []).append(grant["until_ms"])
        return {holder: sorted(bounds) for holder, bounds in found.items()}

    def close(self) -> None:
        for etcd in (self.etcd, self.other):
            with suppress(Exception):
                etcd.__exit__(None, None, None)
