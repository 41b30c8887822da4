"""Sessions with settings of their own, transactions of all kinds, cursors, roles; and what may not depend on them."""

import re
from contextlib import suppress

from hypothesis import strategies as st

from attack.action import action, pick, use
from attack.explorer import Explorer
from attack.finding import Finding
from attack.world import DATABASE, Refused, Session
from harness.server import Server

PARALLEL = "debug_parallel_query" if Server.from_environment().version >= 16 else "force_parallel_mode"

# Settings that clients choose. Those of a superuser come last.
SETTINGS = (
    ("DateStyle", "Postgres, DMY"), ("DateStyle", "German"), ("DateStyle", "SQL, MDY"), ("IntervalStyle", "iso_8601"),
    ("IntervalStyle", "sql_standard"), ("TimeZone", "Asia/Kathmandu"), ("TimeZone", "America/New_York"),
    ("TimeZone", "<+14>-14"), ("extra_float_digits", "-15"), ("extra_float_digits", "0"),
    ("standard_conforming_strings", "off"), ("quote_all_identifiers", "on"), ("bytea_output", "escape"),
    ("search_path", "planted, pg_catalog, public"), ("search_path", "pg_temp, public"),
    ("default_transaction_isolation", "repeatable read"), ("default_transaction_isolation", "serializable"),
    ("default_transaction_read_only", "on"), ("default_transaction_deferrable", "on"), ("row_security", "off"),
    (PARALLEL, "on"), (PARALLEL, "regress"), ("parallel_setup_cost", "0"), ("parallel_leader_participation", "off"),
    ("jit", "off"), ("jit_above_cost", "0"), ("plan_cache_mode", "force_generic_plan"),
    ("plan_cache_mode", "force_custom_plan"), ("client_encoding", "SQL_ASCII"), ("client_encoding", "LATIN1"),
    ("client_encoding", "UTF8"), ("client_min_messages", "debug5"), ("application_name", "'; DROP -- %s ünïcode"),
    ("synchronous_commit", "off"), ("enable_seqscan", "off"), ("enable_indexscan", "off"), ("work_mem", "64kB"),
    ("array_nulls", "off"), ("xmlbinary", "hex"), ("check_function_bodies", "off"),
    ("session_replication_role", "replica"), ("session_replication_role", "local"), ("log_statement", "all"),
    ("log_min_duration_statement", "0"), ("debug_print_plan", "on"), ("track_functions", "all"),
)  # fmt: skip
OF_SUPERUSERS = ("session_replication_role", "log_statement", "log_min_duration_statement", "track_functions")
SETTING = st.sampled_from(SETTINGS)

# Functions and an operator that a careless path finds before PostgreSQL's own.
SCHEMA = """
CREATE SCHEMA planted;
GRANT USAGE ON SCHEMA planted TO PUBLIC;
DO $do$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['now()', 'clock_timestamp()', 'pg_backend_pid()', 'current_setting(text)',
        'current_setting(text, boolean)', 'length(text)', 'lower(text)', 'upper(text)', 'quote_ident(text)',
        'to_char(timestamptz, text)', 'round(double precision)', 'substr(text, integer)',
        'array_to_string(text[], text)', 'pg_postmaster_start_time()', 'to_timestamp(double precision)']
    LOOP
        EXECUTE 'CREATE FUNCTION planted.' || name || ' RETURNS text LANGUAGE plpgsql AS '
            || quote_literal('BEGIN RAISE EXCEPTION ''a planted function was called''; END');
    END LOOP;
END $do$;
CREATE FUNCTION generating_process(OUT id bigint, OUT pid integer) LANGUAGE plpgsql PARALLEL SAFE AS
    $$BEGIN id := public.snowflake_next(); pid := pg_catalog.pg_backend_pid(); END$$;
CREATE FUNCTION reading_process(OUT id bigint, OUT pid integer) LANGUAGE plpgsql PARALLEL SAFE AS
    $$BEGIN id := public.snowflake_commit_horizon(); pid := pg_catalog.pg_backend_pid(); END$$;
CREATE FUNCTION planted.both(text, text) RETURNS text LANGUAGE plpgsql AS
    $$BEGIN RAISE EXCEPTION 'a planted operator was called'; END$$;
CREATE OPERATOR planted.|| (LEFTARG = text, RIGHTARG = text, FUNCTION = planted.both);
"""

