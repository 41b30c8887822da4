"""Jobs that convert columns, step by step in sessions with other settings, while others change the schema, clients
write, and servers crash."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

from hypothesis import strategies as st

from attack.action import Skipped, action, client, pick, use
from attack.administrator import is_answer
from attack.dumps import comparable, first_difference
from attack.finding import Finding
from attack.session_settings import SETTING
from attack.snowflakes import Snowflakes
from attack.world import DATABASE, Node, Refused, Session

CUSTOMERS, PURCHASES_EACH, VISITS = 200, 2, 120

# Definitions with constants that sessions read and write differently.
TRADE = rf"""
CREATE SCHEMA trade;
CREATE TABLE trade.customer (
    id serial PRIMARY KEY, name text NOT NULL UNIQUE, price float8 NOT NULL DEFAULT 0.1,
    day date NOT NULL DEFAULT '2025-02-03',
    at timestamptz DEFAULT '2025-02-03 04:05+00', span interval, picture bytea, tags text[], remark text,
    twice float8 GENERATED ALWAYS AS (price * 2) STORED,
    CONSTRAINT floats CHECK (id > 0 OR price < 0.12345678901234567::float8),
    CONSTRAINT dates CHECK (id > 0 OR day <> '2024-03-04'::date),
    CONSTRAINT times CHECK (id > 0 OR at <> '2024-03-04 05:06+00'::timestamptz),
    CONSTRAINT spans CHECK (id > 0 OR span <> '-1 day 2 hours'::interval),
    CONSTRAINT bytes CHECK (id > 0 OR picture <> '\x5c27ff'::bytea),
    CONSTRAINT arrays CHECK (id > 0 OR tags <> '{{a,NULL}}'::text[]));
CREATE TABLE trade.purchase (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    customer_id integer NOT NULL REFERENCES trade.customer ON DELETE CASCADE,
    paid_by integer REFERENCES trade.customer (id) DEFERRABLE INITIALLY DEFERRED,
    whose text NOT NULL);
CREATE INDEX of_customer ON trade.purchase (customer_id, paid_by DESC) WHERE paid_by IS NOT NULL;
CREATE INDEX recent ON trade.customer (id) WHERE day > '2024-03-04'::date AND at > '2024-03-04 05:06+00'::timestamptz;
CREATE VIEW trade.named AS
    SELECT c.id, c.name, p.whose, p.id AS purchase_id
      FROM trade.customer c JOIN trade.purchase p ON p.customer_id = c.id
     WHERE c.day > '2024-03-04'::date AND c.price < 0.12345678901234567::float8;
ALTER TABLE trade.customer ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON trade.customer USING (id > 0 AND day > '2024-03-04'::date);
CREATE FUNCTION trade.note() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TRIGGER noted BEFORE INSERT ON trade.customer FOR EACH ROW
    WHEN (NEW.id > 0 AND NEW.day > '2024-03-04'::date) EXECUTE FUNCTION trade.note();
CREATE TRIGGER changed AFTER UPDATE OF id, name ON trade.customer FOR EACH ROW
    WHEN (OLD.id > 0) EXECUTE FUNCTION trade.note();
CREATE STATISTICS trade.both_of ON id, name FROM trade.customer;
CREATE FUNCTION trade.may_see(anyelement) RETURNS boolean IMMUTABLE LANGUAGE sql AS 'SELECT false';
ALTER TABLE trade.purchase ENABLE ROW LEVEL SECURITY;
CREATE POLICY hidden ON trade.purchase USING (trade.may_see(customer_id));
GRANT USAGE ON SCHEMA trade TO clerk;
GRANT SELECT ON trade.purchase TO clerk;
COMMENT ON COLUMN trade.customer.id IS 'the customer''s \ number';
GRANT SELECT (id), UPDATE (name) ON trade.customer TO clerk;
CREATE TABLE trade.visit (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(), at timestamptz NOT NULL DEFAULT now(), name text UNIQUE);
CREATE TABLE trade.stay (visit_id uuid NOT NULL REFERENCES trade.visit, whose text NOT NULL);
CREATE TABLE trade.badge (id integer PRIMARY KEY, name text UNIQUE);
CREATE TABLE trade.basket (id bigserial PRIMARY KEY, n integer);
CREATE TABLE trade.parcel (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n integer);
CREATE TABLE trade.box (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), n integer);
INSERT INTO trade.customer (name) SELECT 'base ' || n FROM generate_series(1, {CUSTOMERS}) n;
INSERT INTO trade.purchase (customer_id, paid_by, whose)
    SELECT id, nullif(id % 7, 0), name FROM trade.customer, generate_series(1, {PURCHASES_EACH});
INSERT INTO trade.visit (at, name)
    SELECT '2025-01-01Z'::timestamptz + n * interval '1 hour', 'base ' || n FROM generate_series(1, {VISITS}) n;
