"""A fleet on etcd: members come, go, stand still and are copied, the registry is lost and brought back, clocks are
wrong, and shards move, while clients of all members use whatever they get."""

import os
import re
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import initialize

from attack.action import action, pick, use
from attack.explorer import Explorer
from attack.finding import Finding
from attack.fleet_world import (
    GRANT_SECONDS,
    LEAD_MS,
    LONGEST_PAUSE_STEPS,
    SHARDS,
    TERMS,
    TICKET,
    Call,
    FleetAdministrator,
    FleetWorld,
    Member,
    furthest_of_shard,
    ids_of_shard,
    run,
    snowflakes,
    tickets,
)
from attack.world import DATABASE, Client, Refused, Session
from harness import device
from harness.ids import keepers
from harness.shards import await_usable
from harness.waiting import wait_until

# How many servers there are at most.
MOST = 4
SHARD = st.sampled_from(SHARDS)
MODE = st.sampled_from(["fast", "immediate", "kill9"])
FORMS = (
    "SELECT snowflake_next()",
    "SELECT snowflake_next() FROM generate_series(1, 100)",
    "SELECT snowflake_next_batch(70)",
    "SELECT unnest(snowflake_next_array(20000))",
    "INSERT INTO item DEFAULT VALUES RETURNING id",
)
NEXT = snowflakes(FORMS[0])
# Values that an administrator may set on one server.
SETTINGS = (
    ("id_gen.max_block_size", "1"), ("id_gen.max_block_size", "64"),
    ("id_gen.max_lead", "0"), ("id_gen.max_lead", "100 ms"), ("id_gen.max_lead", f"{LEAD_MS} ms"),
    ("id_gen.worker_id_range", "0-3"), ("id_gen.worker_id_range", "1-4"), ("id_gen.worker_id_range", "2-5"),
    ("id_gen.max_wait", "0"), ("id_gen.max_wait", "1 s"),
)  # fmt: skip
HOUR, YEAR = 3_600.0, 31_536_000.0


