"""What happens to servers: stops of all kinds, reloads with other settings, steps of the clock, tables written anew."""

import os
import signal
from contextlib import suppress

from hypothesis import strategies as st
from hypothesis.stateful import initialize

from attack.action import action
from attack.administrator import is_answer
from attack.finding import Finding
from attack.snowflakes import Snowflakes
from attack.world import Node, Refused, Session
from harness.ids import keepers

# Values that an administrator may set, some of them mistaken.
SETTINGS = (
    ("id_gen.max_block_size", "1"), ("id_gen.max_block_size", "64"), ("id_gen.max_block_size", "1000"),
    ("id_gen.max_lead", "0"), ("id_gen.max_lead", "5s"), ("id_gen.max_lead", "30s"),
    ("id_gen.max_wait", "0"), ("id_gen.max_wait", "2s"),
    ("id_gen.max_clock_jump", "1min"), ("id_gen.max_clock_jump", "1h"),
    ("id_gen.sequence_start", "zero"), ("id_gen.sequence_start", "spread"),
    ("id_gen.datacenter_id", "1"), ("id_gen.datacenter_id", "0"),
    ("synchronous_commit", "off"), ("synchronous_commit", "on"),
    ("log_min_messages", "debug2"), ("log_min_messages", "warning"),
)  # fmt: skip
MISSPELLED = ("id_gen.worker = 3", "id_gen.workerid = 3", "id_gen.max_leed = '1h'", "idgen.worker_id = 4")
# How far IDs may lead the latest time that the clocks showed, at most.
NEAR_S = 60
# The longest step forward that any of these allows.
LARGEST_JUMP_S = 3600
# One with few IDs in a second, so that they soon lead the clock.
SLOW = "epoch=2024-01-01 tick=10ms time:42 datacenter:5 worker:5 sequence:4"
LAYOUTS = (
    SLOW,
    "default", "wide", "js", "twitter", "sonyflake",
    "epoch=2024-01-01 tick=1ms time:41 datacenter:5 worker:5 sequence:6",
)  # fmt: skip

# The tables of a database, and the index of each one's primary key.
TABLES = """
SELECT c.oid::regclass::text, quote_ident(i.relname)
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
       LEFT JOIN (pg_index x JOIN pg_class i ON i.oid = x.indexrelid AND x.indisprimary) ON x.indrelid = c.oid
 WHERE c.relkind = 'r' AND c.relpersistence <> 't' AND n.nspname NOT IN ('pg_catalog', 'information_schema')
 ORDER BY c.oid
"""
# That a table is clustered would be in its dumps from then on, and a job that is undone has to find the schema it left.
MAINTENANCE = {
    "analyze": "ANALYZE {table}",
    "reindex": "REINDEX TABLE {table}",
    "cluster": "CLUSTER {table} USING {index}; ALTER TABLE {table} SET WITHOUT CLUSTER",
    "vacuum full": "VACUUM (FULL, ANALYZE) {table}",
}


