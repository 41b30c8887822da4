"""A fleet under fire: servers that get their numbers from etcd, paused, cut off, copied and promoted under load.

Three servers and three etcd members on this machine, clients on all of them, and five scenes of what makes other
generators repeat an ID. Every ID that a client receives is kept, and in the end all are counted: one that was given
twice is a failure, exit status 1. What you read is what was run and answered. Servers listen on Unix sockets only, etcd
on the loopback; everything is removed at the end, also after Ctrl-C.
"""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import numpy as np
import psycopg
from rich.live import Live
from rich.table import Table
from rich.text import Text

from harness import Cluster, SqlError
from harness.clients import array_elements
from harness.etcd import Etcd
from harness.fleet import GRANT_SECONDS, await_holding, await_number, await_trouble, member_conf, number_of
from harness.ids import NEXT, refusal
from harness.relay import Way
from stage import at_terminal, console, end_when_terminated, interruptible, offer_psql

DATABASE = "postgres"
FIRST_PORT = 5441

CREATE = f"""SELECT id_gen_fleet_create(grant_duration => '{GRANT_SECONDS} s', renewal_interval => '500 ms',
                           max_clock_skew => '500 ms');"""
FLEET = "SELECT worker_id, state, host, port, granted_until, this_server FROM id_gen_fleet_members();"
CHECK = "SELECT name, status, found, remedy FROM id_gen_check() WHERE name = 'fleet';"

CLIENTS_PER_SERVER = 2
# A statement of this many IDs, then a pause: the machine shall have time for servers and etcd, too.
IDS_PER_STATEMENT = 1000
ASK = f"SELECT array_send(snowflake_next_array({IDS_PER_STATEMENT}))"
PAUSE_SECONDS = 0.02
# How long IDs are made on both sides of a scene before it goes on.
SOME_IDS = 20_000
SHOWN_DUPLICATES = 5


