"""A server's way to etcd, which can be cut: a TCP relay on the loopback for each member, in threads.

    with Way(etcd) as way:
        cluster.append_conf(f"id_gen.registry = '{way.endpoints}'")
        with way.cut():
            ...

While it is cut, connections stay open and nothing passes, as with a cable that is pulled. What was sent meanwhile is
not lost but late: it arrives when the way is whole again, also from a client that no longer waits for the answer.
"""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from harness.etcd import LOOPBACK, Etcd, Member

CHUNK_BYTES = 65536


class Way:
    """One server's connections to all members of an etcd without TLS."""

    def __init__(self, etcd: Etcd) -> None:
        self._whole = threading.Event()
        self._whole.set()
        self._listeners = [(member, socket.create_server((LOOPBACK, 0))) for member in etcd.members]

    def __enter__(self) -> "Way":
        for member, listener in self._listeners:
            threading.Thread(target=self._accept, args=(listener, member), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._whole.set()
        for _, listener in self._listeners:
            # Closing alone would leave the thread in accept().
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()

    @property
    def endpoints(self) -> str:
        """As the setting names them."""
        return ",".join(f"etcd://{LOOPBACK}:{listener.getsockname()[1]}" for _, listener in self._listeners)

    @contextmanager
    def cut(self) -> Iterator[None]:
        """Lets nothing pass, either way, for as long as the block lasts."""
        self._whole.clear()
        try:
            yield
        finally:
            self._whole.set()

    def _accept(self, listener: socket.socket, member: Member) -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                threading.Thread(target=self._connect, args=(client, member), daemon=True).start()

    def _connect(self, client: socket.socket, member: Member) -> None:
        """Lets a client talk to a member, or sees its connection end as it would there."""
        self._whole.wait()
        with client, suppress(OSError), socket.create_connection((LOOPBACK, member.port)) as server:
            back = threading.Thread(target=self._pass_on, args=(server, client), daemon=True)
            back.start()
            self._pass_on(client, server)
            back.join()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(CHUNK_BYTES):
                self._whole.wait()
                target.sendall(data)
        self._whole.wait()
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)
