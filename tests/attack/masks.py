"""Masks, whose keys come and go, in sessions with all kinds of settings."""

from attack.action import action, use
from attack.explorer import Explorer
from attack.finding import Finding
from attack.session_settings import SUPERUSER_SETTING
from attack.world import DATABASE, Node, Refused, Session
from harness.masks import KEY_FILE, write_key_file

IDS = (1, 0, -1, 175928847299117063, 2**63 - 1, -(2**63))
DOMAINS = ("orders", "Ä")
MOST_KEYS = 5
ALL_FORMS = """
    SELECT id_mask(i, d), id_unmask(id_mask(i, d), d) = i, id_mask_text(i, d),
           id_unmask_text_bigint(id_mask_text(i, d), d) = i, id_mask(u, d)::text,
           id_unmask(id_mask(u, d), d) = u, id_unmask_text_uuid(id_mask_text(u, d), d) = u
      FROM (VALUES (%s::bigint, %s::text, '0198c5a0-0000-7000-8000-000000000001'::uuid)) AS given (i, d, u)
"""
WITH_KEY = """
    SELECT masked, id_unmask(masked, d, v) = i
      FROM (VALUES (%s::bigint, %s::text, %s::integer)) AS given (i, d, v), id_mask(i, d, v) masked
"""
MASK = "SELECT id_mask(1::bigint, 'orders')"
BROKEN = {"no file": None, "a bad line": "1 00\n", "open to others": "1 " + "0" * 64 + "\n", "nothing": ""}
# What calls are refused with then: no file, a bad one, no key.
BAD_FILE = ("58P01", "F0000", "55000", "22023", "42501")


def key(version: int) -> str:
    """The same on all servers."""
    return f"{version:064x}"


class Masks(Explorer):
    """Uses of masks."""

    schema = "CREATE EXTENSION id_gen_mask;\n"

    def __init__(self) -> None:
        self._masks: dict[tuple[int, str, int, str], int | str] = {}
        super().__init__()

    @use("masks", settings=SUPERUSER_SETTING, given=IDS, domain=DOMAINS)
    def mask(self, which: int, settings: dict[str, str], given: int, domain: str) -> None:
        """It comes back, and is the same in all sessions and on all servers with a key."""
        node = self.world.node(which)
        versions = self._key_versions(node) or self._write_keys(node, [1])
        # Its statements find the functions in the search path.
        settings = {name: value for name, value in settings.items() if name != "search_path"}
        with self.world.passing(node, DATABASE, **settings) as session:
            self._mask_in(node, session, versions, given, domain)

    def _mask_in(self, node: Node, session: Session, versions: list[int], given: int, domain: str) -> None:
        [(number, back, text, back_again, other, *same)] = session.run(ALL_FORMS, given, domain)
        if not (back and back_again and all(same)):
            raise Finding("masks", f"{given} in {domain!r} does not come back: {number}, {text}")
        newest = int(text.partition("_")[0])
        if newest != max(versions):
            raise Finding("masks", f"{session} masks with key {newest} of {versions}")
        made = [(newest, "number", number), (newest, "text", text), (newest, "uuid", other)]
        for version in versions:
            [(masked, is_back)] = session.run(WITH_KEY, given, domain, version)
            if not is_back:
                raise Finding("masks", f"{given} in {domain!r} does not come back with key {version}: {masked}")
            made.append((version, "number", masked))
        for version, form, value in made:
            known = self._masks.setdefault((given, domain, version, form), value)
            if known != value:
                what = f"{given} in {domain!r} with key {version}"
                raise Finding("masks", f"{what} is {value} on {node}, and was {known}")

    @action("another key")
    def rotate(self, which: int, drop_oldest: bool) -> None:
        """The next version; what older ones have masked comes back as long as they are there."""
        node = self.world.node(which)
        versions = self._key_versions(node)
        with_next = [*versions, max(versions, default=0) + 1]
        text = None
        if versions:
            [(text,)] = self.world.query(node, "SELECT id_mask_text(7::bigint, 'orders')")
        self._write_keys(node, with_next[1:] if drop_oldest or len(with_next) > MOST_KEYS else with_next)
        if text is None:
            return
        with self.world.passing(node, DATABASE) as session:
            try:
                is_back = session.value("SELECT id_unmask_text_bigint(%s, 'orders') = 7", text)
            except Refused as refused:
                if refused.sqlstate != "22023" or int(text.partition("_")[0]) in self._key_versions(node):
                    raise Finding("masks", f"{text}: {refused}") from refused
                return
            if not is_back:
                raise Finding("masks", f"{text} is not 7 after another key has come")

    @action("broken keys", how=BROKEN)
    def break_keys(self, which: int, how: str) -> None:
        """A file that cannot be used: no session goes on without it, and none tells a key."""
        node = self.world.node(which)
        versions = self._key_versions(node) or self._write_keys(node, [1])
        content = BROKEN[how]
        if content is None:
            (node.cluster.data / KEY_FILE).unlink()
        else:
            write_key_file(node.cluster, content, 0o644 if how == "open to others" else 0o600)
        try:
            with self.world.passing(node, DATABASE) as session:
                refused = self.expect_refusal(session, MASK, "masks", *BAD_FILE)
        finally:
            self._write_keys(node, versions)
        if any(key(version) in f"{refused}" for version in versions):
            raise Finding("masks", f"a key is shown: {refused}")

    @use("masks")
    def mask_as_clerk(self, which: int) -> None:
        """Who has no privilege is refused."""
        self.expect_refusal(self.world.open(self.world.node(which), DATABASE, "clerk"), MASK, "masks", "42501")

    # The file

    def _key_versions(self, node: Node) -> list[int]:
        path = node.cluster.data / KEY_FILE
        if not path.exists():
            return []
        return [int(line.split()[0]) for line in path.read_text().splitlines()]

    def _write_keys(self, node: Node, versions: list[int]) -> list[int]:
        write_key_file(node.cluster, "".join(f"{version} {key(version)}\n" for version in versions))
        with self.world.passing(node, DATABASE) as admin:
            admin.run("LOAD 'id_gen_mask'")
            admin.run(f"ALTER SYSTEM SET id_gen_mask.key_file = '{KEY_FILE}'")
            admin.run("SELECT pg_reload_conf()")
        node.cluster.poll_until("LOAD 'id_gen_mask'; SHOW id_gen_mask.key_file", DATABASE, KEY_FILE)
        return versions
