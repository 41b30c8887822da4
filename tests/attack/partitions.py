"""A table that is partitioned by its key: its partition is taken out and put back, beside clients that insert."""

from collections.abc import Callable
from contextlib import suppress

from attack.action import Skipped, action, pick
from attack.administrator import is_answer
from attack.explorer import Explorer
from attack.finding import Finding
from attack.world import Node, Refused, Session, Value

ALL = "FROM (MINVALUE) TO (MAXVALUE)"
SCHEMA = f"""
CREATE TABLE reading (id bigint PRIMARY KEY DEFAULT snowflake_next()) PARTITION BY RANGE (id);
CREATE TABLE reading_all (LIKE reading INCLUDING ALL);
ALTER TABLE reading ATTACH PARTITION reading_all FOR VALUES {ALL};
GRANT SELECT, INSERT ON reading TO clerk;
"""
# How the partition is taken out: with the other changes in one transaction, say.
HOW = ("alone", "concurrently", "together")
INSERT = "INSERT INTO public.{0} DEFAULT VALUES RETURNING id, tableoid::regclass::text"
# A row that another server made, whose clock is ahead.
FOREIGN = """
INSERT INTO reading_all
SELECT snowflake_make(clock_timestamp() + {} * interval '1 s', 0, 0, 0) ON CONFLICT DO NOTHING
"""
PARTITIONS = "SELECT inhrelid::regclass::text, inhdetachpending FROM pg_inherits WHERE inhparent = 'reading'::regclass"


class Partitions(Explorer):
    """Actions on the partitions of a table."""

    schema = SCHEMA

    @action("partitions", how=HOW, ahead_s=(0, 1, 4, 60))
    def change_partitions(
        self, which: int, database: int, how: str, ahead_s: int, beside: list[str], delay_ms: int
    ) -> None:
        """What a table holds becomes its older partition, and a newer one is put beside that. No row that a client
        inserted is lost, and what is generated after the newest row was observed belongs to the newer partition."""
        node = self.world.node(which)
        name = pick(node.databases, database)
        told: list[int] = []

        def insert(session: Session, table: str = "reading") -> str:
            [(given, partition)] = session.generate(INSERT.format(table))
            told.append(given)
            return str(partition)

        with self.crowd(node, [*beside, insert], delay_ms, name):
            try:
                with self.world.passing(node, name) as admin:
                    newest = self._divide(admin, how, ahead_s, insert)
                is_observed = self._is_observed(node, name, newest)
                if self.insist(self.world.open(node, name), insert) == "reading_all" and is_observed:
                    raise Finding("causal order", f"{node} gives an ID below {newest}, which was observed")
            finally:
                self._put_together(node, name)
        [(stored,)] = self.world.query(node, "SELECT count(*) FROM reading WHERE id = ANY(%s)", told, database=name)
        if stored != len(told):
            raise Finding("partitions", f"{name} of {node} holds {stored} of the {len(told)} rows that were inserted")

    def _divide(self, admin: Session, how: str, ahead_s: int, insert: Callable[[Session, str], str]) -> int:
        """The largest ID of the older partition."""
        admin.run("SET lock_timeout = '200ms'")
        if how == "together":
            admin.run("BEGIN")
        self._change_table(
            admin, f"ALTER TABLE reading DETACH PARTITION reading_all{' CONCURRENTLY' if how == 'concurrently' else ''}"
        )
        if how != "together":
            # By the default that it keeps.
            self.insist(self.world.open(admin.node, admin.database), lambda session: insert(session, "reading_all"))
        self._change_table(admin, FOREIGN.format(ahead_s))
        [(newest,)] = self._change_table(admin, "SELECT max(id) FROM reading_all")
        self._change_table(admin, "CREATE TABLE reading_new (LIKE reading INCLUDING ALL)")
        self._change_table(
            admin, f"ALTER TABLE reading ATTACH PARTITION reading_all FOR VALUES FROM (MINVALUE) TO ({newest + 1})"
        )
        self._change_table(
            admin, f"ALTER TABLE reading ATTACH PARTITION reading_new FOR VALUES FROM ({newest + 1}) TO (MAXVALUE)"
        )
        if how == "together":
            admin.run("COMMIT")
        return int(newest)

    def _change_table(self, admin: Session, statement: str) -> list[tuple[Value, ...]]:
        """A client's transaction may be in the way; a HINT, typed meanwhile, may have ended the session."""
        try:
            return admin.run(statement)
        except Refused as refused:
            if is_answer(refused):
                raise Skipped from refused
            raise Finding("partitions", f"{statement}: {refused}") from refused

    def _is_observed(self, node: Node, database: str, newest: int) -> bool:
        """Whether the server has its IDs above it from now on: it may be too far ahead, or of another layout."""
        with self.world.passing(node, database) as session, suppress(Refused):
            session.run("SELECT snowflake_advance(%s)", newest)
            return True
        return False

    def _put_together(self, node: Node, database: str) -> None:
        """The table has its one partition again, however far the change has come."""
        with self.world.passing(node, database) as admin:
            for partition, is_pending in admin.run(PARTITIONS):
                self._change_table(
                    admin, f"ALTER TABLE reading DETACH PARTITION {partition}{' FINALIZE' if is_pending else ''}"
                )
            if admin.value("SELECT to_regclass('reading_new') IS NOT NULL"):
                # The key of the older partition refuses what both have.
                admin.run("INSERT INTO reading_all SELECT * FROM reading_new")
                admin.run("DROP TABLE reading_new")
            # `CONCURRENTLY` leaves one.
            admin.run("ALTER TABLE reading_all DROP CONSTRAINT IF EXISTS reading_all_id_check")
            self._change_table(admin, f"ALTER TABLE reading ATTACH PARTITION reading_all FOR VALUES {ALL}")
