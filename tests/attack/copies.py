"""Copies of servers: base backups, standbys, copied directories, started at every wrong moment."""

from hypothesis import strategies as st

from attack.action import action
from attack.finding import Finding
from attack.surroundings import Surroundings
from attack.world import Node, Refused
from harness.cluster import PRELOADED

# How many servers there are at most.
MOST = 4
# How an original ends, and what becomes of one that was copied.
MODE = st.sampled_from(["fast", "immediate", "kill9"])
ORIGINAL = st.sampled_from(["stays", "goes", "later"])


# How far a server's IDs lead its clock when it is copied, or fails: less than any server takes for a jump.
AHEAD_S = (0, 3, 45)


class Copies(Surroundings):
    """Actions that make servers of servers."""

    def _room(self) -> bool:
        return len(self.world.nodes) < MOST

    def _original(self, which: int) -> Node:
        """A server to be copied."""
        node = self.world.node(which)
        if not PRELOADED:
            # known: it writes nothing before its first ID that would tell it from its copy.
            self.insist(self.world.idle_session(node), self.insert_item)
        return node

    def _gone(self, node: Node, mode: str) -> None:
        """The machine of a server is gone for good."""
        self.world.stop(node, mode)
        self.world.retire(node)

    def _allow_lead(self, node: Node, seconds: float) -> None:
        """A server may lead its clock by so much. A copy that is accepted goes by its own setting, so one that was made
        before has to be set likewise: docs/operations.md."""
        if seconds:
            self._set(node, "id_gen.max_lead", f"{AHEAD_S[-1] + 5}s")

    def _run_ahead(self, node: Node, seconds: float) -> None:
        """A server stores IDs that lead its clock by so much; the last commit is of the time that the clock shows."""
        if seconds:
            self.world.wall.step(seconds)
            self.insist(self.world.idle_session(node), self.insert_item)
            self.world.wall.step(-seconds)
            self.insist(self.world.idle_session(node), self.insert_item)

    @action("base backup", when=_room, mode=MODE, ahead_s=AHEAD_S)
    def start_base_backup(
        self,
        which: int,
        mode: str,
        original_stays: bool,
        beside: list[str],
        delay_ms: int,
        ahead_s: int,
        restored: bool,
    ) -> None:
        """A base backup that is started as a server, while the original goes on or in its place, and then also with all
        that the original has logged since."""
        node = self._original(which)
        self._allow_lead(node, ahead_s)
        with self.crowd(node, beside, delay_ms):
            copy = self.world.copy_of(node)
        self._run_ahead(node, ahead_s)
        if not original_stays:
            self.world.stop(node, mode)
            if restored:
                self.world.restore_log(copy, node)
            self.world.retire(node)
        self.world.start(copy)
        self.look_at_first_ids(copy)

    @action(
        "promotion", when=_room, mode=MODE, link=("caught up", "lags", "cut off"), apart_s=(0, 3, 900), ahead_s=AHEAD_S
    )
    def fail_over(
        self,
        which: int,
        mode: str,
        beside: list[str],
        delay_ms: int,
        link: str,
        apart_s: int,
        ahead_s: int,
        without_signal: bool,
    ) -> None:
        """A standby takes over from its primary, which is gone: it is promoted, or somebody removes its signal file."""
        node = self.world.node(which)
        standby = self._standby_of(node, beside, delay_ms, link, apart_s, ahead_s)
        self._gone(node, mode)
        # Without a promotion, it starts above what it has replayed.
        if without_signal and link != "cut off":
            self._remove_signal(standby)
        else:
            standby.cluster.promote()
            standby.is_standby = False
        self.look_at_first_ids(standby)

    @action("signal removed", when=lambda self: len(self.world.nodes) < MOST - 1)
    def start_beside_primary(
        self, which: int, beside: list[str], delay_ms: int, young: bool, is_renumbered: bool
    ) -> None:
        """Somebody removes the signal file of a standby whose primary goes on. That may have generated nothing when the
        standby was made, or have got another worker ID since, which the standby has, too."""
        node = self.world.new_node(schema=self.schemas()) if young else self._original(which)
        standby = self._standby_of(node, beside, delay_ms, "caught up")
        if is_renumbered:
            self.give_number(node)
            self._set(standby, "id_gen.worker_id", str(node.worker))
            standby.worker = node.worker
        self.insist(self.world.idle_session(node), self.insert_item)
        node.cluster.wait_for_catchup(standby.cluster)
        self._remove_signal(standby)
        self.look_at_first_ids(standby)
        self.look_at_first_ids(node)

    def _remove_signal(self, standby: Node) -> None:
        self.world.stop(standby, "fast")
        (standby.cluster.data / "standby.signal").unlink()
        standby.is_standby = False
        self.world.start(standby)

    @action("two primaries", when=_room, link=("caught up", "lags", "cut off"), apart_s=(0, 3, 900))
    def split(self, which: int, beside: list[str], delay_ms: int, link: str, apart_s: int) -> None:
        """Nobody knows whether the primary is down. So its standby has a worker ID of its own before it is promoted:
        docs/operations.md."""
        node = self.world.node(which)
        standby = self._standby_of(node, beside, delay_ms, link, apart_s)
        self.give_number(standby)
        with self.crowd(node, beside):
            standby.cluster.promote()
            standby.is_standby = False
            self.look_at_first_ids(standby)
        self.look_at_first_ids(node)

    def _standby_of(
        self, node: Node, beside: list[str], delay_ms: int, link: str, apart_s: int = 0, ahead_s: int = 0
    ) -> Node:
        """One that follows a primary up to now, or as long as nobody has cut it off, while clients write."""
        if link == "cut off":
            # What an asynchronous standby has not replayed, it allows for by its own clock and `id_gen.max_lead`. Both
            # are its primary's here; but IDs may lead a clock that was set back by more.
            self.world.wall.catch_up()
        standby = self.world.copy_of(node, standby=True)
        self.world.start(standby)
        if link == "cut off":
            self.world.cut_off(standby)
            self.insist(self.world.idle_session(node), self.array)
        with self.crowd(node, beside, delay_ms):
            if link == "cut off":
                self.world.wall.step(apart_s)
        if link != "cut off":
            self._allow_lead(node, ahead_s)
            self._run_ahead(node, ahead_s)
        if link == "caught up" or self.world.wall.behind_s:
            node.cluster.wait_for_catchup(standby.cluster)
        return standby

    @action("copied directory", when=_room, original=ORIGINAL)
    def copy_directory(
        self, which: int, paused: bool, original: str, beside: list[str], delay_ms: int, is_renumbered: bool
    ) -> None:
        """`cp -a` of a stopped server, or of one that a snapshot paused."""
        node = self._original(which)
        if not paused:
            self.world.stop(node, "fast")
        with self.crowd(node, beside if paused else [], delay_ms):
            copy = self.world.clone_of(node)
        if original == "goes":
            self.world.retire(node)
        elif original == "stays" and not paused:
            self.world.start(node)
            self.look_at_first_ids(node)
        self.world.start(copy)
        self.look_at_first_ids(copy)
        if original == "later" and not paused:
            self.world.start(node)
            self.look_at_first_ids(node)
        if is_renumbered and original != "goes":
            self._assign_number_of(node, copy)

    def _assign_number_of(self, original: Node, copy: Node) -> None:
        """Somebody assigns to a copy that has generated the worker ID of its original, which is still in use."""
        own, number = copy.worker, original.worker
        if own is None or number is None or own == number:
            return
        self.world.forget_sessions(copy)
        for worker in (number, own):
            copy.worker = None
            self._set(copy, "id_gen.worker_id", str(worker))
            self._await_number(copy, worker)
            if worker == number:
                with self.world.passing(copy) as session:
                    try:
                        session.value("SELECT snowflake_next()")
                    except Refused:
                        continue
                raise Finding("accepted", f"{copy} generates with worker ID {number} of its original, {original}")
        copy.worker = own

    @action("loss", when=lambda self: len(self.world.running()) > 1)
    def lose(self, which: int) -> None:
        """A server is gone for good, and others go on."""
        self.world.retire(self.world.node(which))
