"""A server's way to etcd, which can be cut: a TCP relay on the loopback for each member, in threads.

    with Way(etcd) as way:
        cluster.append_conf(f"id_gen.registry = '{way.endpoints}'")
        with way.cut():
            ...

While it is cut, connections stay open and nothing passes, as with a cable that is pulled. What was sent meanwhile is
not lost but late: it arrives when the way is whole again, also from a client that no longer waits for the answer.
"""

import base64
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from harness.network import Node, Registry
from harness.ports import LOOPBACK
from harness.waiting import WAIT_SECONDS

CHUNK_BYTES = 65536


def is_of_shard(request: bytes, only_writes: bool = False) -> bool:
    """Whether a request to etcd reads or writes the value of a shard (core/src/fleet/store.rs)."""
    head, _, body = request.partition(b"\r\n\r\n")
    with suppress(ValueError):
        asked = json.loads(body)
        writes = [operation["request_put"] for operation in asked.get("success", ()) if "request_put" in operation]
        touched = writes if only_writes or b"/v3/kv/txn " in head else [asked]
        return any(b"/s/" in base64.b64decode(each["key"]) for each in touched)
    return False


class Delayed:
    """An answer that is kept from the client that asked, or a request from the registry."""

    def __init__(self, every: bool) -> None:
        self._every = every
        self._kept, self._passes = threading.Event(), threading.Event()

    @property
    def was_kept(self) -> bool:
        return self._kept.is_set()

    def await_it(self) -> None:
        """Waits until it is kept: an answer, to what etcd has carried out."""
        if not self._kept.wait(WAIT_SECONDS):
            raise TimeoutError("nothing came that is to be kept")

    def deliver(self) -> None:
        """Lets it pass."""
        self._passes.set()

    def keep(self) -> None:
        """Holds the first answer up, or every one."""
        if self._every or not self._kept.is_set():
            self._kept.set()
            self._passes.wait()


class Way:
    """One server's connections to all members of a registry without TLS."""

    namespace = None

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._requests, self._answers = threading.Event(), threading.Event()
        self._requests.set()
        self._answers.set()
        self._delayed: Delayed | None = None
        self._held: Delayed | None = None
        self._delivered = threading.Event()
        self._listeners = [(member, socket.create_server((LOOPBACK, 0))) for member in registry.members]

    def __enter__(self) -> "Way":
        for member, listener in self._listeners:
            threading.Thread(target=self._accept, args=(listener, member), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._requests.set()
        self._answers.set()
        for _, listener in self._listeners:
            # Closing alone would leave the thread in accept().
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()

    @property
    def endpoints(self) -> str:
        """As the setting names them."""
        return self._registry.named([f"{LOOPBACK}:{listener.getsockname()[1]}" for _, listener in self._listeners])

    @contextmanager
    def cut(self, requests: bool = True, answers: bool = True) -> Iterator[None]:
        """Lets no requests pass, no answers, or neither, for as long as the block lasts."""
        if requests:
            self._requests.clear()
        if answers:
            self._answers.clear()
        try:
            yield
        finally:
            self._requests.set()
            self._answers.set()

    @contextmanager
    def delaying_a_shard(self, every: bool = False) -> Iterator[Delayed]:
        """Keeps the answer to the first request for a shard within the block, or to every one; all else passes."""
        self._delayed = delayed = Delayed(every)
        try:
            yield delayed
        finally:
            self._delayed = None
            delayed.deliver()

    @contextmanager
    def holding_a_write(self) -> Iterator[Delayed]:
        """Keeps the first write of a shard within the block from etcd."""
        self._delivered.clear()
        self._held = held = Delayed(every=False)
        try:
            yield held
        finally:
            self._held = None
            held.deliver()

    def await_delivery(self) -> None:
        """Waits until etcd has answered the write that was held."""
        if not self._delivered.wait(WAIT_SECONDS):
            raise TimeoutError("the write that was held has no answer")

    def _accept(self, listener: socket.socket, member: Node) -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                threading.Thread(target=self._connect, args=(client, member), daemon=True).start()

    def _connect(self, client: socket.socket, member: Node) -> None:
        """Lets a client talk to a member, or sees its connection end as it would there."""
        self._requests.wait()
        request = b""
        was_held = False

        def see_request(data: bytes) -> None:
            nonlocal request, was_held
            request = data if data.startswith(b"POST ") else request + data
            if (held := self._held) and not held.was_kept and is_of_shard(request, only_writes=True):
                was_held = True
                held.keep()

        def see_answer(_: bytes) -> None:
            if was_held:
                self._delivered.set()
            if (delayed := self._delayed) and is_of_shard(request):
                delayed.keep()

        with client, suppress(OSError), socket.create_connection((LOOPBACK, member.port)) as server:
            back = threading.Thread(target=_pass_on, args=(server, client, self._answers, see_answer), daemon=True)
            back.start()
            _pass_on(client, server, self._requests, see_request)
            back.join()


def _pass_on(
    source: socket.socket, target: socket.socket, whole: threading.Event, see: Callable[[bytes], None]
) -> None:
    with suppress(OSError):
        while data := source.recv(CHUNK_BYTES):
            see(data)
            whole.wait()
            target.sendall(data)
    whole.wait()
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
