"""Shards of servers outside a fleet: one server at a time generates their IDs, wherever they move."""

import threading
from collections.abc import Callable
from dataclasses import dataclass

from attack.action import action, client, use
from attack.explorer import Explorer
from attack.finding import Finding
from attack.world import DATABASE, Node, Refused, Session

# No server gets these as its own worker ID, and every layout with five bits has them.
NUMBERS = (28, 29, 30)

# Whether the server's layout has room for them, in the datacenter that they were taken in.
HAS_ROOM = """
SELECT layout.worker_bits >= 5 AND coalesce(status.datacenter_id, 0) = 0
  FROM id_gen_status() status, snowflake_layouts() layout WHERE layout.in_use
"""
LAYOUT = "SELECT layout FROM id_gen_status()"
FORMS = (
    "SELECT snowflake_next({number})",
    "SELECT snowflake_next({number}) FROM generate_series(1, 100)",
    "SELECT snowflake_next({number}) FROM generate_series(1, 20000)",
    "INSERT INTO item (id) VALUES (snowflake_next({number})) RETURNING id",
    "INSERT INTO item (id) SELECT snowflake_next({number}) FROM generate_series(1, 20) RETURNING id",
)
NOT_HERE = "this server does not have shard"


@dataclass
class Shard:
    """What administrators know of a shard."""

    number: int
    owner: Node | None = None
    leaving: Node | None = None
    """The server that is giving it back just now."""
    layout: str = ""
    """The layout of the server that had it last."""
    above: int = 0
    """No ID of it is above this."""


