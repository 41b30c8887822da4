"""Where an installed PostgreSQL server keeps its programs, and as whom they run.

PostgreSQL's server programs refuse to run as root, so root runs them as the user `postgres`.
"""

import functools
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from harness.network import Namespace


@dataclass(frozen=True)
class Server:
    """An installed server, and the directory (private to the user who runs it) for its clusters."""

    pg_config: Path
    run_directory: Path
    # Files outside of the tree that the scripts keep, the private servers among them.
    cache: Path

    @staticmethod
    @functools.cache
    def from_environment() -> "Server":
        """The private server that `scripts/run` has prepared."""
        try:
            cache = Path(os.environ["ID_GEN_CACHE"])
            run_directory = Path(os.environ.get("ID_GEN_RUN", cache / "run"))
            return Server(Path(os.environ["ID_GEN_PG_CONFIG"]), run_directory, cache)
        except KeyError as missing:
            raise RuntimeError(f"{missing} is not set: start through scripts/run, which prepares a server") from None

    @classmethod
    def upgrade_path(cls) -> list["Server"]:
        """The servers that `scripts/upgrade` has prepared, from the oldest to the newest."""
        oldest = cls.from_environment()
        return [replace(oldest, pg_config=Path(each)) for each in os.environ["ID_GEN_UPGRADE_PATH"].split(":")]

    @contextmanager
    def copied(self) -> Iterator["Server"]:
        """A server of the same files, found relative to its programs: tests that run meanwhile keep theirs."""
        within = self.pg_config.relative_to(self.cache)
        with TemporaryDirectory(prefix="build.", dir=self.cache) as name:
            directory = Path(name)
            directory.chmod(0o755)
            subprocess.run(["cp", "-a", self.cache / within.parts[0], directory], check=True)
            yield replace(self, pg_config=directory / within)

    def directory(self, name: str) -> Path:
        """A directory as `pg_config` names it, for example `bindir`."""
        command = [str(self.pg_config), f"--{name}"]
        return Path(subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout.strip())

    @functools.cached_property
    def version(self) -> int:
        """The major version."""
        return int(
            (self.directory("includedir-server") / "pg_config.h")
            .read_text()
            .split("#define PG_MAJORVERSION_NUM ")[1]
            .split()[0]
        )

    @functools.cached_property
    def has_tls(self) -> bool:
        return "#define USE_OPENSSL 1" in (self.directory("includedir-server") / "pg_config.h").read_text()

    @functools.cached_property
    def bindir(self) -> Path:
        return self.directory("bindir")

    @functools.cached_property
    def pg_regress(self) -> Path:
        return self.directory("pkglibdir") / "pgxs/src/test/regress/pg_regress"

    @functools.cached_property
    def as_owner(self) -> dict[str, Any]:
        """Arguments for `subprocess` that make a program run as the user who owns the clusters."""
        if os.geteuid() != 0:
            return {"cwd": "/"}
        return {"cwd": "/", "user": "postgres", "group": "postgres", "extra_groups": []}

    def start_as_owner(
        self, command: Sequence[object], log: Path, env: Mapping[str, str], namespace: Namespace | None
    ) -> subprocess.Popen[bytes]:
        """Starts a program as that user, with its output at the end of the log, in the network that there is or in one
        of its own, which only root can enter."""
        options = self.as_owner
        if namespace is not None:
            # What the environment loads into the program must not run as root on the way there.
            its_own = ("env", "-i", *(f"{name}={value}" for name, value in env.items()))
            owner = ("setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups")
            command, options = namespace.inside(*owner, *its_own, *command), {"cwd": "/"}
            env = {"PATH": os.environ["PATH"]}
        with log.open("ab") as output:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=env,
                **options,
            )


def environment() -> dict[str, str]:
    """Ours, without what would lead a PostgreSQL program to another server."""
    return {key: value for key, value in os.environ.items() if not key.startswith("PG")}