INSERT INTO trade.stay SELECT id, name FROM trade.visit;
INSERT INTO trade.badge SELECT n, 'base ' || n FROM generate_series(1, 30) n;
"""


class Key(NamedTuple):
    """A column that a job is about."""

    table: str
    options: str = ""
    # Which jobs have tables in common.
    group: str = "shop"

    @property
    def column(self) -> str:
        return f"'trade.{self.table}'::regclass, 'id'::text"


KEYS = {
    "customer": Key("customer"),
    "purchase": Key("purchase"),
    "visit": Key("visit", ", target => 'snowflake', created_at => 'at'", "visits"),
    # Numbers come from elsewhere until the switch gives the column a default.
    "badge": Key("badge", group="badges"),
}
KEY = st.sampled_from(list(KEYS))
DEFAULT_ONLY = ("basket", "parcel", "box")


class Change(NamedTuple):
    """A change of the schema by others."""

    forward: str
    back: str
    # How a refusal names it, where it is about what depends on the columns of the job of customers.
    shown: str = ""
    # Whether an undo by force reverts it: it rejects what was added, and
    # known: fails at what was dropped.
    is_reverted: bool = True


VIEW = (
    "CREATE OR REPLACE VIEW trade.named AS SELECT c.id, c.name, p.whose, p.id AS purchase_id FROM trade.customer c"
    " JOIN trade.purchase p ON p.customer_id = c.id"
)
CUSTOMER = "ALTER TABLE trade.customer"
CHANGES = {
    "index of another column": Change("CREATE INDEX others ON trade.customer (price)", "DROP INDEX trade.others"),
    "column": Change(f"{CUSTOMER} ADD extra integer DEFAULT 7", f"{CUSTOMER} DROP extra"),
    "renamed column": Change(f"{CUSTOMER} RENAME remark TO note", f"{CUSTOMER} RENAME note TO remark"),
    "grant": Change(
        "GRANT DELETE ON trade.customer, trade.purchase TO clerk",
        "REVOKE DELETE ON trade.customer, trade.purchase FROM clerk",
    ),
    "statistics": Change(f"{CUSTOMER} ALTER name SET STATISTICS 300", f"{CUSTOMER} ALTER name SET STATISTICS -1"),
    "check of another column": Change(
        "ALTER TABLE trade.purchase ADD CONSTRAINT owned CHECK (whose <> '')",
        "ALTER TABLE trade.purchase DROP CONSTRAINT owned",
    ),
    "policy": Change(
        "ALTER POLICY own ON trade.customer USING (id > 100)",
        "ALTER POLICY own ON trade.customer USING (id > 0 AND day > '2024-03-04'::date)",
        "policy own on table trade.customer",
    ),
    "view": Change(
        VIEW, f"{VIEW} WHERE c.day > '2024-03-04'::date AND c.price < 0.12345678901234567::float8", "view trade.named"
    ),
    "grant on a view": Change(
        "GRANT SELECT ON trade.named TO clerk", "REVOKE SELECT ON trade.named FROM clerk", "view trade.named"
    ),
    "check": Change(
        f"{CUSTOMER} ADD CONSTRAINT late CHECK (id <> -70)", f"{CUSTOMER} DROP CONSTRAINT late",
        "constraint late on table trade.customer", False,
    ),
    "unique index": Change(
        "CREATE UNIQUE INDEX latest ON trade.customer (name, id)", "DROP INDEX trade.latest", "index trade.latest",
        False,
    ),
    "trigger off": Change(
        f"{CUSTOMER} DISABLE TRIGGER noted", f"{CUSTOMER} ENABLE TRIGGER noted", "trigger noted on table trade.customer"
    ),
    "new view": Change(
        "CREATE VIEW trade.late AS SELECT whose FROM trade.named", "DROP VIEW trade.late", "view trade.late", False
    ),
    "new policy": Change(
        "CREATE POLICY late ON trade.customer USING (id > 1)", "DROP POLICY late ON trade.customer",
        "policy late on table trade.customer", False,
    ),
    "dropped check": Change(
        f"{CUSTOMER} DROP CONSTRAINT bytes",
        rf"{CUSTOMER} ADD CONSTRAINT bytes CHECK (id > 0 OR picture <> '\x5c27ff'::bytea)",
        "constraint bytes on table trade.customer", False,
    ),
    "comment": Change(
        "COMMENT ON COLUMN trade.purchase.customer_id IS 'new'", "COMMENT ON COLUMN trade.purchase.customer_id IS NULL",
        "column trade.purchase.customer_id",
    ),
}  # fmt: skip
WRITES = {
    "update": (
        "UPDATE trade.purchase p SET customer_id = c.id, whose = c.name FROM trade.customer c"
        " WHERE c.name = 'base 7' AND p.whose = 'base 8'",
        "UPDATE trade.customer SET price = price WHERE name LIKE 'base 1%'",
        "UPDATE trade.purchase p SET customer_id = c.id, whose = c.name FROM trade.customer c"
        " WHERE c.name = 'base 8' AND p.id = (SELECT max(id) FROM trade.purchase WHERE whose = 'base 7')",
    ),
    "delete": (
        "DELETE FROM trade.stay WHERE whose LIKE 'new %'",
        "DELETE FROM trade.visit WHERE name LIKE 'new %'",
        "DELETE FROM trade.customer WHERE name LIKE 'new %'",
    ),
}
# What only a switch makes possible. A row without an old number would be in the way of an undo.
NEW_BADGE = "BEGIN; INSERT INTO trade.badge (name) VALUES ('new'); ROLLBACK"
# What the columns of the tables have beside values.
ATTRIBUTES = """
SELECT attrelid::regclass::text, attname::text, attnotnull, attstattarget, col_description(attrelid, attnum),
       ARRAY(SELECT x::text FROM aclexplode(attacl) x ORDER BY 1)
  FROM pg_attribute JOIN pg_class c ON c.oid = attrelid
 WHERE relnamespace = 'trade'::regnamespace AND relkind = 'r' AND attnum > 0 AND NOT attisdropped
   AND attname !~ '_(old|new)$'
 ORDER BY 1, 2
"""

# What a client may be told at any time: whatever snowflakes refuse, and a plan from before a column's type changed.
ODD = ("22", "23", "2F", "42", "P0", "XX")
STALE_PLAN, NO_PRIVILEGE = "0A000", "42501"
PHASES = "SELECT substr(relation::text, 7), phase FROM id_gen_convert.job ORDER BY id"
PROGRESS = """
    SELECT j.id, phase, done, array_agg(row(begun_at, ended_at, rows_done, width) ORDER BY place),
           (SELECT sum(next_block) FROM id_gen_convert.part)
      FROM id_gen_convert.job j JOIN id_gen_convert.fill ON job = j.id GROUP BY j.id ORDER BY 1