class Surroundings(Snowflakes):
    """Actions on servers."""

    @initialize(
        layout=st.sampled_from(["default", SLOW, "js"]),
        max_lead=st.sampled_from(["5s", "30s"]),
        block_size=st.sampled_from(["", "1"]),
    )
    def settle(self, layout: str, max_lead: str, block_size: str) -> None:
        """The first server, and its settings from the beginning."""
        conf = f"id_gen.layout = '{layout}'\nid_gen.max_lead = '{max_lead}'\n"
        if block_size:
            conf += f"id_gen.max_block_size = {block_size}\n"
        node = self.world.new_node(conf, self.schemas())
        node.in_order = block_size == "1"

    def prepare(self) -> None:
        """Nothing is there yet."""

    @action("restart", mode=("fast", "immediate", "kill9", "smart"), step_s=(0, 0, 0, -3, -0.2, 3, -30))
    def restart(self, which: int, mode: str, step_s: float, beside: list[str], delay_ms: int) -> None:
        """A stop and a start, beside clients, and maybe with a step of the clock in between."""
        node = self.world.node(which)
        if mode == "smart":
            # It would wait for them.
            self.world.forget_sessions(node)
            beside = []
        with self.crowd(node, beside, delay_ms):
            self.world.stop(node, mode)
            self.world.wall.step(step_s)
        self.world.start(node)
        self.look_at_first_ids(node)

    @action("crash with a clock ahead", mode=("immediate", "kill9"), ahead_s=(5, 50))
    def crash_ahead(self, which: int, mode: str, ahead_s: int) -> None:
        """Clocks that are ahead, by less than is distrusted, are corrected while a server is down after a crash."""
        node = self.world.node(which)
        session = self.world.idle_session(node)
        self.world.say(f"the clocks step by {ahead_s} s")
        self.world.wall.step(ahead_s)
        self.ask(session, self.insert_item)
        self.world.stop(node, mode)
        self.world.say(f"the clocks step by {-ahead_s} s")
        self.world.wall.step(-ahead_s)
        self.world.start(node)
        self.look_at_first_ids(node)

    @action("kill", whom=("client", "keeper"))
    def kill(self, which: int, whom: str, beside: list[str], delay_ms: int) -> None:
        """SIGKILL of a process, after which PostgreSQL starts all others anew."""
        node = self.world.node(which)
        before = node.cluster.log_position
        with self.crowd(node, beside, delay_ms):
            clients = [pid for pid, title in node.cluster.processes().items() if "[local]" in title]
            victims = keepers(node.cluster) if whom == "keeper" else clients
            if victims:
                self.world.say(f"{node}: kill -9 of {whom}")
                victim = victims[which % len(victims)]
                with suppress(ProcessLookupError):
                    os.kill(victim, signal.SIGKILL)
                node.cluster.wait_until(lambda: victim not in node.cluster.processes(), f"without process {victim}")
                # One that was at its end is no crash. PostgreSQL logs a crash before it lets anybody in.
                node.cluster.poll_until("SELECT true")
                if "terminated by signal 9" in node.cluster.log(before):
                    node.cluster.wait_for_log("reinitializing", before)
        self.world.forget_sessions(node)
        node.cluster.poll_until("SELECT true")
        self.look_at_first_ids(node)

    @action("terminate", how=("terminate", "cancel"))
    def terminate(self, which: int, how: str, beside: list[str], delay_ms: int) -> None:
        node = self.world.node(which)
        with self.crowd(node, beside, delay_ms):
            self.world.end_sessions(node, how)
        if how == "terminate":
            # The clients have met that; a session would find it with whatever it is used for next.
            self.world.forget_sessions(node)

    @action("reload", setting=SETTINGS)
    def reload(self, which: int, setting: tuple[str, str], beside: list[str], delay_ms: int) -> None:
        node = self.world.node(which)
        name, value = setting
        node.in_order = False
        with self.crowd(node, beside, delay_ms):
            self._set(node, name, value)
        node.in_order = setting == ("id_gen.max_block_size", "1")
        node.highest = 0

    @action("change worker")
    def change_worker(self, which: int, beside: list[str], delay_ms: int) -> None:
        """Another worker ID, which takes effect from the reload on: a session that asks after it must have it."""
        node = self.world.node(which)
        with self.crowd(node, beside, delay_ms):
            self.give_number(node)
        self.world.forget_sessions(node)

    def give_number(self, node: Node) -> None:
        worker = self.world.assign(node)
        # Which one sessions have, is open until the reload.
        node.worker = None
        self._set(node, "id_gen.worker_id", str(worker))
        self._await_number(node, worker)
        node.worker = worker

    def _await_number(self, node: Node, worker: int) -> None:
        node.cluster.wait_until(lambda: self._is_in_force(node, worker), f"worker {worker}")

    def _is_in_force(self, node: Node, worker: int) -> bool:
        """Sessions read a reload before the keeper may have put it in force."""
        try:
            return self.world.query(node, "SELECT worker_id FROM id_gen_status()") == [(worker,)]
        except Refused:
            # The extension is not there, so nobody is asked for its IDs.
            return True

    @action("maintenance", how=MAINTENANCE)
    def maintain(self, which: int, how: str, beside: list[str], delay_ms: int) -> None:
        """An administrator has tables written anew, or looked at. Their keys are built anew, too, so that one that was
        stored twice is refused."""
        node = self.world.node(which)
        with self.crowd(node, beside, delay_ms):
            for database in node.databases:
                with self.world.passing(node, database) as admin:
                    # Transactions that are open, or prepared, are not waited for.
                    admin.run("SET lock_timeout = '200ms'")
                    for table, index in admin.run(TABLES):
                        if index is not None or how != "cluster":
                            self._maintain_table(admin, MAINTENANCE[how].format(table=table, index=index))

    def _maintain_table(self, admin: Session, statement: str) -> None:
        try:
            admin.run(statement)
        except Refused as refused:
            if not is_answer(refused):
                raise Finding("maintenance", f"{statement}: {refused}") from refused

    @action("misspell", line=MISSPELLED)
    def misspell(self, which: int, line: str) -> None:
        """A line that sets nothing; the checks say so."""
        node = self.world.node(which)
        node.cluster.append_conf(line)
        node.cluster.reload()

    @action("change layout", layout=LAYOUTS)
    def change_layout(self, which: int, layout: str) -> None:
        node = self.world.node(which)
        self._set(node, "id_gen.layout", layout)
        self.world.restart(node)
        # A number that the old layout had room for may be too large, or a datacenter is needed no more: hints say so.
        self.look_at_first_ids(node)

    @action("clock", seconds=(-0.05, -0.5, -3, -30, 0.5, 3, 30, 900, 86400))
    def step_clock(self, seconds: float, which: int, beside: list[str]) -> None:
        """A step of all machines' clocks."""
        node = self.world.node(which)
        with self.crowd(node, beside):
            self.world.say(f"the clocks step by {seconds} s")
            self.world.wall.step(seconds)
        if seconds > LARGEST_JUMP_S:
            for each in self.world.running():
                if each.highest:
                    self._expect_distrust(each)

    def _expect_distrust(self, node: Node) -> None:
        """A server that has generated since its start does not believe such a step."""
        session = self.world.open(node, node.databases[0])
        try:
            session.run("SELECT snowflake_next()")
        except Refused:
            return
        raise Finding("clock", f"{node} generates although its clock jumped")

    @action("reset", ahead_s=(0, 2, 4))
    def reset_reservation(self, which: int, ahead_s: int) -> None:
        """A superuser has a server start above a time that is above all its IDs: so are all that it gives then."""
        node = self.world.node(which)
        newest = self.newest_of(node)
        try:
            with self.world.passing(node) as admin:
                above, is_near = admin.run(
                    "SELECT greatest(clock_timestamp(), snowflake_timestamp(%s)) + %s * interval '1 s',"
                    " snowflake_timestamp(%s) < clock_timestamp() + %s * interval '1 s'",
                    newest, ahead_s, newest, self.world.wall.behind_s + NEAR_S,
                )[0]  # fmt: skip
                if not is_near:
                    # It is of another layout.
                    return
                admin.run("SELECT id_gen_reservation_reset(above => %s)", above)
        except Refused:
            return
        node.highest = 0

        def call(session: Session) -> None:
            [(given, least)] = session.generate("SELECT snowflake_next(), snowflake_min(%s)", above)
            if given <= least:
                raise Finding("reset", f"{node} gives {given}, although it was to start above {least}")

        self.insist(self.world.idle_session(node), call)

    @action("clock")
    def put_clock_right(self, which: int) -> None:
        self.world.wall.catch_up()

    def _set(self, node: Node, name: str, value: str) -> None:
        with self.world.passing(node) as admin:
            admin.run(f"ALTER SYSTEM SET {name} = '{value}'")
            admin.run("SELECT pg_reload_conf()")
