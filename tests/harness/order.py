"""Whether IDs of any kind are distinct, and in the order in which many clients asked for them."""

import itertools
from bisect import bisect_left
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

WORD_BYTES = 8
# An odd number whose bits are random enough (the golden ratio's).
SPREAD = np.uint64(0x9E37_79B9_7F4A_7C15)


class Statement(NamedTuple):
    """What a client saw of one statement: when it asked and was answered, and the outermost of the IDs it got."""

    requested: int
    returned: int
    lowest: Any
    highest: Any


def assert_ordered_across_clients(log: Iterable[Statement]) -> None:
    """Whatever was requested after another statement had returned got larger IDs than that one."""
    by_return = sorted(log, key=lambda statement: statement.returned)
    returned = [statement.returned for statement in by_return]
    highest_so_far = list(itertools.accumulate((statement.highest for statement in by_return), max))
    wrong = 0
    for statement in by_return:
        returned_before = bisect_left(returned, statement.requested)
        wrong += returned_before > 0 and statement.lowest <= highest_so_far[returned_before - 1]
    assert not wrong, f"{wrong} of {len(by_return)} statements got an ID below one already returned"


def words(ids: np.ndarray) -> np.ndarray:
    """Values of a fixed width, as bytes, each as a row of unsigned words, the most significant first: rows sort as the
    bytes do."""
    width = ids.dtype.itemsize
    padded = np.zeros((ids.size, -(-width // WORD_BYTES) * WORD_BYTES), np.uint8)
    padded[:, :width] = np.ascontiguousarray(ids).view(np.uint8).reshape(ids.size, width)
    return padded.view(">u8").astype(np.uint64)


def is_increasing(ids: np.ndarray) -> bool:
    """Whether each of these values is larger than the one before."""
    rows = words(ids)
    larger = np.zeros(len(rows) - 1, bool)
    for column in reversed(rows.T):
        larger = (column[1:] > column[:-1]) | ((column[1:] == column[:-1]) & larger)
    return bool(larger.all())


def assert_all_distinct(parts: list[np.ndarray]) -> None:
    """No value is there twice, in any of these arrays of one fixed width."""
    digests = np.sort(np.concatenate([_digests(part) for part in parts]))
    repeated = np.unique(digests[1:][digests[1:] == digests[:-1]])
    if repeated.size:
        # By chance, two values may have one digest.
        alike = np.sort(np.concatenate([part[np.isin(_digests(part), repeated)] for part in parts]))
        twice = np.unique(alike[1:][alike[1:] == alike[:-1]])
        assert twice.size == 0, f"{twice.size} IDs were given more than once, among them {twice[:5].tolist()}"


def _digests(ids: np.ndarray) -> np.ndarray:
    """A word of each value: all its bits go into it."""
    digest = np.zeros(ids.size, np.uint64)
    for column in words(ids).T:
        digest = (digest ^ column) * SPREAD
        digest ^= digest >> np.uint64(29)
    return digest