"""
# Why a job does not go on that makes IDs out of the times of rows.
OTHER_LAYOUT = "id_gen.layout has changed since the job"
LAYOUT = "SELECT layout FROM snowflake_layouts() WHERE in_use"
# Those in which steps are left.
UNDER_WAY = ("fill", "check", "index", "attach", "reference")
BACK = {"back": "CALL id_gen_convert.undo({})", "finish": "SELECT id_gen_convert.finish({})"}
# A job that does not go on here and now.
REFUSED, NOT_LOCKED = "55000", "55P03"
# Each message of the converter has one of them, and no other message has.
WORDS_OF_JOBS = ("job", "conver", "depend on column", "not verified", "old value", "could not lock")

NAMES = "SELECT name FROM trade.customer UNION SELECT name FROM trade.visit"
# Rows that are never deleted: customers, their purchases by two ways, and stays by their visits.
WHOLE = """
    SELECT (SELECT count(*) FROM trade.customer WHERE name LIKE 'base %'),
           (SELECT count(*) FROM trade.customer c JOIN trade.purchase p ON p.customer_id = c.id
             WHERE c.name LIKE 'base %'),
           (SELECT count(*) FROM trade.named WHERE name LIKE 'base %'),
           (SELECT count(*) FROM trade.visit v JOIN trade.stay s ON s.visit_id = v.id WHERE v.name LIKE 'base %')
"""
EXPECTED = (CUSTOMERS, CUSTOMERS * PURCHASES_EACH, CUSTOMERS * PURCHASES_EACH, VISITS)
# References that lead to another row than that of the name.
WRONG = """
    SELECT (SELECT count(*) FROM trade.purchase p LEFT JOIN trade.customer c ON p.customer_id = c.id
             WHERE p.whose IS DISTINCT FROM c.name),
           (SELECT count(*) FROM trade.purchase p LEFT JOIN trade.customer c ON p.paid_by = c.id
             WHERE p.paid_by IS NOT NULL AND c.id IS NULL),
           (SELECT count(*) FROM trade.stay s LEFT JOIN trade.visit v ON s.visit_id = v.id
             WHERE s.whose IS DISTINCT FROM v.name)
"""
# Old rows whose snowflake has another time, or another worker or datacenter than the highest.
WRONG_IDS = """
    SELECT v.id, v.at, p.* FROM trade.visit v, snowflake_parse(v.id) p, snowflake_layouts() l
     WHERE v.name LIKE 'base %' AND l.in_use
       AND (abs(extract(epoch FROM p.created_at - v.at)) > 1
            OR p.worker_id <> (1 << l.worker_bits) - 1 OR p.datacenter_id <> (1 << l.datacenter_bits) - 1)
     LIMIT 3
"""
# Tables whose key is another one than in the beginning.
CONVERTED = """
    SELECT substr(attrelid::regclass::text, 7) FROM pg_attribute
     WHERE attnum > 0 AND NOT attisdropped AND attname = 'id'
       AND attrelid = ANY ('{trade.customer,trade.purchase,trade.visit,trade.badge}'::regclass[])
       AND atttypid <> CASE attrelid WHEN 'trade.visit'::regclass THEN 'uuid'::regtype ELSE 'integer'::regtype END