class Crowd:
    """The clients of one server, and every ID that they received."""

    def __init__(self, server: "Server") -> None:
        self.server = server
        self.refused = 0
        self._answers: list[np.ndarray] = []
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(CLIENTS_PER_SERVER)]
        for thread in self._threads:
            thread.start()

    @property
    def count(self) -> int:
        return len(self._answers) * IDS_PER_STATEMENT

    def ids(self) -> np.ndarray:
        return np.concatenate([np.empty(0, np.int64), *self._answers])

    def end(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while not self._ended.is_set():
            # A server that is about to start or to stop has no connection to give.
            try:
                with self.server.cluster.connect(DATABASE) as connection:
                    self._ask(connection)
            except psycopg.OperationalError:
                self._ended.wait(PAUSE_SECONDS)

    def _ask(self, connection: psycopg.Connection) -> None:
        with connection.cursor(binary=True) as cursor:
            while not self._ended.wait(PAUSE_SECONDS):
                try:
                    for (array,) in cursor.execute(ASK, prepare=True):
                        self._answers.append(array_elements(array))
                except psycopg.Error:
                    if connection.closed:
                        raise
                    self.refused += 1


class Server:
    """A server of the fleet as the story calls it: a letter, a port, and a way to etcd of its own."""

    def __init__(self, name: str, cluster: Cluster, way: Way) -> None:
        self.name = name
        self.cluster = cluster
        self.way = way

    def __str__(self) -> str:
        return f"{self.name} (port {self.cluster.port})"


class Stage:
    """What is on it: etcd, the servers, their clients, and the time since the curtain rose."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._began = time.monotonic()
        self.servers: list[Server] = []
        self.crowds: list[Crowd] = []
        self.doing = ""
        self.etcd = stack.enter_context(Etcd(members=3))

    def join(self, conf: str = "", standby_of: Server | None = None, clone_of: Server | None = None) -> Server:
        """Starts one more server."""
        way = self._stack.enter_context(Way(self.etcd))
        name = "ABCDEF"[len(self.servers)]
        cluster = Cluster(
            f"fleet_{name.lower()}",
            conf=member_conf(way.endpoints, conf),
            port=FIRST_PORT + len(self.servers),
            standby_of=standby_of and standby_of.cluster,
            clone_of=clone_of and clone_of.cluster,
        )
        server = Server(name, self._stack.enter_context(cluster), way)
        self.servers.append(server)
        return server

    def let_clients_in(self, server: Server) -> Crowd:
        crowd = Crowd(server)
        self._stack.callback(crowd.end)
        self.crowds.append(crowd)
        return crowd

    def crowd_of(self, server: Server) -> Crowd:
        return next(crowd for crowd in self.crowds if crowd.server is server)

    def await_ids(self, server: Server) -> None:
        """Waits until the clients of a server have received some more."""
        crowd = self.crowd_of(server)
        enough = crowd.count + SOME_IDS
        server.cluster.wait_until(lambda: crowd.count >= enough, f"giving {SOME_IDS} IDs")

    @property
    def refused(self) -> int:
        return sum(crowd.refused for crowd in self.crowds)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def progress(self) -> Text:
        count = sum(crowd.count for crowd in self.crowds)
        return Text(f"{self.seconds:6.1f} s  {count:,} IDs, {self.refused:,} calls refused   {self.doing}", "green")

    # How it is told

    def scene(self, title: str) -> None:
        console.print(f"\n[bold cyan]{title}[/]")

    def say(self, text: str) -> None:
        console.print(f"[dim]{self.seconds:6.1f} s[/]  {text}")

    @contextmanager
    def wait(self, doing: str) -> Iterator[None]:
        self.doing = doing
        try:
            yield
        finally:
            self.doing = ""

    def show(self, server: Server, sql: str, *options: str) -> None:
        """A statement, and what a server answers."""
        console.print(f"\n{server.name}=# {sql}", style="bold", markup=False, soft_wrap=True)
        answer = server.cluster.run("psql", "-X", "--pset=pager=off", *options, "-c", sql, dbname=DATABASE)
        console.print(answer, markup=False, soft_wrap=True)

    def show_refusal(self, server: Server, error: SqlError) -> None:
        console.print(f"\n{server.name}=# {NEXT};", style="bold", markup=False)
        console.print(f"ERROR:  {error.message}", style="red", markup=False, soft_wrap=True)
        for field, words in (("DETAIL", error.detail), ("HINT", error.hint)):
            if words:
                console.print(f"{field}:  {words}", markup=False, soft_wrap=True)
        console.print()


def opening(stage: Stage) -> list[Server]:
    stage.say("Three etcd members run. Three servers start, each with a port to tell them apart:")
    three = [stage.join() for _ in range(3)]
    console.print(
        "\n# postgresql.conf of each: no number anywhere\n" + member_conf(three[0].way.endpoints), style="green"
    )
    stage.say(
        f"The fleet is made, once. A grant of {GRANT_SECONDS} s, so that nobody here waits long; "
        "[bold]the default is 30 s, renewed every 5 s.[/]"
    )
    for server in three:
        server.cluster.psql("CREATE EXTENSION id_gen")
    stage.show(three[0], CREATE)
    with stage.wait("until each server has a number"):
        for server in three:
            await_number(server.cluster)
    stage.say("Each server has a number now:")
    stage.show(three[0], FLEET)
    for server in three:
        stage.let_clients_in(server)
    stage.say(f"{CLIENTS_PER_SERVER} clients on each ask for IDs from now to the end, and keep every one they receive.")
    for server in three:
        stage.await_ids(server)
    return three


def pause(stage: Stage, paused: Server) -> None:
    stage.scene("1. A pause: a whole server stands still for longer than its grant, and another gets its number")
    number = number_of(paused.cluster)
    stage.say(f"{paused} has number {number}. A fourth server joins and wants just that (id_gen.worker_id_range).")
    newcomer = stage.join(f"id_gen.worker_id_range = '{number}'")
    newcomer.cluster.psql("CREATE EXTENSION id_gen")
    stage.show_refusal(newcomer, await_trouble(newcomer.cluster))
    stage.say(f"SIGSTOP to all processes of {paused}, clients connected and waiting.")
    with paused.cluster.paused():
        with stage.wait(f"until {paused.name}'s grant has ended, and {newcomer.name} has its number"):
            await_number(newcomer.cluster)
        stage.say(f"{paused.name}'s grant has ended: {newcomer} has number {number}.")
        stage.show(newcomer, FLEET)
        stage.let_clients_in(newcomer)
        stage.await_ids(newcomer)
        stage.say(f"{newcomer.name} makes IDs with it. SIGCONT to {paused.name}, which knows nothing of all this:")
    with stage.wait(f"until {paused.name} has found out, and has a number"):
        paused.cluster.poll_until("SELECT fencings = 1 FROM id_gen_stat_fleet")
        await_number(paused.cluster)
    fenced = next(line for line in paused.cluster.log().splitlines() if "was acquired by another server" in line)
    console.print(f"\n{fenced}\n", style="yellow", markup=False, soft_wrap=True)
    stage.say(f"{paused.name} made nothing with it any more, and got number {number_of(paused.cluster)} by itself.")
    stage.await_ids(paused)
    stage.show(paused, FLEET)


def partition(stage: Stage, cut_off: Server, other: Server) -> None:
    stage.scene("2. A partition: a server is cut off from etcd, and runs on")
    number = number_of(cut_off.cluster)
    crowd = stage.crowd_of(cut_off)
    with cut_off.way.cut():
        began, before = stage.seconds, crowd.count
        stage.say(f"{cut_off} is cut off. Its connections to etcd stay open, and nothing passes.")
        with stage.wait(f"until {cut_off.name} has used up its grant"):
            cut_off.cluster.wait_until(lambda: is_used_up(cut_off.cluster), "refusing")
        stage.say(
            f"{crowd.count - before:,} more IDs in {stage.seconds - began:.1f} s, all below the end of its grant. Then:"
        )
        stage.show_refusal(cut_off, refusal(cut_off.cluster))
        stage.show(cut_off, CHECK, "--expanded")
        stage.say(f"The fleet as {other} sees it; {cut_off.name}'s number could go to another server now:")
        stage.show(other, FLEET)
    stage.say("The cable is plugged in again.")
    with stage.wait(f"until {cut_off.name} makes IDs again"):
        stage.await_ids(cut_off)
    stage.say(f"{cut_off.name} goes on by itself, with number {number_of(cut_off.cluster)} (before: {number}).")


def is_used_up(cluster: Cluster) -> bool:
    try:
        cluster.psql(NEXT)
    except SqlError as error:
        return error.message == "this server's grant has expired"
    return False


def clone(stage: Stage, original: Server) -> None:
    stage.scene("3. A clone: cp -a of a running server's data directory, and both run")
    number = number_of(original.cluster)
    twin = stage.join(clone_of=original)
    stage.say(f"{twin} is {original.name} to the last byte, but for its port and its own way to etcd.")
    with stage.wait("until it has a number"):
        await_number(twin.cluster)
    stage.let_clients_in(twin)
    stage.await_ids(twin)
    stage.await_ids(original)
    stage.say(
        f"The clone has number {number_of(twin.cluster)}; "
        f"the original has {number_of(original.cluster)} (before: {number})."
    )
    stage.show(
        twin, "SELECT worker_id, port, system_identifier, this_server FROM id_gen_fleet_members() WHERE state = 'held';"
    )


def failover(stage: Stage, primary: Server) -> None:
    stage.scene("4. A failover: a standby is promoted while the old primary goes on")
    standby = stage.join(standby_of=primary)
    with stage.wait("until the standby has a number"):
        await_holding(standby.cluster)
    stage.say(f"{standby} is {primary}'s standby. It has a number of its own while it still replays:")
    stage.show(standby, "SELECT pg_is_in_recovery(), worker_id, state FROM id_gen_fleet_members() WHERE this_server;")
    crowd = stage.let_clients_in(standby)
    standby.cluster.wait_until(lambda: crowd.refused, "refusing: it is read-only")
    began = time.monotonic()
    standby.cluster.promote()
    promoted = time.monotonic()
    standby.cluster.wait_until(lambda: crowd.count, "giving IDs")
    stage.say(
        f"pg_promote() took {promoted - began:.2f} s. The clients that were at the door had IDs "
        f"{time.monotonic() - began:.2f} s after it was called."
    )
    stage.await_ids(standby)
    stage.await_ids(primary)
    standby.cluster.poll_until("SELECT timeline = 2 FROM id_gen_fleet_members() WHERE this_server")
    stage.say("Nobody told the old primary. Its clients get IDs as before: two primaries, two numbers.")
    stage.show(
        standby, "SELECT worker_id, port, timeline, this_server FROM id_gen_fleet_members() WHERE state = 'held';"
    )


def leader_killed(stage: Stage, witness: Server) -> None:
    stage.scene("5. etcd's leader is killed")
    before = stage.refused
    killed = stage.etcd.leader()
    killed.kill9()
    stage.say(f"kill -9 of member {killed.name}, which led. The two others elect.")
    with stage.wait("until another leads, and each server has renewed its grant with it"):
        leader = stage.etcd.leader()
        stage.say(f"Member {leader.name} leads.")
        for server in stage.servers:
            renewals = server.cluster.psql("SELECT renewals FROM id_gen_stat_fleet")
            server.cluster.poll_until(f"SELECT renewals > {renewals} FROM id_gen_stat_fleet")
            stage.await_ids(server)
    refused = stage.refused - before
    stage.say(f"All {len(stage.servers)} servers have renewed. Calls refused meanwhile: {refused or 'none'}.")
    if refused:
        stage.say(f"An election and the tries after it can outlast a grant of {GRANT_SECONDS} s; the default is 30 s.")
    killed.start()
    stage.say(f"Member {killed.name} is back.")
    stage.show(witness, FLEET)


def count(stage: Stage) -> bool:
    """Whether no ID was given twice."""
    stage.scene("The count")
    table = Table("server", "number now", "IDs received", "calls refused", "fenced")
    for crowd in stage.crowds:
        cluster = crowd.server.cluster
        fencings = cluster.psql("SELECT fencings FROM id_gen_stat_fleet")
        table.add_row(str(crowd.server), str(number_of(cluster)), f"{crowd.count:,}", f"{crowd.refused:,}", fencings)
    console.print(table)
    ids = np.sort(np.concatenate([crowd.ids() for crowd in stage.crowds]))
    twice = ids[1:][ids[1:] == ids[:-1]]
    if len(twice) == 0:
        console.print(f"\n[bold green]{len(ids):,} IDs of {len(stage.crowds)} servers, no duplicate.[/]")
        return True
    console.print(f"\n[bold red]{len(twice):,} of {len(ids):,} IDs were given twice[/], for example:")
    for snowflake in twice[:SHOWN_DUPLICATES]:
        makers = [crowd.server.name for crowd in stage.crowds if snowflake in crowd.ids()]
        console.print(f"  {snowflake} by {' and '.join(makers)}")
    return False


def play(stage: Stage) -> bool:
    with Live(console=console, get_renderable=stage.progress, transient=True):
        first, second, third = opening(stage)
        pause(stage, first)
        partition(stage, second, first)
        clone(stage, first)
        failover(stage, third)
        leader_killed(stage, first)
        for crowd in stage.crowds:
            crowd.end()
    return count(stage)


def main() -> None:
    end_when_terminated()
    farewell = "\nInterrupted: all servers are stopped and their files are removed."
    with ExitStack() as stack, interruptible(farewell):
        stage = Stage(stack)
        unique = play(stage)
        if at_terminal():
            console.print("\nThe fleet still runs, for you to look around.")
            offer_psql({server.name.lower(): server.cluster for server in stage.servers}, DATABASE)
        if not unique:
            sys.exit(1)


main()
