"""The Java recipe of docs/clients.md, run on a server."""

import selectors
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from clients.shop import shop_server
from harness import Cluster
from harness.recipe import CACHE, ROWS, assert_keys, run_recipe

pytestmark = pytest.mark.any_server

RECIPE = Path(__file__).parent / "jdbc"
DRIVER = CACHE / "jdbc" / "usr" / "share" / "java" / "postgresql.jar"


def pass_on(client: socket.socket, server: socket.socket) -> None:
    """Carries bytes both ways until one side is done."""
    with client, server, selectors.DefaultSelector() as ready:
        ready.register(client, selectors.EVENT_READ, server)
        ready.register(server, selectors.EVENT_READ, client)
        while True:
            for key, _ in ready.select():
                received = key.fileobj.recv(65536)  # type: ignore[union-attr]
                if not received:
                    return
                key.data.sendall(received)


@contextmanager
def port_of(cluster: Cluster) -> Iterator[int]:
    """A TCP port of this machine that leads to the server's socket: the driver knows TCP only, a cluster has none."""

    def accept() -> None:
        client, _ = listener.accept()
        server = socket.socket(socket.AF_UNIX)
        server.connect(str(cluster.socket_dir / ".s.PGSQL.5432"))
        pass_on(client, server)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1]


@pytest.mark.long
def test_jdbc() -> None:
    with shop_server("java") as cluster, port_of(cluster) as port:
        address = {"JDBC_URL": f"jdbc:postgresql://127.0.0.1:{port}/shop?user=shop&sslmode=disable"}
        printed = run_recipe(cluster, "shop", ("java", "-cp", DRIVER, "Recipe.java"), RECIPE, address)
        assert printed["copied"] == ROWS
        assert cluster.psql("SELECT count(DISTINCT id) FROM visit", "shop") == str(ROWS)
        assert_keys(cluster, "shop", printed)