class Shards(Explorer):
    """Uses and moves of shards."""

    def __init__(self) -> None:
        self._shards = [Shard(number) for number in NUMBERS]
        super().__init__()

    @use("shards", shard=(0, 0, 1, 2), form=FORMS)
    def use_shard(self, which: int, shard: int, form: str) -> None:
        """A server that has a shard generates its IDs; any other one refuses."""
        session = self.world.session(which)
        self._begin_with(self._shards[shard], session.node)
        self.ask(session, self._generating(self._shards[shard], form))

    @use("shards", shard=(0, 1, 2), ahead_ms=(1, 1000, 4000))
    def observe_before(self, which: int, shard: int, ahead_ms: int) -> None:
        """Once a server has observed an ID from elsewhere, those of its shards are above it."""
        used = self._shards[shard]
        self._begin_with(used, self.world.node(which))
        owner = self._owner(used)
        if owner is not None and owner.running:
            self._generate_above(used, owner, ahead_ms)

    def _generate_above(self, used: Shard, owner: Node, ahead_ms: int) -> None:
        with self.world.passing(owner, DATABASE) as session:
            try:
                query = "SELECT snowflake_make(clock_timestamp() + %s * interval '1 ms', 0, 1, 0)"
                observed = session.value(query, ahead_ms)
                session.run("SELECT snowflake_advance(%s)", observed)
            except Refused:
                return
            self.insist(session, self._generating(used, FORMS[0], observed))

    @client("shards")
    def use_a_shard(self, session: Session) -> None:
        if threading.current_thread() is threading.main_thread():
            self._begin_with(self._shards[0], session.node)
        self._generating(self._shards[0], FORMS[4])(session)

    @action("move shard", shard=(0, 1, 2), ahead_ms=(0, 4000))
    def move_shard(self, to: int, shard: int, beside: list[str], delay_ms: int, crowded: bool, ahead_ms: int) -> None:
        """A server gives a shard back, beside clients that generate its IDs, maybe far ahead of its clock, and another
        one takes it, and continues above them."""
        moved = self._shards[shard]
        owner, target = self._owner(moved), self.world.node(to)
        if owner is target and ahead_ms and len(self.world.nodes) == 1:
            # One that knows nothing of the shard.
            target = self.world.new_node(f"id_gen.layout = '{moved.layout}'", self.schemas())
        if owner is not None:
            if not owner.running or not self._has_room_for_a_shard(owner):
                return
            if ahead_ms:
                self._generate_above(moved, owner, ahead_ms)
            with (
                self.crowd(owner, [*beside, *(["shards"] if crowded and shard == 0 else [])], delay_ms),
                self.world.passing(owner) as admin,
            ):
                self._release_shard(moved, admin)
                # Not in a session that was there before, either.
                self.ask(self.world.idle_session(owner), self._generating(moved, FORMS[0]))
            moved.leaving = None
            # What was on its way when the server gave it back.
            if moved.above < self._largest_of(moved):
                raise Finding("shards", f"{owner} gave shard {moved.number} back at {moved.above}, and went on")
        self._take_shard(moved, target)
        if self._owner(moved) is target:
            self.ask(self.world.idle_session(target), self._generating(moved, FORMS[0]))

    @action("release again", shard=(0, 1, 2))
    def release_again(self, shard: int) -> None:
        """A lost answer of a release: giving it back again returns the same, or an ID above that."""
        released = self._shards[shard]
        owner = self._owner(released)
        if owner is None or not owner.running or not self._has_room_for_a_shard(owner):
            return
        with self.world.passing(owner) as admin:
            self._release_shard(released, admin)
            first, again = released.above, admin.value(f"SELECT id_gen_shard_release({released.number})")
        if again < first:
            raise Finding("shards", f"{owner} gave shard {released.number} back at {first}, and again at {again}")
        released.above, released.leaving = again, None
        self._take_shard(released, owner)

    @action("release elsewhere", shard=(0, 1, 2))
    def release_elsewhere(self, which: int, shard: int, tries_to_take: bool) -> None:
        """The line of the HINT is typed on a server that does not have the shard. An answer below the shard's last ID
        comes with a warning."""
        node, used = self.world.node(which), self._shards[shard]
        if not used.layout or node is self._owner(used) or not self._has_room_for_a_shard(node):
            return
        warned: list[str] = []
        with self.world.passing(node, DATABASE) as admin:
            admin.connection.add_notice_handler(lambda notice: warned.append(notice.message_primary or ""))
            try:
                if tries_to_take:
                    admin.run(f"SELECT id_gen_shard_take({used.number})")
                    raise Finding("shards", f"{node} took shard {used.number}, of which it knows nothing")
            except Refused:
                pass
            try:
                above = admin.value(f"SELECT id_gen_shard_release({used.number})")
            except Refused:
                return
        if above < self._largest_of(used) and not any("already released" in each for each in warned):
            raise Finding("shards", f"{node} answered {above} for shard {used.number}, which {self._owner(used)} has")

    @action("list removed")
    def remove_list(self, which: int) -> None:
        """Somebody removes the file of a running server's shards; the next check writes it again."""
        node = self.world.node(which)
        file = node.cluster.data / "id_gen" / "pgsql_tmp_shards"
        if not file.exists():
            return
        with self.world.passing(node) as admin:
            if admin.value("SELECT count(*) FROM id_gen_stat_shards") == 0:
                return
            self.world.say(f"{node}: rm {file.name}")
            file.unlink()
            admin.run("SELECT * FROM id_gen_check()")
            if not file.exists():
                raise Finding("shards", f"the list of {node}'s shards was not written again")

    def newest_of(self, node: Node) -> int:
        """With the IDs of shards."""
        return max(super().newest_of(node), *map(self._largest_of, self._shards))

    # What administrators do

    def _begin_with(self, shard: Shard, node: Node) -> None:
        """The first server to have it."""
        if not shard.layout:
            self._take_shard(shard, node)

    def _owner(self, shard: Shard) -> Node | None:
        """Who has it, if that server is not gone."""
        if shard.owner is not None and shard.owner not in self.world.nodes:
            shard.owner = None
        return shard.owner

    def _has_room_for_a_shard(self, node: Node) -> bool:
        return self.world.query(node, HAS_ROOM) == [(True,)]

    def _release_shard(self, shard: Shard, admin: Session) -> None:
        shard.layout = admin.value(LAYOUT)
        shard.owner, shard.leaving = None, shard.owner
        shard.above = max(shard.above, admin.value(f"SELECT id_gen_shard_release({shard.number})"))
        largest = self._largest_of(shard)
        if shard.above < largest:
            raise Finding("shards", f"{admin.node} gave shard {shard.number} back at {shard.above}, but made {largest}")

    def _take_shard(self, shard: Shard, node: Node) -> None:
        """Takes it above all that it made, where that can be said in the server's layout."""
        if not self._has_room_for_a_shard(node):
            return
        shard.above = max(shard.above, self._largest_of(shard))
        with self.world.passing(node, DATABASE) as admin:
            layout = admin.value(LAYOUT)
            if shard.above and layout != shard.layout:
                return
            try:
                admin.run(f"SELECT id_gen_shard_take({shard.number}, above => {shard.above})")
            except Refused as refused:
                # The server's clock jumped; or it is behind, or its lead is: it may be taken later.
                if "too far ahead of the clock" in refused.message or "clock jumped" in refused.message:
                    return
                raise
            shard.owner, shard.layout = node, layout

    # Oracles

    def _generating(self, shard: Shard, form: str, observed: int = 0) -> Callable[[Session], None]:
        space = f"shard {shard.number}"

        def call(session: Session) -> None:
            before, owner = max(shard.above, self._largest_of(shard), observed), self._owner(shard)
            try:
                ids = session.values(form.format(number=shard.number))
            except Refused as refused:
                if NOT_HERE not in refused.message and refused.sqlstate != "22003":
                    raise
                if owner is session.node is self._owner(shard) and self._has_room_for_a_shard(session.node):
                    raise Finding("shards", f"{owner} has lost shard {shard.number}: {refused}") from refused
                if session.in_transaction:
                    raise
                return
            if session.node not in (owner, shard.leaving):
                raise Finding("shards", f"{session.node} made {ids[:3]} of shard {shard.number}, which {owner} has")
            if ids != sorted(ids) or ids[0] <= before:
                raise Finding("increasing", f"{session} was given {ids[:3]} of shard {shard.number} after {before}")
            self.world.ledger.add(space, ids, str(session))

        return call

    def _largest_of(self, shard: Shard) -> int:
        return max(self.world.ledger.values(f"shard {shard.number}"), default=0)  # type: ignore[type-var, return-value]
