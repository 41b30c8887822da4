"""Any bigint may arrive at a decoder, also one that no generator made: it decodes and recomposes, or is refused."""

import random

from harness import Cluster

# How many bits the IDs of each preset have. One of 64 bits uses the sign.
WIDTHS = """
SELECT name, time_bits + datacenter_bits + worker_bits + sequence_bits, layout LIKE '% unsigned %'
  FROM snowflake_layouts()
"""
RANDOM_IDS = 10_000
OUT_OF_RANGE = "22003"

# One row for each ID: what recomposing it gives, or the SQLSTATE of the refusal; and the same for the picture.
DECODE = """
CREATE FUNCTION recompose(id bigint, layout text, OUT again bigint, OUT refused text) LANGUAGE plpgsql AS $$
BEGIN
    SELECT snowflake_make(created_at, datacenter_id, worker_id, sequence, layout)
      INTO again FROM snowflake_parse(id, layout);
EXCEPTION WHEN OTHERS THEN
    refused := SQLSTATE;
END $$;
CREATE FUNCTION picture(id bigint, layout text, OUT shown text, OUT refused text) LANGUAGE plpgsql AS $$
BEGIN
    shown := snowflake_inspect(id, layout);
EXCEPTION WHEN OTHERS THEN
    refused := SQLSTATE;
END $$;
"""
QUERY = """
SELECT id, r.again, r.refused, coalesce(p.shown, '') <> '', p.refused
  FROM unnest(%s::bigint[]) id, recompose(id, %s) r, picture(id, %s) p
"""


def interesting_ids() -> list[int]:
    """Random IDs of every length, and both sides of every power of two."""
    dice = random.Random(20240101)
    edges = {sign * (1 << bits) + step for bits in range(64) for sign in (1, -1) for step in (-1, 0, 1)}
    shorter = {dice.getrandbits(dice.randrange(1, 64)) for _ in range(RANDOM_IDS // 2)}
    any_bits = {dice.getrandbits(64) - (1 << 63) for _ in range(RANDOM_IDS // 2)}
    return sorted(id for id in edges | shorter | any_bits if -(1 << 63) <= id < 1 << 63)


def expected(id: int, width: int) -> tuple:
    """The row that a QUERY must give."""
    if width == 64 or 0 <= id < 1 << width:
        return id, id, None, True, None
    return id, None, OUT_OF_RANGE, False, OUT_OF_RANGE


def test_every_bigint_with_every_preset() -> None:
    ids = interesting_ids()
    with Cluster() as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        cluster.psql(DECODE)
        with cluster.connect() as connection:
            pid = connection.execute("SELECT pg_backend_pid()").fetchone()
            presets = connection.execute(WIDTHS).fetchall()
            assert len(presets) >= 10
            for layout, width, is_unsigned in presets:
                assert width <= (64 if is_unsigned else 63)
                rows = connection.execute(QUERY, [ids, layout, layout]).fetchall()
                assert len(rows) == len(ids)
                wrong = [row for row in rows if row != expected(row[0], width)]
                assert not wrong, f"{layout}: {len(wrong)} of {len(ids)} IDs, among them {wrong[:3]}"
            assert connection.execute("SELECT pg_backend_pid()").fetchone() == pid
