"""Snowflakes of every form, and UUIDs: generated, stored, decoded."""

from collections.abc import Callable

from hypothesis import strategies as st

from attack.action import NUMBER, use
from attack.explorer import Explorer
from attack.finding import Finding
from attack.world import Node, Session

# Statements that generate, and return what they have generated.
FORMS = (
    "SELECT snowflake_next()",
    "SELECT snowflake_next() FROM generate_series(1, 100)",
    "SELECT snowflake_next_batch(70)",
    "SELECT unnest(snowflake_next_array(200))",
    "INSERT INTO item DEFAULT VALUES RETURNING id",
    "INSERT INTO item (made_by) SELECT 'many' FROM generate_series(1, 300) RETURNING id",
    "SELECT unnest(snowflake_next_array(20000))",
    "SELECT careless() FROM generate_series(1, 5)",
)


def generate(world: object, form: str) -> Callable[[Session], None]:
    """A call that generates, and adds what it was given."""

    def call(session: Session) -> None:
        rows = session.run(form)
        session.world.add_snowflakes(session, [value for (value,) in rows])

    return call


class Snowflakes(Explorer):
    """Uses of snowflakes and UUIDs."""

    @use("snowflakes", which=NUMBER, form=st.sampled_from(FORMS))
    def generate(self, which: int, form: str) -> None:
        self.ask(self.world.session(which), generate(self.world, form))

    @use("UUIDs", which=NUMBER, count=st.sampled_from([1, 100]), ordered=st.booleans())
    def uuids(self, which: int, count: int, ordered: bool) -> None:
        session = self.world.session(which)
        function = "uuidv7_ordered" if ordered else "public.uuidv7"

        def call(session: Session) -> None:
            rows = session.run(f"SELECT {function}() FROM generate_series(1, {count})")
            values = [value for (value,) in rows]
            if values != sorted(values):
                raise Finding("increasing", f"UUIDs of {session} decrease: {values}")
            self.world.ledger.add("UUIDs", values, str(session))

        self.ask(session, call)

    @use("decoding", which=NUMBER)
    def decode(self, which: int) -> None:
        """What is generated now tells its server's worker ID, and a time near the clock's."""
        session = self.world.session(which)

        def call(session: Session) -> None:
            rows = session.run(
                "SELECT id, (snowflake_parse(id)).worker_id, extract(epoch FROM snowflake_timestamp(id))::float8, "
                "careless_time(id) = snowflake_timestamp(id) FROM snowflake_next() id"
            )
            [(snowflake, worker, seconds, same)] = rows
            self.world.add_snowflakes(session, [snowflake])
            if not same:
                raise Finding("decoding", f"{snowflake} has two times on {session.node}")
            if worker != session.node.worker:
                raise Finding(
                    "decoding", f"{snowflake} of {session.node} is of worker {worker}, not {session.node.worker}"
                )

        self.ask(session, call)

    # Oracles after a start

    def look_at_first_ids(self, node: Node) -> None:
        """After any start: the first ID is above each that the server's tables hold, of its own worker ID."""
        for database in node.databases:

            def call(session: Session) -> None:
                query = (
                    "SELECT max(id) FROM item WHERE (snowflake_parse(id)).worker_id = "
                    "(SELECT worker_id FROM id_gen_status())"
                )
                stored = session.value(query)
                first = session.value("SELECT snowflake_next()")
                self.world.add_snowflakes(session, [first])
                if stored is not None and first <= stored:
                    raise Finding("start", f"{node} begins at {first}, but stores {stored} in {database}")

            session = self.world.open(node, database)
            self.insist(session, call)
