"""The registries of the fleet's torture: three members of etcd, or a PostgreSQL server and its synchronous standby.

Each says what can befall it, may lose or bring back grants as a restore does, and keeps every value that it ever had.
"""

import random
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Protocol

from harness.cluster import Cluster
from harness.etcd import ANY, Etcd
from harness.network import Namespace, Registry
from harness.ports import LOOPBACK, free_port

# What pg_rewind needs.
CONF = "wal_log_hints = on\nwal_keep_size = '1GB'\n"

# Keeps what is written to the registry's table, from the statement on that makes it.
HISTORY = """
CREATE TABLE history (key text, value text);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO public.history VALUES (NEW.key, NEW.value);
    RETURN NULL;
END $$;
CREATE FUNCTION note_all() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN
    IF to_regclass('public.id_gen_registry') IS NOT NULL THEN
        CREATE TRIGGER note AFTER INSERT OR UPDATE ON public.id_gen_registry
            FOR EACH ROW EXECUTE FUNCTION public.note();
    END IF;
END $$;
CREATE EVENT TRIGGER note_all ON ddl_command_end WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION note_all();
"""


class TorturedRegistry(Registry, Protocol):
    """What the torture does to a registry."""

    def lose_leader(self, dice: random.Random, seconds: float) -> str:
        """The server that decides is away; returns the story."""

    def lose_majority(self, dice: random.Random, seconds: float) -> str:
        """Nothing can be written for so long."""

    def values(self, prefix: str) -> dict[str, str]:
        """All keys with this prefix and their values."""

    def exchange(self, prefix: str, values: Mapping[str, str]) -> None:
        """Has these in place of all values with the prefix."""

    def history(self, prefix: str) -> Sequence[tuple[str, str]]:
        """Every key with this prefix and every value that it ever had."""


class TorturedEtcd(Etcd):
    """Three members, whose history nobody compacts."""

    def __init__(self, namespace: Namespace | None) -> None:
        super().__init__(3, namespace=namespace)

    def lose_leader(self, dice: random.Random, seconds: float) -> str:
        leader, how = self.leader(), dice.choice(["killed", "paused"])
        if how == "killed":
            leader.kill9()
            time.sleep(seconds)
            leader.start()
        else:
            leader.pause()
            time.sleep(seconds)
            leader.resume()
        return f"etcd's leader {how}"

    def lose_majority(self, dice: random.Random, seconds: float) -> str:
        lost = dice.sample(self.members, 2)
        for member in lost:
            member.kill9()
        time.sleep(seconds)
        for member in lost:
            member.begin_start()
        for member in lost:
            member.await_start()
        return f"etcd's majority lost for {seconds} s"

    def values(self, prefix: str) -> dict[str, str]:
        lines = self.ctl("get", "--prefix", prefix).splitlines()
        return dict(zip(lines[::2], lines[1::2], strict=True))

    def exchange(self, prefix: str, values: Mapping[str, str]) -> None:
        self.ctl("del", "--prefix", prefix)
        for key, value in values.items():
            self.ctl("put", key, value)


class Server(Cluster):
    """One that is reached by addresses."""

    def __init__(self, name: str, **options: object) -> None:
        self.port: int = free_port()
        # By cables in a network of its own; otherwise by relays on this machine, and nobody else.
        self.listens_on = ANY if options["namespace"] else LOOPBACK
        super().__init__(name, port=self.port, **options)

    def init(self) -> None:
        super().init()
        with (self.data / "pg_hba.conf").open("a") as hba:
            hba.write("host all all all trust\n")


class TorturedPostgresql:
    """A primary whose commits wait for its standby, and which that replaces now and then: nothing that was acknowledged
    is lost."""

    def __init__(self, namespace: Namespace | None) -> None:
        self.namespace = namespace
        self._primary = Server("registry", conf=CONF, namespace=namespace)
        self._standby = Server("standby", standby_of=self._primary, namespace=namespace)
        self.members = [self._primary, self._standby]
        self._stack = ExitStack()

    def __enter__(self) -> "TorturedPostgresql":
        with ExitStack() as stack:
            for member in self.members:
                stack.enter_context(member)
            self._primary.psql(HISTORY)
            for member in self.members:
                # Each has it as the primary, and neither has it already for its own start.
                member.append_conf("synchronous_standby_names = '*'")
                member.reload()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.__exit__(*error)

    def named(self, addresses: Sequence[str]) -> str:
        return f"postgresql://postgres@{','.join(addresses)}/postgres"

    def lose_leader(self, dice: random.Random, seconds: float) -> str:
        how = dice.choice(["killed", "paused", "replaced"])
        if how == "killed":
            self._primary.kill9()
            time.sleep(seconds)
            self._primary.start()
        elif how == "paused":
            with self._primary.paused():
                time.sleep(seconds)
        else:
            self._replace(seconds * dice.random())
        return f"the registry's primary {how}"

    def lose_majority(self, dice: random.Random, seconds: float) -> str:
        self._standby.kill9()
        time.sleep(seconds)
        self._standby.start()
        return f"the registry's standby lost for {seconds} s"

    def _replace(self, seconds: float) -> None:
        """By its standby, which has not heard of its last commits: of those nobody was told."""
        with self._standby.paused():
            time.sleep(seconds)
            self._primary.stop("immediate")
        self._standby.promote()
        self._primary.rewind_to(self._standby)
        # Its settings are those of the other one now.
        self._primary.append_conf(f"port = {self._primary.port}")
        self._primary, self._standby = self._standby, self._primary
        self._standby.start()

    def values(self, prefix: str) -> dict[str, str]:
        return dict(self._rows("id_gen_registry", prefix))

    def exchange(self, prefix: str, values: Mapping[str, str]) -> None:
        with self._primary.connect() as connection, connection.transaction():
            connection.execute("DELETE FROM id_gen_registry WHERE starts_with(key, %s)", [prefix])
            for row in values.items():
                connection.execute("INSERT INTO id_gen_registry VALUES (%s, %s)", row)

    def history(self, prefix: str) -> Sequence[tuple[str, str]]:
        return self._rows("history", prefix)

    def _rows(self, table: str, prefix: str) -> list[tuple[str, str]]:
        with self._primary.connect() as connection:
            return connection.execute(
                f"SELECT key, value FROM {table} WHERE starts_with(key, '{prefix}')".encode()
            ).fetchall()


REGISTRIES = {"etcd": TorturedEtcd, "postgresql": TorturedPostgresql}
