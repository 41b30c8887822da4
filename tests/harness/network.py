"""Network namespaces: one for the registry, and one for each server, with a cable between the two that can be cut.

    with Namespace("registry") as namespace, Etcd(3, namespace=namespace) as etcd, Cable(etcd) as cable:
        with Cluster(conf=f"id_gen.registry = '{cable.endpoints}'", namespace=cable.namespace):
            with cable.cut(answers=False):
                ...

While it is cut, packets are sent and arrive nowhere, as with a cable that is pulled: the sender takes a wrong address
for that of the other end's card. Nothing of it is seen outside of these namespaces. Unix sockets are in the file
system, so a server's clients and standbys reach it all the same.

Making namespaces takes root's rights, which root in a container need not have: see `are_possible`. Without them, a
relay (`harness.relay.Way`) does as well, except that connections are still taken while it is cut.
"""

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import count
from typing import Protocol

# Of a card that nobody has: the second digit says that it is no manufacturer's.
NOBODY = "02:00:00:00:00:01"
# Each cable has four addresses of this network, of which two are its ends'.
FIRST_ADDRESS = 10 << 24


class Namespace:
    """A network with a loopback and nothing else."""

    _numbers = count()

    def __init__(self, name: str) -> None:
        self.name = f"id_gen_{os.getpid()}_{next(self._numbers)}_{name}"
        self.cables = count(1)

    def __enter__(self) -> "Namespace":
        _ip("netns", "add", self.name)
        _ip("-n", self.name, "link", "set", "lo", "up")
        return self

    def __exit__(self, *_: object) -> None:
        _ip("netns", "delete", self.name)

    def inside(self, *command: object) -> list[object]:
        """A command of root's that runs another one in this network."""
        return ["ip", "netns", "exec", self.name, *command]


class Node(Protocol):
    """One server of a registry."""

    port: int


class Registry(Protocol):
    """What servers reach over ways that can be cut."""

    namespace: Namespace | None

    @property
    def members(self) -> Sequence[Node]: ...

    def named(self, addresses: Sequence[str]) -> str:
        """Its members by these addresses, as the setting names them."""


class Cable:
    """One server's network, and its way to all members of a registry in another."""

    def __init__(self, registry: Registry) -> None:
        if registry.namespace is None:
            raise ValueError("a registry without a namespace has no cables")
        self._registry, self._far = registry, registry.namespace
        self.namespace = Namespace("server")
        number = next(self._far.cables)
        self._card = f"cable{number}"
        first = FIRST_ADDRESS + 4 * number
        self._far_address, self._near_address = _address(first + 1), _address(first + 2)

    def __enter__(self) -> "Cable":
        self.namespace.__enter__()
        near, far = self.namespace.name, self._far.name
        _ip("-n", far, "link", "add", self._card, "type", "veth", "peer", self._card, "netns", near)
        for name, address in ((far, self._far_address), (near, self._near_address)):
            _ip("-n", name, "address", "add", f"{address}/30", "dev", self._card)
            _ip("-n", name, "link", "set", self._card, "up")
        return self

    def __exit__(self, *_: object) -> None:
        # The cable goes with either end.
        self.namespace.__exit__()

    @property
    def endpoints(self) -> str:
        """As the setting names them."""
        return self._registry.named([f"{self._far_address}:{member.port}" for member in self._registry.members])

    @contextmanager
    def cut(self, requests: bool = True, answers: bool = True) -> Iterator[None]:
        """Lets no requests pass, no answers, or neither, for as long as the block lasts."""
        ends = [(self.namespace.name, self._far_address)] * requests + [(self._far.name, self._near_address)] * answers
        for name, other in ends:
            _ip("-n", name, "neighbour", "replace", other, "lladdr", NOBODY, "nud", "permanent", "dev", self._card)
        try:
            yield
        finally:
            for name, other in ends:
                _ip("-n", name, "neighbour", "delete", other, "dev", self._card)


@cache
def are_possible() -> bool:
    """Whether this process may make such networks."""
    if os.geteuid() != 0:
        return False
    try:
        with Namespace("first") as first, Namespace("second") as second:
            _ip("-n", first.name, "link", "add", "cable", "type", "veth", "peer", "cable", "netns", second.name)
            subprocess.run(first.inside("true"), check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


def _address(number: int) -> str:
    return ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0))


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)