"""


@dataclass(eq=False)
class Shop:
    """What is known of the tables of a database."""

    node: Node
    database: str
    certain: set[str] = field(default_factory=set)
    """Names of customers and visits that are there."""
    doubtful: set[str] = field(default_factory=set)
    """Those whose transaction was not answered."""
    applied: set[str] = field(default_factory=set)
    """Changes of the schema that are in force."""
    baseline: set[str] = field(default_factory=set)
    """Those that were when the job began, or after its switch."""
    has_mirror: bool = False
    """Whether another database has the schema as it is without jobs."""
    layout: list[tuple[str]] | None = None
    """The layout in which rows get new IDs, as long as it is that of the server."""
    jobs: dict[str, str] = field(default_factory=dict)
    """The phases of the jobs, by their tables, as they were last seen."""

    @property
    def mirror(self) -> str:
        return f"{self.database}_mirror"

    def later(self, key: str) -> list[str]:
        """The jobs with tables of this one that have begun since."""
        names = list(self.jobs)
        return [each for each in names[names.index(key) + 1 :] if KEYS[each].group == KEYS[key].group]

    def outstanding(self, key: str) -> set[str]:
        """The changes of others that a job is not to revert."""
        return {each for each in self.applied ^ self.baseline if CHANGES[each].shown and KEYS[key].group == "shop"}


class Converter(Snowflakes):
    """Uses of conversion jobs."""

    schema = TRADE

    def __init__(self) -> None:
        self._shops: dict[tuple[Node, str], Shop] = {}
        self._names = count(1)
        super().__init__()

    # Which databases there are

    def database_copied(self, node: Node, database: str, copy: Node, name: str) -> None:
        super().database_copied(node, database, copy, name)
        if original := self._shops.get((node, database)):
            # A dump may have been made while clients wrote.
            sets = {each: set(getattr(original, each)) for each in ("applied", "baseline")}
            shop = Shop(copy, name, has_mirror=original.has_mirror, layout=original.layout, **sets)
            self._learn(shop)
            self._look_for_jobs(shop)
            if shop.has_mirror:
                self._make_mirror(shop, schema_of(node, original.mirror))
            self._look_at(shop)

    def database_dropped(self, node: Node, name: str) -> None:
        super().database_dropped(node, name)
        if shop := self._shops.pop((node, name), None):
            self._drop_mirror(shop)

    def is_needed(self, node: Node, database: str) -> bool:
        """The functions of a job call those of the extension, where it was when the job began."""
        shop = self._shops.get((node, database))
        return shop is not None and self._look_for_jobs(shop) != {}

    def _learn(self, shop: Shop) -> None:
        """Looks at the rows of a database; that they are there after a crash is what its clients rely on."""
        shop.node.cluster.psql("ALTER ROLE postgres SET synchronous_commit = on")
        self._shops[shop.node, shop.database] = shop
        shop.certain, shop.doubtful = {name for (name,) in self._query(shop, NAMES)}, set()

    def _shop(self, which: int, database: int) -> Shop:
        """One of the databases."""
        if not self._shops:
            self._learn(Shop(self.world.nodes[0], DATABASE))
        able = self._able()
        node = pick(able, which).node
        return pick([each for each in able if each.node is node], database)

    def _able(self) -> list[Shop]:
        """The databases that are known."""
        return [shop for shop in self._shops.values() if shop.node in self.world.running()]

    def _make_mirror(self, shop: Shop, schema: str) -> None:
        """A database with the schema alone."""
        shop.node.cluster.psql(f"CREATE DATABASE {shop.mirror} TEMPLATE template0")
        shop.node.cluster.psql(schema, shop.mirror)
        shop.has_mirror = True

    def _drop_mirror(self, shop: Shop) -> None:
        if shop.has_mirror:
            shop.node.cluster.psql(f"DROP DATABASE {shop.mirror}")
            shop.has_mirror = False

    # Jobs

    def _look_for_jobs(self, shop: Shop) -> dict[str, str]:
        """The phases of the jobs, by their tables."""
        with self._admin(shop) as session:
            are_jobs = session.value("SELECT to_regclass('id_gen_convert.job') IS NOT NULL")
            shop.jobs = dict(session.run(PHASES)) if are_jobs else {}
        return shop.jobs

    def _job(self, which: int, settings: dict[str, str]) -> tuple[Shop, str]:
        """One of the jobs; where none is, one begins."""
        if not any(shop.jobs for shop in self._able()):
            self._start(self._shop(which, which), pick(list(KEYS), which), settings, settings)
        shop, key = pick([(shop, key) for shop in self._able() for key in shop.jobs], which)
        if key not in self._look_for_jobs(shop):
            raise Skipped
        if shop.layout and shop.layout != self._query(shop, LAYOUT):
            shop.layout = None
        return shop, key

    def _admin(self, shop: Shop, **settings: str) -> Session:
        return self.world.passing(shop.node, shop.database, **settings)

    def _query(self, shop: Shop, sql: str) -> list[tuple[Any, ...]]:
        return self.world.query(shop.node, sql, database=shop.database)

    def _call(self, shop: Shop, settings: dict[str, str], statement: str) -> Refused | None:
        """A statement of a job, and its refusal if the job cannot go on; out of all others, hints lead."""

        def call(session: Session) -> Refused | None:
            try:
                session.run(statement)
            except Refused as refused:
                if refused.sqlstate == NOT_LOCKED or (refused.sqlstate == REFUSED and is_of_job(refused)):
                    return refused
                raise
            return None

        # Nobody holds rows, snapshots or locks for long.
        self.world.forget_sessions(shop.node)
        with self._admin(shop, **settings) as session:
            return self.insist(session, call)

    @use("conversion", key=KEY, settings=SETTING, other=SETTING)
    def start_job(self, which: int, database: int, key: str, settings: dict[str, str], other: dict[str, str]) -> None:
        """A plan in one session, and its first statement in another one."""
        self._start(self._shop(which, database), key, settings, other)

    def _start(self, shop: Shop, key: str, settings: dict[str, str], other: dict[str, str]) -> None:
        before = self._look_for_jobs(shop)
        if key in before or (before and (shop.outstanding("customer") or self._is_converted(shop))):
            return
        if not before:
            self._begin_anew(shop)
        query = f"SELECT statement FROM public.id_gen_convert_plan({KEYS[key].column}{KEYS[key].options}) ORDER BY step"
        with self._admin(shop, **settings) as session:
            planned = self.insist(session, lambda session: session.values(query))
        if not planned:
            raise Skipped
        is_refused = any(KEYS[each].group == KEYS[key].group and phase != "switched" for each, phase in before.items())
        refused = self._call(shop, other, planned[0])
        if (refused is not None and refused.sqlstate == REFUSED) != is_refused:
            raise Finding("conversion", f"start of {key} beside {before}: {refused or 'is not refused'}")
        if refused is None and not before:
            shop.baseline = set(shop.applied)
        if refused is None and key == "visit":
            shop.layout = self._query(shop, LAYOUT)
        self._look_for_jobs(shop)
        self._look_at(shop)

    def _is_converted(self, shop: Shop) -> bool:
        """Whether a column is what it was not in the beginning, without a job."""
        return any(table not in shop.jobs for (table,) in self._query(shop, CONVERTED))

    def _begin_anew(self, shop: Shop) -> None:
        """Where no job is, one can begin: with new tables if a column was converted, and a copy of the schema."""
        with self._admin(shop) as session:
            if session.run(CONVERTED):
                session.run("SET client_min_messages = warning")
                session.run("DROP SCHEMA trade CASCADE")
                session.run(TRADE)
                shop.certain, shop.doubtful, shop.applied = set(session.values(NAMES)), set(), set()
        self._drop_mirror(shop)
        self._make_mirror(shop, schema_of(shop.node, shop.database))
        shop.baseline = set(shop.applied)

    @use("conversion", settings=SETTING, steps=st.integers(1, 6), max_rows=(20_000, 30))
    def step_job(self, which: int, settings: dict[str, str], steps: int, max_rows: int) -> None:
        """Some steps of a job, by a client that makes the indexes."""
        shop, key = self._job(which, settings)
        self._step(shop, key, settings, steps, max_rows)

    def _step(self, shop: Shop, key: str, settings: dict[str, str], steps: int, max_rows: int) -> None:
        for _ in range(steps):
            if self._look_for_jobs(shop).get(key) not in UNDER_WAY:
                break
            before = self._progress(shop)
            self._call(shop, settings, f"SELECT id_gen_convert.step({KEYS[key].column}, max_rows => {max_rows})")
            if self._progress(shop) == before:
                for statement in self._todo(shop, settings, key):
                    if not statement.startswith(("SET", "DROP", "CREATE")):
                        break
                    self._call(shop, settings, statement)
        self._look_at(shop)

    def _progress(self, shop: Shop) -> list[tuple[object, ...]]:
        return self._query(shop, PROGRESS)

    def _todo(self, shop: Shop, settings: dict[str, str], key: str) -> list[str]:
        with self._admin(shop, **settings) as session:
            return self.insist(session, lambda session: session.values(todo(key))) or []

    @use("conversion", settings=st.lists(SETTING, min_size=1, max_size=3))
    def carry_on(self, which: int, settings: list[dict[str, str]]) -> None:
        """Everything that is left up to the switch, each statement in another session."""
        shop, key = self._job(which, settings[0])
        self._carry_on(shop, key, settings)

    def _carry_on(self, shop: Shop, key: str, settings: list[dict[str, str]]) -> None:
        if shop.jobs[key] in ("switched", "returned"):
            return
        before, attributes, refused = self._values(shop, key), self._query(shop, ATTRIBUTES), None
        for turn, statement in enumerate(self._todo(shop, settings[0], key)):
            refused = self._call(shop, settings[turn % len(settings)], statement)
            if refused is not None:
                self._explain(key, shop, refused)
                break
        phase = self._look_for_jobs(shop)[key]
        if phase == "switched":
            if shop.outstanding(key):
                raise Finding("conversion", f"the switch of {key} reverts {shop.outstanding(key)}")
            if KEYS[key].group == "shop":
                shop.baseline = set(shop.applied)
            self._compare_values(before, self._values(shop, key, "id_old"), f"switch of {key}")
            if lost := set(map(str, attributes)) - set(map(str, self._query(shop, ATTRIBUTES))):
                raise Finding("conversion", f"after the switch of {key} there is no more {sorted(lost)}")
            if key == "badge":
                with self._admin(shop) as session:
                    self.insist(session, lambda session: session.run(NEW_BADGE))
            if key == "visit" and shop.layout is not None and (wrong := self._query(shop, WRONG_IDS)):
                raise Finding("conversion", f"snowflakes of another time or worker: {wrong}")
        elif not shop.outstanding(key) and refused is None:
            raise Finding("conversion", f"the job of {key} is left in phase {phase}")
        self._look_at(shop)

    def _explain(self, key: str, shop: Shop, refused: Refused) -> None:
        """A refusal names all changes of others, and there is none without."""
        if refused.sqlstate == NOT_LOCKED:
            return
        if refused.message.startswith(OTHER_LAYOUT):
            if shop.layout == self._query(shop, LAYOUT):
                raise Finding("conversion", f"the layout is the one before: {refused}")
            return
        outstanding = shop.outstanding(key)
        is_named = all(CHANGES[each].shown in refused.detail for each in outstanding)
        if not outstanding or not (is_named or "not verified" in refused.message):
            raise Finding("conversion", f"after changes {sorted(outstanding)}: {refused}")

    @use("conversion", settings=SETTING, steps=(100, 1, 3))
    def undo_job(self, which: int, settings: dict[str, str], steps: int, force: bool) -> None:
        """The way back, or a part of it."""
        shop, key = self._job(which, settings)
        self._undo(shop, key, settings, steps, force)

    def _undo(self, shop: Shop, key: str, settings: dict[str, str], steps: int, force: bool) -> None:
        later, was_switched = shop.later(key), shop.jobs[key] == "switched"
        outstanding = shop.outstanding(key) if was_switched else set()
        force = force and bool(outstanding) and all(CHANGES[each].is_reverted for each in outstanding)
        before = self._values(shop, key, "id_old") if was_switched and not later else None
        forced = ", force => true" if force else ""
        if steps == 100:
            refused = self._call(shop, settings, f"CALL id_gen_convert.undo({KEYS[key].column}{forced})")
        else:
            for _ in range(steps):
                refused = self._call(shop, settings, f"SELECT id_gen_convert.undo_step({KEYS[key].column}{forced})")
                if refused is not None or key not in self._look_for_jobs(shop):
                    break
        if later:
            if refused is None or KEYS[later[-1]].table not in refused.hint:
                raise Finding("conversion", f"undo of {key} before {later}: {refused or 'is not refused'}")
        elif outstanding and not force:
            if refused is None:
                raise Finding("conversion", f"an undo of {key} reverts {sorted(outstanding)}")
            self._explain(key, shop, refused)
        elif refused is not None and refused.sqlstate != NOT_LOCKED:
            raise Finding("conversion", f"undo of {key}: {refused}")
        if refused is None and was_switched:
            shop.applied = (shop.applied - outstanding) | (shop.baseline & outstanding)
        if self._look_for_jobs(shop).get(key) != "switched" and before is not None:
            self._compare_values(before, self._values(shop, key), f"undo of {key}")
        self._look_at_schema(shop)
        self._look_at(shop)

    def _look_at_schema(self, shop: Shop) -> None:
        """When all jobs have gone back, the schema is as it was, and as others have changed it."""
        if not shop.jobs and shop.has_mirror:
            compare_schemas(schema_of(shop.node, shop.mirror), schema_of(shop.node, shop.database))

    # Mostly the job that most changes are about, and after the switch, when an undo would revert them.
    @use("conversion", key=("customer", "customer", *KEYS), settings=SETTING, other=SETTING, steps=st.integers(0, 6),
         what=("insert", *WRITES), change=CHANGES, times=(1, 1, 0, 2), late=(True, True, False))  # fmt: skip
    def whole_job(
        self, which: int, database: int, key: str, settings: dict[str, str], other: dict[str, str], steps: int,
        what: str, change: str, times: int, late: bool,
    ) -> None:  # fmt: skip
        """There and back, beside somebody who writes, and one who changes the schema, and maybe takes that back, before
        or after the switch."""
        shop = self._shop(which, database)
        self._start(shop, key, settings, other)
        if not shop.jobs or list(shop.jobs)[-1] != key:
            raise Skipped
        self._step(shop, key, other, steps, 20_000)
        self._write(shop, what)
        for _ in range(0 if late else times):
            self._change(shop, change)
        self._carry_on(shop, key, [settings, other])
        for _ in range(times if late else 0):
            self._change(shop, change)
        self._undo(shop, key, settings, 100, False)

    @use("conversion", settings=SETTING)
    def finish_job(self, which: int, settings: dict[str, str], keep_old: bool) -> None:
        shop, key = self._job(which, settings)
        is_refused = shop.jobs[key] != "switched" or bool(shop.later(key))
        refused = self._call(shop, settings, f"SELECT id_gen_convert.finish({KEYS[key].column}, {keep_old})")
        if (refused is not None and refused.sqlstate == REFUSED) != is_refused:
            raise Finding("conversion", f"finish of {key} with jobs {shop.jobs}: {refused or 'is not refused'}")
        if refused is None:
            # What it was like before is gone for good.
            self._drop_mirror(shop)
        self._look_at(shop)

    @action("interrupted job", settings=SETTING, way=("on", "back", "finish"), writers=st.integers(0, 2),
            how=("cancel", "terminate", "immediate", "kill9", "fast", "kill backend", "pause"))  # fmt: skip
    def interrupt_job(
        self, which: int, settings: dict[str, str], how: str, way: str, delay_ms: int, writers: int
    ) -> None:
        """Whoever carries a job on is ended or told to pause, or the server is ended, beside clients that read and
        write."""
        shop, key = self._job(which, settings)
        node, column, phase = shop.node, KEYS[key].column, shop.jobs[key]
        # By the rules of start_job, undo_job and finish_job, which know what is refused.
        if list(shop.jobs)[-1] != key or shop.outstanding(key) or phase == "returned":
            return
        if (way == "finish" and phase != "switched") or (how == "pause" and way != "on"):
            return
        self.world.forget_sessions(node)
        # What was there from the beginning, and when a job is finished, what is there since the switch.
        is_old = way != "finish"
        before = self._values(shop, key, "id_old" if is_old and phase == "switched" else "id")

        def carry(session: Session) -> None:
            statements = session.values(todo(key)) if way == "on" else [BACK[way].format(column)]
            for statement in statements:
                session.run(statement)

        # Its session is that of a crowd, which has no settings of its own.
        with self.crowd(node, ["conversion readers", *["conversion"] * writers], 0, shop.database):
            self._interrupt(shop, key, settings, carry, how, delay_ms)
        if not node.running:
            self.world.start(node)
        elif how == "kill backend":
            self.world.forget_sessions(node)
            node.cluster.poll_until("SELECT true")
        is_switched = self._look_for_jobs(shop).get(key) == "switched"
        if is_switched:
            shop.baseline = set(shop.applied)
        elif way == "finish":
            self._drop_mirror(shop)
        self._compare_values(before, self._values(shop, key, "id_old" if is_old and is_switched else "id"), how)
        self._look_at_schema(shop)
        self._look_at(shop)

    def _interrupt(
        self, shop: Shop, key: str, settings: dict[str, str], carry: Callable[[Session], None], how: str, delay_ms: int
    ) -> None:
        """Runs a job in a thread of its own, and ends it after some milliseconds."""
        problems: list[BaseException] = []
        node, session = shop.node, self._admin(shop, **settings)
        pid = session.pid

        def run() -> None:
            try:
                carry(session)
            except Refused as refused:
                if not (is_answer(refused) or refused.sqlstate == REFUSED):
                    problems.append(Finding("conversion", f"a job that is ended ({how}): {refused}"))
            except BaseException as problem:  # noqa: BLE001, the main thread raises it
                problems.append(problem)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        time.sleep(delay_ms / 1000)
        if how in ("cancel", "terminate"):
            self._query(shop, f"SELECT pg_{how}_backend({pid})")
        elif how == "pause":
            with suppress(Refused):
                self._pause(shop, key)
        elif how == "kill backend":
            since = node.cluster.log_position
            self.world.say(f"{node}: kill -9 of the job")
            with suppress(ProcessLookupError):
                node.cluster.kill9(pid)
                node.cluster.wait_for_log("reinitializing", since)
        else:
            self.world.stop(node, how)
        thread.join(60)
        session.close()
        if thread.is_alive():
            raise Finding("hang", f"a job goes on after {how}")
        if problems:
            raise problems[0]

    def _pause(self, shop: Shop, key: str, crash: str = "") -> None:
        """A job waits until it is resumed, whoever tries to carry it on."""
        column = KEYS[key].column
        self._query(shop, f"SELECT id_gen_convert.pause({column})")
        try:
            phase, before = self._look_for_jobs(shop).get(key), self._progress(shop)
            if crash:
                self.world.restart(shop.node, crash)
            [(waits,)] = self._query(shop, f"SELECT id_gen_convert.step({column})")
            if phase in UNDER_WAY and not (waits and self._progress(shop) == before):
                raise Finding("conversion", f"the job of {key} goes on although it is paused, from {before}")
        finally:
            self._query(shop, f"SELECT id_gen_convert.resume({column})")

    @action("paused job", crash=("", "fast", "kill9"))
    def pause_job(self, which: int, crash: str) -> None:
        shop, key = self._job(which, {})
        if shop.jobs[key] in UNDER_WAY:
            self.world.forget_sessions(shop.node)
            self._pause(shop, key, crash)
            self._look_at(shop)

    # What others do

    @action("schema change", change=CHANGES)
    def change_schema(self, which: int, database: int, change: str) -> None:
        """Others change something, or take that back."""
        self._change(self._shop(which, database), change)

    def _change(self, shop: Shop, change: str) -> None:
        jobs = {each: phase for each, phase in self._look_for_jobs(shop).items() if KEYS[each].group == "shop"}
        if len(jobs) > 1 or "returned" in jobs.values() or (CHANGES[change].shown and set(jobs) - {"customer"}):
            return
        forward, back, shown, _ = CHANGES[change]
        statements = (back if change in shop.applied else forward).split("; ")
        self.world.forget_sessions(shop.node)
        # What an undo after the switch would revert is not in the schema that it leads back to.
        is_for_mirror = shop.has_mirror and not (shown and "switched" in jobs.values())
        for each in [shop.database, *([shop.mirror] if is_for_mirror else [])]:
            with self.world.passing(shop.node, each) as admin:
                for statement in statements:
                    admin.run(statement)
        shop.applied ^= {change}
        if not jobs:
            shop.baseline = set(shop.applied)

    @action("renamed table", settings=SETTING)
    def rename_table(self, which: int, settings: dict[str, str], back: bool) -> None:
        """A table has another name for a while: no step leaves it out."""
        shop, _ = self._job(which, settings)
        if "customer" not in shop.jobs:
            return
        with self._admin(shop) as admin:
            admin.run("ALTER TABLE trade.purchase RENAME TO orders")
            step = "undo_step" if back else "step"
            refused = self._call(shop, settings, f"SELECT id_gen_convert.{step}({KEYS['customer'].column})")
            if refused is None or "renamed" not in refused.message:
                raise Finding("conversion", f"a table was renamed: {refused or 'is not refused'}")
            admin.run("ALTER TABLE trade.orders RENAME TO purchase")

    @action("idle trigger", settings=SETTING)
    def idle_trigger(self, which: int, settings: dict[str, str], trigger: int) -> None:
        """A trigger of the job is disabled: neither a switch nor an undo trusts the rows. Its hint leads on."""
        shop, key = self._job(which, settings)
        if shop.jobs[key] != "switched" or list(shop.jobs)[-1] != key or shop.outstanding(key):
            return
        with self._admin(shop) as admin:
            found = admin.run(
                "SELECT w.relation::text, w.trigger_name FROM id_gen_convert.trigger_of w"
                " JOIN id_gen_convert.job j ON j.id = job"
                f" WHERE j.relation = 'trade.{key}'::regclass AND is_backward ORDER BY 1, 2"
            )
            table, of_job = pick(found, trigger)
            admin.run(f'ALTER TABLE {table} DISABLE TRIGGER "{of_job}"')
        refused = self._call(shop, settings, f"SELECT id_gen_convert.undo_step({KEYS[key].column})")
        if refused is None or of_job not in refused.detail:
            raise Finding("conversion", f"trigger {of_job} is disabled: {refused or 'is not refused'}")
        self.administrator.type(shop.node, shop.database, refused.hint.partition(";")[0] + ";")

    @action("overload", settings=SETTING, argument=("bigint", "integer", "double precision"))
    def overload(self, which: int, settings: dict[str, str], argument: str) -> None:
        """The function of a policy gets an overload that lets rows through: the policy does not come to use it."""
        shop, key = self._job(which, settings)
        is_last = list(shop.jobs)[-1] == key
        if key != "customer" or not is_last or shop.outstanding(key) or shop.jobs[key] == "returned":
            return
        self.world.forget_sessions(shop.node)
        is_back, refused = shop.jobs[key] == "switched", None
        with self._admin(shop) as admin:
            admin.run(f"CREATE FUNCTION trade.may_see({argument}) RETURNS boolean LANGUAGE sql AS 'SELECT true'")
        try:
            for statement in [BACK["back"].format(KEYS[key].column)] if is_back else self._todo(shop, settings, key):
                refused = refused or self._call(shop, settings, statement)
            if refused is not None and refused.sqlstate != NOT_LOCKED and "may_see" not in refused.detail:
                raise Finding("conversion", f"beside an overload for {argument}: {refused}")
            with self._admin(shop) as session:
                session.run("SET ROLE clerk")
                session.run("SET row_security = on")
                if rows := session.value("SELECT count(*) FROM trade.purchase"):
                    raise Finding("privileges", f"the clerk sees {rows} rows by an overload for {argument}")
        finally:
            with suppress(Refused):
                self._query(shop, f"DROP FUNCTION trade.may_see({argument})")
        if self._look_for_jobs(shop).get(key) == "switched":
            shop.baseline = set(shop.applied)
        self._look_at_schema(shop)
        self._look_at(shop)

    @use("conversion", what=("insert", *WRITES))
    def write(self, which: int, database: int, what: str) -> None:
        """A client writes, whichever phase the job is in."""
        self._write(self._shop(which, database), what)

    def _write(self, shop: Shop, what: str) -> None:
        with self._admin(shop) as session:
            if what == "insert":
                self.insist(session, self.add_customer)
            for statement in WRITES.get(what, ()):
                session.run(statement)
        if what == "delete":
            shop.certain = {each for each in shop.certain if not each.startswith("new ")}
            shop.doubtful.clear()
        self._look_at(shop)

    @client("conversion")
    def add_customer(self, session: Session) -> None:
        """Rows that refer to each other. It is known of each whether it is there."""
        shop = self._shops.get((session.node, session.database)) or Shop(session.node, session.database)
        name = f"new {next(self._names)}"
        shop.doubtful.add(name)
        try:
            session.run("BEGIN")
            made = session.value("INSERT INTO trade.customer (name) VALUES (%s) RETURNING id", name)
            add = "INSERT INTO trade.purchase (customer_id, paid_by, whose) VALUES (%s, %s, %s)"
            session.run(add, made, made, name)
            made = session.value("INSERT INTO trade.visit (name) VALUES (%s) RETURNING id", name)
            session.run("INSERT INTO trade.stay (visit_id, whose) VALUES (%s, %s)", made, name)
            session.run("COMMIT")
        except Refused as refused:
            self._not_odd(session, refused)
            raise
        shop.certain.add(name)
        shop.doubtful.discard(name)

    @client("conversion readers")
    def read_rows(self, session: Session) -> None:
        """Rows that are never deleted are there in every phase."""
        try:
            [row] = session.run(WHOLE)
        except Refused as refused:
            self._not_odd(session, refused)
            raise
        if row != EXPECTED:
            raise Finding("conversion", f"a reader sees {row} rows, not {EXPECTED}")

    def _not_odd(self, session: Session, refused: Refused) -> None:
        """A client of a table whose column is converted is not refused for that."""
        is_odd = refused.sqlstate.startswith(ODD) and refused.sqlstate != NO_PRIVILEGE
        if is_odd and not self.is_extension_gone:
            raise Finding("conversion", f"a client is refused: {refused}") from refused
        if session.is_open and session.in_transaction:
            self.roll_back(session)
        if refused.sqlstate == STALE_PLAN:
            session.close()

    # Where only the default changes

    @use("new default", table=DEFAULT_ONLY, settings=SETTING, other=SETTING, crash=("", "kill9"))
    def convert_default(
        self, which: int, database: int, table: str, settings: dict[str, str], other: dict[str, str], crash: str
    ) -> None:
        """There and back, in sessions of other settings."""
        shop = self._shop(which, database)
        before = schema_of(shop.node, shop.database)
        query = (
            f"SELECT statement, undo FROM public.id_gen_convert_plan('trade.{table}'::regclass, 'id'::text)"
            " ORDER BY step"
        )
        insert = f"INSERT INTO trade.{table} (n) VALUES "
        with self._admin(shop, **settings) as session:
            plan = self.insist(session, lambda session: session.run(query)) or []
        with self._admin(shop, **other) as session:
            for statement, _ in plan:
                session.run(statement)
        with self._admin(shop) as session:
            self.insist(session, lambda session: session.run(f"{insert} (1)"))
        if crash:
            self.world.restart(shop.node, crash)
        with self._admin(shop, **settings) as session:
            for _, undo in reversed(plan):
                if undo:
                    session.run(undo)
        with self._admin(shop, **other) as session:
            session.run(f"{insert} (2)")
            if table != "box" and session.value(f"SELECT max(id) > 10000 FROM trade.{table} WHERE n = 2"):
                raise Finding("conversion", f"the sequence of {table} does not go on where it stood")
            # known: the undo of an identity takes snowflakes that an earlier conversion left for its own numbers.
            session.run(f"DELETE FROM trade.{table} WHERE n = 1")
        compare_schemas(before, schema_of(shop.node, shop.database))

    # Oracles

    def _values(self, shop: Shop, key: str, column: str = "id") -> dict[str, str]:
        """The values of rows that can be told apart by their names."""
        name = {"purchase": "whose || ' ' || row_number() OVER (PARTITION BY whose ORDER BY {0})"}.get(key, "name")
        values = f"SELECT {name.format(column)}, {column}::text FROM trade.{key} WHERE {column} IS NOT NULL"
        return dict(self._query(shop, values))

    def _compare_values(self, before: dict[str, str], after: dict[str, str], what: str) -> None:
        if lost := {name: value for name, value in before.items() if after.get(name) != value}:
            name = min(lost)
            which = f"{name} had {lost[name]}, has {after.get(name)}"
            raise Finding("conversion", f"{what}: {len(lost)} rows have another value: {which}")

    def _look_at(self, shop: Shop) -> None:
        """No row is missing, none refers to another one, and there is none that nobody has written."""
        with self._admin(shop) as session:
            there = set(session.values(NAMES))
            [row] = session.run(WHOLE)
            [wrong] = session.run(WRONG)
        if missing := shop.certain - there:
            raise Finding("conversion", f"rows are missing: {sorted(missing)[:5]}")
        if strange := there - shop.certain - shop.doubtful:
            raise Finding("conversion", f"rows that nobody wrote: {sorted(strange)[:5]}")
        shop.doubtful -= there
        shop.certain = there
        if row != EXPECTED:
            raise Finding("conversion", f"{row} rows, not {EXPECTED}")
        if wrong != (0, 0, 0):
            raise Finding("conversion", f"references lead elsewhere: {wrong}")

    def at_the_end(self) -> None:
        super().at_the_end()
        for shop in self._able():
            self._look_at(shop)


def todo(key: str) -> str:
    return f"SELECT statement FROM id_gen_convert.todo({KEYS[key].column})"


def schema_of(node: Node, database: str) -> str:
    return comparable(node.cluster.run("pg_dump", "--schema-only", "--schema=trade", dbname=database))


def compare_schemas(before: str, after: str) -> None:
    if after != before:
        raise Finding("conversion", f"the schema is another after the undo:\n{first_difference(before, after)}")


def is_of_job(refused: Refused) -> bool:
    """Whether a refusal is about a job, not about snowflakes."""
    return "id_gen_convert" in refused.hint or speaks_of_a_job(refused.message)


def speaks_of_a_job(message: str) -> bool:
    return any(word in message for word in WORDS_OF_JOBS)
