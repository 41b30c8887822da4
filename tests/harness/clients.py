"""Crowds of clients on one server, and their answers as numpy arrays.

Two ways to ask: `copy_binary` lets psql write a large result to a file at the server's own speed, many at once as
separate processes; `crowd` runs a Python function in many processes, for clients that keep a log of what they did.
"""

import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

import numpy as np

from harness.cluster import Cluster

Answer = TypeVar("Answer")

COPY_HEADER_BYTES = 19
ARRAY_HEADER_BYTES = 20

INT8 = ">i8"
UUID = [("high", ">u8"), ("low", ">u8")]
ARRAY_ELEMENT = np.dtype([("bytes", ">i4"), ("element", INT8)])


def copied_rows(content: bytes, column_types: dict[str, object]) -> np.ndarray:
    """What COPY in binary sent of rows without NULLs, also if it was cut off after any of them: one field a column."""
    row: list[tuple[str, object]] = [("columns", ">i2")]
    for name, column_type in column_types.items():
        row += [(f"{name}_bytes", ">i4"), (name, column_type)]
    # The trailer is shorter than any row.
    rows = max(0, len(content) - COPY_HEADER_BYTES) // np.dtype(row).itemsize
    return np.frombuffer(content, dtype=np.dtype(row), count=rows, offset=COPY_HEADER_BYTES if rows else 0)


def array_elements(array: bytes) -> np.ndarray:
    """The elements of a `bigint[]` without NULLs, as `array_send()` writes it."""
    return np.frombuffer(array, dtype=ARRAY_ELEMENT, offset=ARRAY_HEADER_BYTES)["element"].astype(np.int64)


def copy_binary(cluster: Cluster, query: str, column_types: dict[str, object], dbname: str = "postgres") -> np.ndarray:
    """The rows of a query without NULLs, as `copied_rows`."""
    with tempfile.TemporaryDirectory(prefix="id_gen_copy_") as directory:
        file = Path(directory) / "rows"
        cluster.psql(f"\\copy ({query}) TO '{file}' (FORMAT binary)", dbname)
        return copied_rows(file.read_bytes(), column_types)


def copy_all(cluster: Cluster, query: str, column_types: dict[str, object], dbnames: Sequence[str]) -> list[np.ndarray]:
    """The same query by one client for each name in `dbnames`, all at once."""
    with ThreadPoolExecutor(len(dbnames)) as pool:
        return list(pool.map(lambda dbname: copy_binary(cluster, query, column_types, dbname), dbnames))


def crowd(client: Callable[..., Answer], arguments: Sequence[tuple]) -> list[Answer]:
    """Runs a module-level function in one process for each tuple of arguments, all at once."""
    with ProcessPoolExecutor(len(arguments), mp_context=get_context("fork")) as pool:
        return [future.result() for future in [pool.submit(client, *each) for each in arguments]]
