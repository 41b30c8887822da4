"""The keys that a server masks IDs with, in the file that it reads them from."""

import shutil
from collections.abc import Mapping
from pathlib import Path

from harness.cluster import Cluster

# Relative, so in the data directory.
KEY_FILE = "mask.keys"
MASKING = f"id_gen_mask.key_file = '{KEY_FILE}'\n"

FIRST_KEYS = {1: "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"}


def lines(keys: Mapping[int, str]) -> str:
    return "".join(f"{version} {key}\n" for version, key in keys.items())


def write_key_file(cluster: Cluster, content: str | bytes = lines(FIRST_KEYS), mode: int = 0o600) -> Path:
    """Puts a file in the place of the keys, as the server's user. Sessions that have read the one before go on with its
    keys until a reload."""
    path = cluster.data / KEY_FILE
    new = path.with_suffix(".new")
    new.write_bytes(content.encode() if isinstance(content, str) else content)
    new.chmod(mode)
    if owner := cluster.server.as_owner.get("user"):
        shutil.chown(new, owner, owner)
    new.replace(path)
    return path