BEGINNINGS = ("BEGIN", "BEGIN ISOLATION LEVEL REPEATABLE READ", "BEGIN ISOLATION LEVEL SERIALIZABLE", "BEGIN READ ONLY")
WITHIN = ("SAVEPOINT middle", "ROLLBACK TO middle", "RELEASE middle", "PREPARE", "COMMIT AND CHAIN",
          "ROLLBACK AND CHAIN")  # fmt: skip
ENDS = ("COMMIT", "ROLLBACK")
# What a session may be told beside its work.
RESETS = ("DISCARD ALL", "DISCARD PLANS", "DISCARD SEQUENCES", "RESET ALL", "SET ROLE clerk", "RESET ROLE",
          "SET SESSION AUTHORIZATION clerk", "RESET SESSION AUTHORIZATION", "DEALLOCATE ALL")  # fmt: skip
# How many sessions of a server are reached by their numbers, and how many transactions stay prepared.
MOST_SESSIONS, MOST_PREPARED = 5, 3

GENERATING = (
    "SELECT snowflake_next() FROM generate_series(1, 200)",
    "SELECT snowflake_next_batch(300)",
    "SELECT unnest(snowflake_next_array(100))",
    "SELECT careless() FROM generate_series(1, 20)",
)

# What may not depend on a session's settings: values that are shown in one way whatever these are.
QUESTIONS = (
    """SELECT to_jsonb(p) - 'created_at', extract(epoch FROM p.created_at), extract(epoch FROM snowflake_timestamp(id))
         FROM unnest(%s::bigint[]) id, snowflake_parse(id) p""",
    "SELECT snowflake_inspect(id) FROM unnest(%s::bigint[]) id",
    "SELECT snowflake_inspect(id, 'twitter'), snowflake_inspect(id, 'default') FROM unnest(%s::bigint[]) id",
    """SELECT name, about, in_use, layout, extract(epoch FROM epoch), extract(epoch FROM tick), time_bits,
              datacenter_bits, worker_bits, sequence_bits, nodes, ids_per_second, extract(epoch FROM exhausted_at)
         FROM snowflake_layouts() WHERE %s::bigint[] IS NOT NULL""",
    """SELECT snowflake_min(snowflake_timestamp(id)), snowflake_max(snowflake_timestamp(id)),
              snowflake_make(snowflake_timestamp(id), 0, 1, 2), snowflake_time_encoder(snowflake_timestamp(id)),
              extract(epoch FROM snowflake_time_decoder(id::text))
         FROM unnest(%s::bigint[]) id""",
    """SELECT id_encode(id, 'base58'), id_decode_bigint(id_encode(id, 'base62'), 'base62'), sqids_encode(ARRAY[id]),
              uuidv8_from_snowflake(id, 7), uuidv8_to_snowflake(uuidv8_from_snowflake(id, 7))
         FROM unnest(%s::bigint[]) id""",
    """SELECT uuidv5('6ba7b810-9dad-11d1-80b4-00c04fd430c8', id::text),
              uuidv3('6ba7b810-9dad-11d1-80b4-00c04fd430c8', chr(233)),
              ulid_encode(uuidv7_min(snowflake_timestamp(id))),
              typeid_encode(uuidv7_max(snowflake_timestamp(id)), 'user'),
              extract(epoch FROM uuidv7_timestamp(uuidv7_min(snowflake_timestamp(id))))
         FROM unnest(%s::bigint[]) id""",
    "SELECT name, status FROM id_gen_check() WHERE %s::bigint[] IS NOT NULL ORDER BY 1",
    # A session may ask for names in quotes, and for fewer digits.
    """SELECT kind, suitable, layout, headroom::numeric, key_bytes::numeric, replace(advice, '"', '')
         FROM id_gen_recommend(10000, 4, 30) WHERE %s::bigint[] IS NOT NULL""",
)
# The server's layout, and whether it is the one that is set.
LAYOUT_IN_USE = """
SELECT layout, current_setting('id_gen.layout') IN (name, layout) FROM snowflake_layouts() WHERE in_use
"""
# What the first session after a start asks for; of the first question, the leader of a parallel query does not see that
# it is one for the extension.
FIRST_QUESTIONS = (
    "SELECT extract(epoch FROM careless_time(id)) FROM unnest(%s::bigint[]) id",
    QUESTIONS[0], QUESTIONS[3], QUESTIONS[7],
)  # fmt: skip
OURS = re.compile(r"\b((?:snowflake|id_gen|id|sqids|uuidv\d|ulid|typeid)_?\w*)\(")
TIMES = 3


