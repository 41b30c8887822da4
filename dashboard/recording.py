"""A server watched for a while: samples taken once a second through the views, kept as JSON lines; their differences.

A sample is one line: when it was taken, and what `id_gen_stat`, `id_gen_stat_waits`, `id_gen_status()` and
`id_gen_check()` said. Times are counted by the watcher's own monotonic clock, so that a server's clock may do what it
likes. Where a column was named, the last line is the profile of the IDs that are stored there.
"""

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg

Sample = dict[str, Any]

ABOUT = """
SELECT jsonb_build_object(
    'server', split_part(current_setting('server_version'), ' ', 1),
    'ids_per_second', (SELECT ids_per_second FROM snowflake_layouts() WHERE in_use))
"""

# All of a sample at once. Spans in milliseconds, as the views have them.
SAMPLE = """
SELECT jsonb_build_object(
    'stat', (SELECT to_jsonb(s) FROM id_gen_stat s),
    'waits', (SELECT jsonb_agg(jsonb_build_array(upper_bound, waits) ORDER BY upper_bound) FROM id_gen_stat_waits),
    'status', (SELECT to_jsonb(s) || jsonb_build_object('lead', extract(epoch FROM lead) * 1000,
                                                        'max_lead', extract(epoch FROM max_lead) * 1000)
                 FROM id_gen_status() s),
    'checks', (SELECT jsonb_agg(to_jsonb(c)) FROM id_gen_check() c))
"""

# Times in seconds since the Unix epoch.
PROFILE = """
SELECT jsonb_build_object('profile', jsonb_build_object('column', %(column)s::text, 'rows', jsonb_agg(
           to_jsonb(p) || jsonb_build_object('first_at', extract(epoch FROM first_at),
                                             'last_at', extract(epoch FROM last_at)))))
  FROM id_gen_profile(%(table)s::text::regclass, %(name)s) p
"""

INTERVAL_SECONDS = 1.0


def record(
    connection: psycopg.Connection, file: Path, seconds: float, tell: Callable[[Sample], None] = lambda _: None
) -> None:
    """Writes a sample a second, and one at the start, for so long or until Ctrl-C."""
    with file.open("w") as lines:
        about = connection.execute(ABOUT).fetchone()[0]
        began = time.monotonic()
        _write(lines, about | {"began": f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"})
        try:
            for number in range(round(seconds / INTERVAL_SECONDS) + 1):
                time.sleep(max(0.0, began + number * INTERVAL_SECONDS - time.monotonic()))
                at = time.monotonic() - began
                sample = {"at": round(at, 3)} | connection.execute(SAMPLE).fetchone()[0]
                _write(lines, sample)
                tell(sample)
        except KeyboardInterrupt:
            pass


def add_profile(connection: psycopg.Connection, file: Path, column: str) -> None:
    """Writes the profile of a column, named as in `shop.customer.id`."""
    table, _, name = column.rpartition(".")
    found = connection.execute(PROFILE, {"column": column, "table": table, "name": name}).fetchone()
    with file.open("a") as lines:
        _write(lines, found[0])


def _write(lines: Any, line: dict[str, Any]) -> None:  # noqa: ANN401 (a text file)
    lines.write(json.dumps(line) + "\n")
    # So that the file is complete for a reader, and if this process is killed.
    lines.flush()


class Recording:
    """A recording read back. What it holds by sample is one shorter than the samples: what happened since the last."""

    def __init__(self, file: Path) -> None:
        try:
            self.about, *self.samples = map(json.loads, file.read_text().splitlines())
        except ValueError as error:
            raise ValueError(f"{file} is not a recording: {error}") from None
        self.profile = self.samples.pop()["profile"] if self.samples and "profile" in self.samples[-1] else None
        if len(self.samples) < 2:
            raise ValueError(f"{file} is too short: it has {len(self.samples)} samples, and two are needed")

    @property
    def at(self) -> list[float]:
        """When each sample but the first was taken, in seconds."""
        return [sample["at"] for sample in self.samples[1:]]

    @property
    def seconds(self) -> list[float]:
        """How long each took."""
        return [after["at"] - before["at"] for before, after in self._pairs]

    @property
    def causes(self) -> list[str]:
        """Why calls may be refused, as the columns of `id_gen_stat` are named."""
        return [key for key in self.samples[-1]["stat"] or {} if key.startswith("refused_")]

    def rise(self, counter: str) -> list[int]:
        """By how much a counter of `id_gen_stat` rose since the sample before."""
        return [_rise(_stat(before, counter), _stat(after, counter)) for before, after in self._pairs]

    def rate(self, counter: str) -> list[float]:
        return [rise / seconds for rise, seconds in zip(self.rise(counter), self.seconds, strict=True)]

    def value(self, view: str, column: str) -> list[float | None]:
        """A column of `stat` or `status` as each sample has it."""
        return [(sample[view] or {}).get(column) for sample in self.samples[1:]]

    @property
    def waits(self) -> list[list[tuple[float, int]]]:
        """For each sample the waits since the one before: how many (the second) took at most so many ms (the first)."""
        return [_waits(before, after) for before, after in self._pairs]

    @property
    def all_waits(self) -> list[tuple[float, int]]:
        """The same, over the whole recording."""
        totals: dict[float, int] = {}
        for bucket in self.waits:
            for upper_bound, waits in bucket:
                totals[upper_bound] = totals.get(upper_bound, 0) + waits
        return list(totals.items())

    @property
    def _pairs(self) -> list[tuple[Sample, Sample]]:
        return list(zip(self.samples, self.samples[1:], strict=False))


def percentile(buckets: list[tuple[float, int]], fraction: float) -> float | None:
    """The bound of the bucket that holds it: the wait was at most that long."""
    left = fraction * sum(waits for _, waits in buckets)
    for upper_bound, waits in buckets:
        left -= waits
        if waits and left <= 0:
            return upper_bound
    return None


def _waits(before: Sample, after: Sample) -> list[tuple[float, int]]:
    # The last bucket's bound is the text "Infinity", which JSON has no number for.
    earlier = {float(upper_bound): waits for upper_bound, waits in before["waits"] or []}
    later = {float(upper_bound): waits for upper_bound, waits in after["waits"] or []}
    return [(upper_bound, _rise(earlier.get(upper_bound, 0), waits)) for upper_bound, waits in later.items()]


def _stat(sample: Sample, counter: str) -> int:
    """A server without shared memory for it, as yet, has counted nothing."""
    return (sample["stat"] or {}).get(counter, 0)


def _rise(before: int, after: int) -> int:
    """A counter that fell was reset meanwhile."""
    return after - before if after >= before else after
