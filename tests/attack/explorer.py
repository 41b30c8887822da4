"""The state machine that all actions belong to: it holds the world, and looks for defects after each step."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from hypothesis.stateful import RuleBasedStateMachine, rule

from attack.action import CLIENTS, Meetings, Skipped
from attack.administrator import Administrator, Result, is_answer
from attack.finding import Finding
from attack.world import DATABASE, HANG_SECONDS, SCHEMA, Client, Node, Refused, Session, World

# A use of a feature by a session.
Use = Callable[[Session], object]


class TimeIsUp(KeyboardInterrupt):
    """Ends the exploration, wherever it is."""


class Explorer(RuleBasedStateMachine):
    """What the mixins of features and surroundings have in common."""

    # Set before it explores.
    meetings: ClassVar[Meetings] = Meetings()
    deadline: ClassVar[float] = float("inf")
    is_extension_gone = False
    """Whether an administrator has dropped the extension in a database, and is about to create it."""
    last: ClassVar[World | None] = None
    """The world of the latest exploration that has found something, also after it has ended."""
    problem: ClassVar[BaseException | None] = None
    """What that is."""

    schema = SCHEMA
    """What this mixin needs in every database of a server, beside what the others need."""
    # What a machine of its own has in place of these.
    world_type: ClassVar[type[World]] = World
    administrator_type: ClassVar[type[Administrator]] = Administrator

    def __init_subclass__(cls) -> None:
        """Two mixins may not have one name for two things: a machine would have only one of them."""
        super().__init_subclass__()
        names: dict[str, type] = {}
        for mixin in cls.__mro__[1:]:
            for name in vars(mixin) if issubclass(mixin, Explorer) and mixin is not Explorer else ():
                other = names.setdefault(name, mixin)
                known = name.startswith("__") or hasattr(Explorer, name) or issubclass(other, mixin)
                if not known:
                    raise TypeError(f"{name} is in {other.__name__} and in {mixin.__name__}")

    def __init__(self) -> None:
        super().__init__()
        if time.monotonic() > self.deadline:
            raise TimeIsUp
        self.meetings.begin()
        self.world = self.world_type()
        self.administrator = self.administrator_type(self.world)
        self._failed = False
        try:
            self.prepare()
        except BaseException:
            self.world.close()
            raise

    def prepare(self) -> None:
        """The world at the beginning."""
        self.world.new_node(schema=self.schemas())

    @classmethod
    def schemas(cls) -> str:
        """What all mixins need, in the order of inheritance."""
        return "".join(mixin.__dict__.get("schema", "") for mixin in reversed(cls.__mro__))

    # Each step

    @rule()
    def do_nothing(self) -> None:
        """The first exploration of a turn repeats the rule that Hypothesis takes for the simplest one: that with the
        fewest arguments."""

    def begin_step(self, step: str, arguments: dict[str, Any]) -> None:
        if time.monotonic() > self.deadline:
            raise TimeIsUp
        self.world.say(f"--- {step}({', '.join(f'{name}={value!r}' for name, value in arguments.items())})")
        # Until it has ended without a finding.
        self._failed = True

    def end_step(self) -> None:
        for node in self.world.nodes:
            self.world.look_at_log(node)
        self._failed = False

    def teardown(self) -> None:
        try:
            if not self._failed:
                self.world.say("--- the end")
                self._failed = True
                self.at_the_end()
                for node in self.world.running():
                    self.world.stop(node, "fast")
                    self.world.look_at_log(node)
                self._failed = False
        finally:
            if self._failed and not isinstance(problem := sys.exc_info()[1], TimeIsUp):
                # A finding that does not come again is in no later exploration.
                Explorer.last, Explorer.problem = self.world, problem
                self.world.say_logs()
            self.world.close()

    def at_the_end(self) -> None:
        """What is looked at once more."""

    # What actions are made of

    def newest_of(self, node: Node) -> int:
        """The largest ID that a server is known to have generated; its shards' count, too."""
        return max(self.world.ledger.values(f"the server {node.space}"), default=0)

    def is_needed(self, node: Node, database: str) -> bool:
        """Whether something in a database goes by the extension in a way that the catalogs do not show."""
        return False

    def database_copied(self, node: Node, database: str, copy: Node, name: str) -> None:
        """A database has come to hold what another one holds. Whoever keeps a model of databases copies it here."""

    def database_dropped(self, node: Node, name: str) -> None:
        """A database is gone."""

    def client(self, feature: str) -> Use | None:
        """The simplest use of a feature, if this machine has the feature."""
        return getattr(self, CLIENTS[feature], None)

    def use_everything(self) -> None:
        """Uses each feature once, on each server."""
        for node in self.world.running():
            if node.is_standby:
                continue
            for feature in CLIENTS:
                if call := self.client(feature):
                    self.meetings.note("use", feature)
                    self.insist(self.world.idle_session(node), call)

    def insist(self, session: Session, call: Callable[[Session], Result]) -> Result | None:
        return self.administrator.insist(session, call)

    def ask(self, session: Session, call: Callable[[Session], None]) -> None:
        """A call whose refusal is taken as an answer where it is one; where it is none, it must succeed by its HINTs.
        Within a transaction a refusal ends that."""
        if session.in_transaction:
            try:
                call(session)
            except Refused:
                self.roll_back(session)
            return
        self.insist(session, call)

    def expect_refusal(self, session: Session, sql: str, oracle: str, *expected: str) -> Refused:
        """A statement that is refused with one of these SQLSTATEs, or messages; or answered as at any time."""
        try:
            rows = session.run(sql)
        except Refused as refused:
            if refused.sqlstate in expected or refused.message.startswith(expected):
                return refused
            if is_answer(refused):
                raise Skipped from refused
            raise Finding(oracle, f"{sql}: {refused}") from refused
        raise Finding(oracle, f"{sql} is not refused: {rows}")

    def roll_back(self, session: Session) -> None:
        if session.is_open:
            try:
                session.run("ROLLBACK")
            except Refused as refused:
                if not refused.is_end:
                    raise
        session.last = session.last if session.is_open else None

    def end_transactions(self, node: Node) -> None:
        """All transactions of clients end, also those that are prepared."""
        for session in list(node.sessions):
            if session.in_transaction:
                self.roll_back(session)
        self.world.commit_prepared(node)

    @contextmanager
    def crowd(
        self, node: Node, features: Sequence[str | Use], delay_ms: int = 0, database: str = DATABASE
    ) -> Iterator[None]:
        """Clients of a server that use these features as long as the block lasts, whatever happens to them. The block
        begins when each has been answered, or refused, once, and then some milliseconds later."""
        calls = [call for each in features if (call := each if callable(each) else self.client(each))]
        clients = [Client(self.world, node, database, call) for call in calls]
        try:
            for client in clients:
                client.begun.wait(HANG_SECONDS)
            time.sleep(delay_ms / 1000)
            yield
        finally:
            for client in clients:
                client.stop()
        for client in clients:
            client.judge()