class Sessions(Explorer):
    """Actions on sessions."""

    schema = SCHEMA

    def __init__(self) -> None:
        self._cursors: dict[str, list[str]] = {}
        self._numbers = iter(range(1, 1_000_000))
        super().__init__()

    @action("open session", role=("postgres", "clerk"), chosen=st.lists(SETTING, max_size=4))
    def open_session(self, which: int, role: str, chosen: list[tuple[str, str]]) -> None:
        """One more client, with settings of its own, which is reached by the first number."""
        node = self.world.node(which)
        idle = [each for each in node.sessions if not each.in_transaction]
        if len(node.sessions) >= MOST_SESSIONS and idle:
            idle[-1].close()
        settings = {name: value for name, value in chosen if role == "postgres" or name not in OF_SUPERUSERS}
        session = self.world.open(node, DATABASE, role, **settings)
        node.sessions.remove(session)
        node.sessions.insert(0, session)

    @action("close session")
    def close_session(self, which: int) -> None:
        self.world.session(which).close()

    @action("set", setting=SETTING)
    def change_setting(self, which: int, setting: tuple[str, str], local: bool) -> None:
        name, value = setting
        quoted = value.replace("'", "''") if name != "search_path" else value
        quoted = quoted if name == "search_path" else f"'{quoted}'"
        self._say(self.world.session(which), f"SET {'LOCAL ' if local else ''}{name} = {quoted}")

    @action("reset", how=RESETS)
    def reset_session(self, which: int, how: str) -> None:
        session = self.world.session(which)
        if not session.in_transaction:
            self._say(session, how)

    @action("transaction", how=BEGINNINGS, step=WITHIN + ENDS)
    def go_on(self, which: int, how: str, step: str) -> None:
        """A session begins a transaction, or goes on with the one that it is in, or ends it."""
        session = self.world.session(which)
        if not session.in_transaction:
            self._say(session, how)
            return
        if step == "PREPARE":
            if len(self.world.prepared(session.node)) >= MOST_PREPARED:
                return
            step = f"PREPARE TRANSACTION '{session.node} {next(self._numbers)}'"
        self._say(session, step)

    @action("end prepared", how=ENDS)
    def end_prepared(self, which: int, number: int, how: str) -> None:
        node = self.world.node(which)
        gid, database = pick(self.world.prepared(node), number)
        self.world.query(node, f"{how} PREPARED '{gid}'", database=database)

    @use("cursors", query=GENERATING, count=(0, 10, 150))
    def open_cursor(self, which: int, query: str, hold: bool, count: int) -> None:
        """A cursor over a query that generates; what it returns later is below what the session generates meanwhile."""
        session = self.world.session(which)
        name = f"c{next(self._numbers)}"
        if not session.in_transaction:
            hold = True

        def call(session: Session) -> None:
            session.run(f"DECLARE {name} NO SCROLL CURSOR {'WITH HOLD ' if hold else ''}FOR {query}")
            self._cursors.setdefault(session.name, []).append(name)
            self._fetch(session, name, count)

        self.ask(session, call)

    @use("cursors", count=(0, 10, 150, 1000))
    def fetch(self, which: int, count: int) -> None:
        session = self.world.session(which)
        names = self._cursors.get(session.name, [])
        if names and session.is_open:
            try:
                self._fetch(session, names[-1], count)
            except Refused:
                # It ended with its transaction.
                names.pop()
                self.roll_back(session)

    @use("settings", question=QUESTIONS)
    def compare(self, which: int, question: str) -> None:
        """An answer does not depend on the settings of who asks."""
        session = self.world.session(which)
        with self.world.passing(session.node, session.database) as plain:
            made = self.insist(plain, Session.generate)
        if made:
            ids = [0, 1, 1 << 42, made[0][0]]
            self.ask(session, lambda session: self._compare_settings(session, question, ids))

    @use("settings", question=QUESTIONS, chosen=st.lists(SETTING, max_size=3))
    def compare_without_path(self, which: int, question: str, chosen: list[tuple[str, str]]) -> None:
        """A session whose path is empty, as that of a dump or of logical replication, names all schemas itself."""

        def call(session: Session) -> None:
            [(made,)] = session.generate("INSERT INTO public.item DEFAULT VALUES RETURNING id")
            self._compare_settings(session, OURS.sub(r"public.\1(", question), [0, 1, 1 << 42, made])

        with self.world.passing(self.world.node(which), DATABASE, **dict(chosen) | {"search_path": ""}) as session:
            self.ask(session, call)

    @use("parallel workers", function=("generating_process", "reading_process"), mode=("on", "regress"))
    def call_in_parallel(self, which: int, function: str, mode: str) -> None:
        """No parallel worker generates, whatever a function is marked as."""
        with self.world.passing(self.world.node(which), DATABASE) as session:
            session.run(f"SET {PARALLEL} = '{mode}'")
            try:
                [(value, pid)] = session.run(f"SELECT id, pid FROM {function}()")
            except Refused:
                return
            if pid != session.pid:
                raise Finding("parallel workers", f"a worker of {session} returned {value} from {function}")

    @action("first call", question=FIRST_QUESTIONS, workers=(0, 8), mode=("regress", "on", "off"))
    def ask_first(self, which: int, question: str, workers: int, mode: str) -> None:
        """After a start, the first thing that anybody asks for is an answer of the server's settings, of a parallel
        worker, maybe."""
        node = self.world.node(which)
        [(layout, is_set)] = self.world.query(node, LAYOUT_IN_USE)
        self.world.restart(node)
        session = self.world.open(node, DATABASE, **{PARALLEL: mode, "max_parallel_workers": str(workers)})
        ids = [0, 1, 1 << 42]
        self.ask(session, lambda session: session.run(question, ids) and None)
        self.ask(session, lambda session: self._compare_settings(session, question, ids))
        [(found, _)] = self.world.query(node, LAYOUT_IN_USE)
        if is_set and layout != found:
            raise Finding("settings", f"{node} was started again with the layout {found}, not {layout}")
        self.look_at_first_ids(node)

    def _compare_settings(self, session: Session, question: str, ids: list[int]) -> None:
        # What changes by itself meanwhile is asked for again.
        for _ in range(TIMES):
            # Of the role that it has by now, as the checks say less to those without privileges.
            role = session.value("SELECT current_user")
            role = role.decode() if isinstance(role, bytes) else str(role)
            with self.world.passing(session.node, session.database, role) as plain:
                before = plain.run(question, ids)
                found = session.run(question, ids)
                after = plain.run(question, ids)
            if _text(before) == _text(found) or _text(found) == _text(after):
                return
            if _text(before) != _text(after):
                continue
            difference = [
                (mine, theirs) for mine, theirs in zip(_text(found), _text(after), strict=False) if mine != theirs
            ]
            raise Finding("settings", f"{question!r} tells {session} with {session.settings} otherwise: {difference}")

    # How it is done

    def _say(self, session: Session, statement: str) -> None:
        """A refusal ends the transaction."""
        try:
            session.run(statement)
        except Refused:
            self.roll_back(session)

    def _fetch(self, session: Session, name: str, count: int) -> None:
        if count:
            ids = session.values(f"FETCH {count} FROM {name}")
            self.world.ledger.add(f"the server {session.node.space}", ids, f"cursor {name} of {session}")

    def at_the_end(self) -> None:
        for node in self.world.running():
            if not node.is_standby:
                with suppress(Refused):
                    self.world.commit_prepared(node)
        super().at_the_end()


def _text(rows: list[tuple[object, ...]]) -> list[tuple[str, ...]]:
    """Texts come as bytes where the client's encoding is none."""
    return [tuple(each.decode() if isinstance(each, bytes) else str(each) for each in row) for row in rows]
