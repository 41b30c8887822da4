"""TCP ports for servers that a test starts: each is given out once, whichever process asks."""

import socket

LOOPBACK = "127.0.0.1"

# One for each port that was given out, bound and never listening, as long as this process lives. The kernel then gives
# the port to nobody who asks for any, but lets a server that sets SO_REUSEADDR bind it by its number; all of them do.
_held: list[socket.socket] = []


def free_port() -> int:
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind((LOOPBACK, 0))
    _held.append(holder)
    return holder.getsockname()[1]