class Fleet(Explorer):
    """A fleet, in a registry of this process."""

    world_type: ClassVar = FleetWorld
    administrator_type: ClassVar = FleetAdministrator
    world: FleetWorld
    administrator: FleetAdministrator

    def prepare(self) -> None:
        """What is there at first is drawn."""

    @initialize(
        members=st.sampled_from([2, 1, 3]), busy=st.booleans(), shards_at=st.sampled_from([0, None]),
        may_go_back=st.sampled_from([False, False, True]), worker_ids=st.sampled_from(["0-3", "0-1", "0-0"]),
    )  # fmt: skip
    def found(self, members: int, busy: bool, shards_at: int | None, may_go_back: bool, worker_ids: str) -> None:
        self._failed = True
        world = self.world
        drawn = f"{members=}, {busy=}, {shards_at=}, {may_go_back=}, {worker_ids=}"
        world.say(f"--- found({drawn})")
        world.busy, world.times_left_back = busy, 2 * may_go_back
        world.worker_ids = worker_ids
        for _ in range(members):
            member = world.new_member()
            if member is world.members[0]:
                member.cluster.psql(f"SELECT id_gen_fleet_create({TERMS})", DATABASE)
                # It has looked for the fleet in vain, and would do so again only in seconds.
                member.cluster.restart()
                member.cluster.psql(f"SELECT ticket_share('{TICKET}')", DATABASE)
        # Where there are fewer numbers, not all servers get one.
        for member in world.members if worker_ids == "0-3" else world.members[:1]:
            self.insist(world.idle_session(member), NEXT)
        if shards_at is not None:
            for shard in SHARDS:
                self.insist(world.idle_session(world.members[shards_at]), _take(shard))
        self._let_clients_in()
        self.end_step()

    # Each step

    def begin_step(self, step: str, arguments: dict) -> None:
        super().begin_step(step, arguments)
        # Counted and not timed: what is possible next may not depend on how busy the machine is.
        for member in self.world.members:
            member.paused_steps += 1
            if member.paused_steps > LONGEST_PAUSE_STEPS:
                self.world.resume(member)

    def end_step(self) -> None:
        for client in self.world.clients.values():
            client.judge()
        if any(client.is_alive() for client in self.world.clients.values()):
            self._note_uses()
        super().end_step()

    def _note_uses(self) -> None:
        for feature in ("snowflakes", "shards", "tickets"):
            self.meetings.note("use", feature)

    def use_everything(self) -> None:
        """Each server is asked for everything, whatever it answers."""
        self._note_uses()
        for member in list(self.world.members):
            if member.able:
                for call in self.world.calls(member):
                    self._ask(member, call)

    def at_the_end(self) -> None:
        """All is put right, and every server makes IDs; every shard and the ticket can be had."""
        world = self.world
        world.registry.put_right()
        for member in world.members:
            world.resume(member)
            if member.clock_ahead:
                world.put_clock_right(member)
            if not member.running:
                world.start(member)
            self._let_clients_in()
        for member in world.members:
            if member.able:
                self.insist(world.idle_session(member), NEXT)
                if not member.has_left:
                    self.insist(world.idle_session(member), tickets(1))
        for owner in self._members(lambda each: each.is_member)[:1]:
            for shard in SHARDS:
                self.insist(world.idle_session(owner), ids_of_shard(shard, 1))
        for member in list(world.clients):
            world.end_client(member)
        world.look_at_bounds()

    # What actions are made of

    def _let_clients_in(self) -> None:
        if self.world.busy:
            for member in self.world.members:
                self.world.begin_client(member)

    def _ask(self, member: Member, call: Call) -> bool:
        """A call that may be refused; whether it was answered."""
        session = self.world.idle_session(member)
        try:
            call(session)
        except Refused:
            return False
        return True

    def _some(self, which: int) -> Member:
        return pick(self.world.members, which)

    def _members(self, condition: Callable[[Member], object]) -> list[Member]:
        return [each for each in self.world.members if condition(each)]

    def _room(self) -> bool:
        return len(self.world.members) < MOST

    # Uses

    @use("snowflakes", form=FORMS)
    def generate(self, which: int, form: str) -> None:
        session = self.world.session(which)
        self._ask(session.node, snowflakes(form))

    @use("shards", shard=SHARD, number=(1, 1000))
    def make_ids_of_shard(self, which: int, shard: int, number: int) -> None:
        self._ask(self.world.able(which), ids_of_shard(shard, number))

    @use("tickets", number=(1, 1000))
    def take_tickets(self, which: int, number: int) -> None:
        self._ask(self.world.able(which), tickets(number))

    @action("look after", what=("snowflakes", "tickets", *SHARDS))
    def look_after(self, which: int, what: str | int) -> None:
        """A server is to make IDs, whatever its refusals say to do for that."""
        calls = {"snowflakes": NEXT, "tickets": tickets(1), **{each: ids_of_shard(each, 1) for each in SHARDS}}
        self.insist(self.world.idle_session(self.world.able(which)), calls[what])

    # Members come and go

    @action("join", when=_room)
    def join(self) -> None:
        self.world.new_member()
        self._let_clients_in()

    @action("stop", mode=MODE)
    def stop(self, which: int, mode: str) -> None:
        self.world.stop(pick(self._members(lambda each: each.running), which), mode)

    @action("start")
    def start(self, which: int) -> None:
        self.world.start(pick(self._members(lambda each: not each.running), which))
        self._let_clients_in()

    @action("restart", mode=MODE, step_s=(0.0, 0.0, -3.0, 3.0))
    def restart(self, which: int, mode: str, step_s: float) -> None:
        member = pick(self._members(lambda each: each.running), which)
        self.world.stop(member, mode)
        if step_s and not self.world.was_restored:
            self.world.step_clock(member, step_s)
        self.world.start(member)

    @action("restart ahead", mode=MODE, shard=SHARD)
    def restart_ahead_of_the_clock(self, which: int, mode: str, shard: int) -> None:
        """A server whose shard leads the clock as far as it may is restarted at once."""
        member = self.world.able(which)
        if self._ask(member, furthest_of_shard(shard)):
            self.world.stop(member, mode)
            self.world.start(member)
            self._ask(member, ids_of_shard(shard, 1))

    @action("loss", when=lambda self: len(self.world.members) > 1)
    def lose(self, which: int) -> None:
        """A server is gone for good."""
        self.world.retire(self._some(which))

    @action("kill", whom=("registrar", "keeper", "client"))
    def kill(self, which: int, whom: str, gently: bool) -> None:
        """A process is killed, after which PostgreSQL starts all others anew; or it is terminated."""
        member = pick(self.world.running(), which)
        pid = pick(self._processes(member, whom), 0)
        before = member.cluster.log_position
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM if gently else signal.SIGKILL)
            if not gently:
                member.cluster.wait_for_log("reinitializing", before)
                self.world.forget_sessions(member)
                self.world.await_connections(member)

    def _processes(self, member: Member, whom: str) -> list[int]:
        if whom == "keeper":
            return keepers(member.cluster)
        title = {"registrar": "id_gen registrar", "client": "[local]"}[whom]
        return [pid for pid, each in member.cluster.processes().items() if title in each]

    @action("pause", whom=("server", "registrar", "keeper", "client"))
    def pause(self, which: int, whom: str) -> None:
        """A server, or some of its processes, stand still until somebody looks, or for a while."""
        member = pick(self._members(lambda each: each.running and each.pause is None), which)
        pids = None if whom == "server" else self._processes(member, whom)
        if pids != []:
            self.world.halt(member, pids, is_asked=whom in ("server", "client"))

    @action("resume")
    def resume(self, which: int) -> None:
        self.world.resume(pick(self._members(lambda each: each.pause), which))

    @action("time", seconds=(0.3, 1, GRANT_SECONDS + 1))
    def let_time_pass(self, seconds: float) -> None:
        time.sleep(seconds)

    # Copies

    @action("base backup", when=_room)
    def start_base_backup(self, which: int, goes: bool) -> None:
        original = self.world.able(which)
        copy = self.world.copy_of(original)
        if goes:
            self.world.retire(original)
        self.world.start(copy)
        self._let_clients_in()

    @action("copied directory", when=_room, first=("copy", "original"))
    def copy_directory(self, which: int, first: str) -> None:
        """`cp -a` of a stopped server, or of one that stands still; the one or the other is started first."""
        self._copy(which, first, "copy_files")

    @action("copied disk", when=lambda self: self._room() and device.are_possible(), first=("copy", "original"))
    def copy_disk(self, which: int, first: str) -> None:
        """The same with all of its file system, so that the copy has the identity of its original."""
        self._copy(which, first, "copy_disk")

    def _copy(self, which: int, first: str, copies: str) -> None:
        original = self._some(which)
        if original.has_left:
            return
        copy = self.world.clone_of(original, copies)
        if not original.running and first == "original":
            self.world.start(original)
        self.world.start(copy)
        self._let_clients_in()

    @action("standby", when=_room)
    def start_standby(self, which: int) -> None:
        primary = self.world.able(which)
        self.world.start(self.world.copy_of(primary, standby=True))

    @action("cut off")
    def cut_off(self, which: int) -> None:
        """A standby gets nothing more from its primary, which goes on."""
        standby = pick([each for each in self.world.running() if each.is_standby], which)
        self.world.cut_off(standby)

    @action("promotion")
    def promote(self, which: int) -> None:
        """Whatever its primary does."""
        standby = pick([each for each in self.world.running() if each.is_standby], which)
        standby.cluster.promote()
        standby.cluster.wait_until(lambda: standby.cluster.psql("SELECT pg_is_in_recovery()") == "f", "promoted")
        standby.is_standby = False
        self._let_clients_in()

    # Clocks

    @action("clock", when=lambda self: not self.world.was_restored, seconds=(1.0, -1.0, 3.0, -3.0, HOUR, -HOUR))
    def step_clock(self, which: int, seconds: float, is_renewed: bool) -> None:
        """Of one server, whether it runs or not; maybe nobody sees it before it should have renewed its grant."""
        member = self._some(which)
        if not member.running and abs(seconds) > 10:
            # What a server writes that starts with such a clock is to be lowered: see below.
            return
        self.world.step_clock(member, seconds)
        if is_renewed and member.is_member and self.world.registry.answers:
            self._await_renewal(member, self._worker_of(member))

    @action("clock", when=lambda self: not self.world.was_restored)
    def jump(self, which: int) -> None:
        """A clock that is wrong for as long as a grant is not in the registry."""
        member = self.world.able(which)
        if member.clock_ahead or not self.world.registry.answers:
            return
        worker = self._worker_of(member)
        if worker is None:
            # It may not have looked at the clock yet, which then is wrong from the start.
            return
        self.world.step_clock(member, HOUR)
        self._await_renewal(member, worker)
        self.world.look_at_bounds()
        self.world.put_clock_right(member)

    def _worker_of(self, member: Member) -> int | None:
        worker = member.cluster.psql("SELECT worker_id FROM id_gen_status()", DATABASE)
        return int(worker) if worker else None

    def _await_renewal(self, member: Member, worker: int | None) -> None:
        """One whose clock is not trusted renews nothing."""

        def bounds() -> list[int]:
            return self.world.registry.bounds(self.world.fleet).get((member.port, worker), [])

        before, until = bounds(), time.monotonic() + GRANT_SECONDS
        while bounds() == before and time.monotonic() < until:
            time.sleep(0.1)

    @action("clock")
    def put_clock_right(self, which: int) -> None:
        self.world.put_clock_right(pick(self._members(lambda each: each.clock_ahead), which))

    @action("wrong clock", when=lambda self: not self.world.was_restored, ahead=(HOUR, YEAR, -HOUR))
    def start_with_wrong_clock(self, which: int, ahead: float) -> None:
        """A server starts with a wrong clock, and is put right as docs/operations.md says."""
        world = self.world
        member = world.able(which)
        other = world.able(which, besides=member)
        if not world.registry.answers or member.clock_ahead or other.clock_ahead:
            return
        if member.cluster.psql("SELECT count(*) FROM id_gen_stat_shards", DATABASE) != "0":
            return
        world.stop(member, "fast")
        world.step_clock(member, ahead)
        world.start(member)
        until = time.monotonic() + 2 * GRANT_SECONDS
        while not self._ask(member, NEXT) and time.monotonic() < until:
            time.sleep(0.1)
        number = member.cluster.psql("SELECT worker_id FROM id_gen_status()", DATABASE)
        world.put_clock_right(member)
        world.stop(member, "fast")
        if ahead > 0 and number:
            self.insist(world.idle_session(other), run(f"SELECT id_gen_fleet_lower(worker_id => {number})"))
            world.accept_repeated(int(number), time.time() * 1000 + 1000)
        world.start(member)
        if ahead > 0:
            has_number = "SELECT state = 'holding' FROM id_gen_stat_fleet"
            with suppress(TimeoutError):
                wait_until(
                    lambda: self._ask(member, NEXT) or member.cluster.psql(has_number, DATABASE) == "t", "holding"
                )
            world.accept_repeated(int(number or -1), time.time() * 1000 + 1000)
            member.cluster.psql("SELECT id_gen_reservation_reset(above => now())", DATABASE)
        self.insist(world.idle_session(member), NEXT)

    # Leaving

    @action("leave")
    def leave(self, which: int) -> None:
        """As docs/operations.md says."""
        world = self.world
        member = world.able(which)
        world.end_client(member)
        for shard in SHARDS:
            self._ask(member, run(f"SELECT id_gen_shard_release({shard})"))
        member.has_left = True
        self._alter_system(member, f"SET id_gen.worker_id = {world.assign(member)}", "SET id_gen.registry = ''")
        self.insist(world.idle_session(member), NEXT)
        self._let_clients_in()

    @action("come back")
    def come_back(self, which: int) -> None:
        member = pick(self._members(lambda each: each.has_left and each.able), which)
        self.world.end_client(member)
        self._alter_system(member, "RESET id_gen.worker_id", "RESET id_gen.registry")
        member.cluster.poll_until("SELECT current_setting('id_gen.registry') <> ''", DATABASE)
        member.has_left = False
        self._let_clients_in()

    def _alter_system(self, member: Member, *changes: str) -> None:
        for statement in (*(f"ALTER SYSTEM {change}" for change in changes), "SELECT pg_reload_conf()"):
            self.administrator.type(member, DATABASE, statement)

    # What administrators do

    @action("reload", setting=SETTINGS)
    def reload(self, which: int, setting: tuple[str, str]) -> None:
        name, value = setting
        self._alter_system(self.world.able(which), f"SET {name} = '{value}'")

    @action("release")
    def release_number(self, which: int, whose: int) -> None:
        """Whether its server is gone or not."""

        held = "SELECT worker_id FROM id_gen_fleet_members() WHERE state = 'held' ORDER BY 1"
        release = f"SELECT id_gen_fleet_release(worker_id) FROM ({held} OFFSET {whose % 4} LIMIT 1) held"
        self._ask(self.world.able(which), run(release))

    @action("take shard", shard=SHARD)
    def take_shard(self, which: int, shard: int, insists: bool) -> None:
        member = self.world.able(which)
        if insists:
            self.insist(self.world.idle_session(member), _take(shard))
        else:
            self._ask(member, _take(shard))

    @action("release shard", shard=SHARD)
    def release_shard(self, which: int, shard: int) -> None:
        self._ask(self.world.able(which), run(f"SELECT id_gen_shard_release({shard})"))

    @action("move shard", shard=SHARD)
    def move_shard(self, which: int, to: int, shard: int) -> None:
        """By the two lines that an administrator types."""
        self._move(self.world.able(which), self.world.able(to), shard)

    def _move(self, owner: Member, other: Member, shard: int) -> None:
        self._ask(owner, run(f"SELECT id_gen_shard_release({shard})"))
        self._ask(other, _take(shard))

    @action("set ticket")
    def set_ticket(self, which: int) -> None:
        self._ask(self.world.able(which), run(f"SELECT ticket_share('{TICKET}')"))

    # The registry

    @action("registry silent", when=lambda self: self.world.registry.answers, how=("pause", "kill"))
    def silence_registry(self, how: str) -> None:
        registry = self.world.registry
        registry.pause() if how == "pause" else registry.kill()

    @action("registry answers", when=lambda self: not self.world.registry.answers)
    def let_registry_answer(self) -> None:
        self.world.registry.put_right()

    @action("registry slow", when=lambda self: self.world.registry.answers, shard=SHARD)
    def slow_registry(self, which: int, to: int, shard: int) -> None:
        """It stands still most of the time, while the shard goes to and fro beside a client of it. A server that has
        just started asks whether it still has the shard."""
        first = self.world.able(which)
        second = self.world.able(to, besides=first)
        for owner, other in ((first, second), (second, first)):
            self.insist(self.world.idle_session(owner), _take(shard))
            self.insist(self.world.idle_session(owner), ids_of_shard(shard, 1))
            self.world.stop(owner, "fast")
            self.world.start(owner)
            self.insist(self.world.idle_session(owner), NEXT)
            asking = Client(self.world, owner, DATABASE, ids_of_shard(shard, 1))
            try:
                with self.world.registry.etcd.stuttering():
                    self._await_question(owner, asking, shard)
                    self._move(owner, other, shard)
                # Beside the client, if that makes any.
                await_usable(other.cluster, shard, DATABASE)
                self._ask(other, ids_of_shard(shard, 1_000))
            finally:
                asking.stop()
            asking.judge()

    def _await_question(self, owner: Member, asking: Client, shard: int) -> None:
        """Until a client's call for an ID of a shard is under way, or has ended."""
        calls = f"SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT snowflake_next({shard})%'"

        def is_under_way() -> bool:
            return asking.begun.is_set() or owner.cluster.psql(calls) != "0"

        owner.cluster.wait_until(is_under_way, "asked for an ID of a shard")

    @action("backup of registry", when=lambda self: self.world.registry.answers and self.world.times_left_back > 0)
    def save_registry(self) -> None:
        self.world.backup = self.world.registry.save()

    def _may_restore(self) -> bool:
        """Nobody who has a number may be kept from telling, and clocks have to be right."""
        world = self.world
        return (
            world.times_left_back > 0
            and world.registry.answers
            and not world.clocks_were_wrong
            and any(each.is_member for each in world.members)
            and not any(each.pause is not None for each in world.members)
        )

    @action("registry restored", when=lambda self: self._may_restore() and self.world.backup is not None)
    def restore_registry(self) -> None:
        self._go_back(lambda: self.world.registry.restore(self.world.backup))

    @action("registry wiped", when=_may_restore)
    def wipe_registry(self) -> None:
        self._go_back(lambda: self.world.registry.forget(self.world.fleet), anew=True)

    @action("registry moved", when=_may_restore)
    def move_registry(self) -> None:
        """To another address, with the state that it has."""
        world = self.world

        def move() -> None:
            world.registry.restore(world.registry.save(), elsewhere=True)
            for member in world.members:
                # Also of one that has left, which may come back.
                member.cluster.append_conf(f"id_gen.registry = '{world.registry.etcd.endpoints}'")
                if member.running:
                    member.cluster.reload()

        world.backup = None
        self._go_back(move, moved=True)

    def _go_back(self, do: object, *, anew: bool = False, moved: bool = False) -> None:
        """As docs/operations.md says: the fleet is told at once, and nobody takes shards or tickets before all members
        know."""
        world = self.world
        for member in list(world.clients):
            world.end_client(member)
        world.was_restored = True
        world.times_left_back -= 1
        began = time.monotonic()
        do()  # type: ignore[operator]
        known = {each: self._heard(each) for each in world.members if self._has_number(each)}
        teller = world.able(0)
        if anew:
            self.insist(world.idle_session(teller), _create)
        if moved:
            self._adopt(teller)
        else:
            self.insist(world.idle_session(teller), run("SELECT id_gen_fleet_report_restore()"))
        world.say(f"the fleet was told after {time.monotonic() - began:.1f} s")
        for member, heard in known.items():
            # Renewed, or found to be lost.
            member.cluster.wait_until(lambda each=member, heard=heard: self._heard(each) > heard, "heard of")
            if member.able:
                self.insist(world.idle_session(member), NEXT)
        self.administrator.set_ticket()
        self._let_clients_in()

    def _adopt(self, teller: Member) -> None:
        """The HINT names the registry that answered."""

        def tell(session: Session) -> None:
            try:
                session.run("SELECT id_gen_fleet_report_restore()")
            except Refused as refused:
                if refused.message != "the fleet belongs to another registry":
                    raise
                [told] = re.findall(r"SELECT id_gen_fleet_report_restore\(registry[^;]*;", refused.hint)
                session.run(told)
            else:
                raise Finding("accepted", "a registry that was restored elsewhere is the fleet's own")

        self.insist(self.world.idle_session(teller), tell)

    def _has_number(self, member: Member) -> bool:
        has_number = "SELECT state IN ('holding', 'waiting', 'unsettled') FROM id_gen_stat_fleet"
        return member.running and member.cluster.psql(has_number, DATABASE) == "t"

    def _heard(self, member: Member) -> int:
        """How often a member has heard of its number."""
        heard = "SELECT renewals + acquisitions + fencings + restorations FROM id_gen_stat_fleet"
        return int(member.cluster.psql(heard, DATABASE))

    @action("two registries", when=lambda self: self.world.registry.answers)
    def name_two_registries(self, which: int, first: bool) -> None:
        """Members of two clusters in one list, on one server, until it is seen."""
        world = self.world
        member = world.able(which)
        own, other = world.registry.etcd.endpoints, world.registry.other.endpoints
        both = f"{other},{own}" if first else f"{own},{other}"
        self._alter_system(member, f"SET id_gen.registry = '{both}'")
        # Where the machine is busy, one of them may not answer in the part of the time-out that there is for it.
        until = time.monotonic() + GRANT_SECONDS
        trouble = "SELECT error LIKE '%different registries%' FROM id_gen_stat_fleet"
        while member.cluster.psql(trouble, DATABASE) != "t" and time.monotonic() < until:
            self._ask(member, NEXT)
        self._alter_system(member, "RESET id_gen.registry")

    @action("copied registry", when=lambda self: self.world.registry.answers)
    def copy_registry(self, which: int) -> None:
        """A backup is restored elsewhere while the registry is in use, and a server that starts knows only that."""
        world = self.world
        member = world.able(which)
        world.say("the registry is copied")
        copy = world.registry.copy()
        self._alter_system(member, f"SET id_gen.registry = '{copy}'")
        world.stop(member, "fast")
        world.start(member)
        trouble = "SELECT error LIKE '%belongs to another registry%' FROM id_gen_stat_fleet"
        until = time.monotonic() + GRANT_SECONDS
        while member.cluster.psql(trouble, DATABASE) != "t" and time.monotonic() < until:
            if self._ask(member, NEXT):
                raise Finding("accepted", f"{member} generates with a worker ID of a copy of the registry")
        self._alter_system(member, "RESET id_gen.registry")

    @action("foreign registry", when=lambda self: self.world.registry.answers)
    def name_foreign_registry(self, which: int, restarts: bool) -> None:
        """A member names the registry of another fleet by mistake."""
        world = self.world
        member = world.able(which)
        if not self._has_number(member):
            # It has never been a member, so it would join.
            return
        world.say("the registry of another fleet is named")
        self._alter_system(member, f"SET id_gen.registry = '{world.registry.foreign(world.fleet)}'")
        if restarts:
            world.stop(member, "fast")
            world.start(member)
        trouble = "SELECT error LIKE '%belongs to a fleet in another registry%' FROM id_gen_stat_fleet"
        until = time.monotonic() + GRANT_SECONDS
        while member.cluster.psql(trouble, DATABASE) != "t" and time.monotonic() < until:
            self._ask(member, NEXT)
        if held := world.registry.foreign_numbers(world.fleet):
            raise Finding("accepted", f"{member} has a worker ID of another fleet: {held}")
        self._alter_system(member, "RESET id_gen.registry")

    @action("said restored", when=lambda self: not self.world.clocks_were_wrong)
    def say_restored(self, which: int) -> None:
        """Although it was not."""
        self._ask(self.world.able(which), run("SELECT id_gen_fleet_report_restore()"))


def _take(shard: int) -> Call:
    return run(f"SELECT id_gen_shard_take({shard})")


def _create(session: Session) -> None:
    try:
        session.run(f"SELECT id_gen_fleet_create({TERMS})")
    except Refused as refused:
        if refused.message != "the fleet already exists":
            raise
