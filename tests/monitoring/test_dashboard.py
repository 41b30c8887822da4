"""`make dashboard`: a page of plots from a running server, from a recording, and from the load it makes up."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness import GENERATING, Cluster
from harness.ids import NARROW, PATIENT, Caller, first_id

PROGRAM = Path(__file__).parents[2] / "dashboard/make.py"
TITLES = [
    "IDs a second",
    "Lead: how far IDs run ahead of the clock",
    "How long calls waited",
    "Waits by length",
    "Sequence use",
    "Refusals a second, by cause",
]
# Long enough for every act of the load to be seen.
MADE_UP_SECONDS = 12


def draw(output: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, PROGRAM, f"--output={output}", *options]
    return subprocess.run(command, text=True, capture_output=True, env=dict(os.environ))


def drawn(output: Path, *options: str) -> tuple[str, list[dict[str, Any]]]:
    """The page that came out, and the lines of its recording."""
    done = draw(output, *options)
    assert done.returncode == 0, done.stderr
    page = Path(done.stdout.strip())
    named = re.search(r"make dashboard RECORDING=(.*?)</code>", page.read_text())
    assert named
    return page.read_text(), [json.loads(line) for line in Path(named[1]).read_text().splitlines()]


def says(page: str, what: str) -> int:
    """The number before a word, in the page's heading."""
    found = re.search(rf"([\d,]+) {what}", page)
    assert found, page[:2000]
    return int(found[1].replace(",", ""))


@pytest.mark.long
def test_a_running_server(tmp_path: Path) -> None:
    with Cluster("shown", conf=NARROW + PATIENT) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        first_id(cluster)
        with Caller(cluster) as caller:
            # More than the layout has in all that time: it goes on until it is cancelled.
            burst = caller.begin("SELECT count(*) FROM snowflake_next_batch(2000000000)")
            page, (about, *samples) = drawn(tmp_path, f"--dsn={cluster.conninfo()}", "--seconds=3")
            assert not burst.done()
        assert about["ids_per_second"] == 64_000
        assert len(samples) == 4
        for title in TITLES:
            assert title in page
        assert page.count("<svg") == 1
        for name in cluster.psql("SELECT name FROM id_gen_check()").splitlines():
            assert f"<td>{name}</td>" in page
        rose = samples[-1]["stat"]["ids"] - samples[0]["stat"]["ids"]
        assert says(page, "IDs") == rose > 0
        assert says(page, "waits") > 0
    again, _ = drawn(tmp_path / "again", f"--recording={next(tmp_path.glob('*.jsonl'))}")
    assert again == page, "the recording gives another page than the server did"


@pytest.mark.long
def test_the_ids_of_a_column(tmp_path: Path) -> None:
    """Its profile is recorded, drawn, and drawn again from the recording."""
    with Cluster("stored", conf=GENERATING) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        where = f"--dsn={cluster.conninfo()}"
        without = draw(tmp_path / "without", where, "--seconds=1", "--profile=nowhere.id")
        assert without.returncode == 1 and "CREATE EXTENSION id_gen_tools;" in without.stderr
        cluster.psql("CREATE EXTENSION id_gen_tools")
        cluster.psql('CREATE SCHEMA "Shop"; CREATE TABLE "Shop".customer (id bigint, u uuid)')
        made = "snowflake_make(now() - i * interval '1 h', 0, i % 2, 0)"
        cluster.psql(f'INSERT INTO "Shop".customer SELECT {made}, uuidv7_min(now()) FROM generate_series(1, 50) i')
        page, (*_, stored) = drawn(tmp_path, where, "--seconds=1", '--profile="Shop".customer.id')
        uuids, _ = drawn(tmp_path / "uuids", where, "--seconds=1", '--profile="Shop".customer.u')
        refused = draw(tmp_path / "refused", where, "--seconds=1", "--profile=nowhere.id")
    assert stored["profile"]["column"] == '"Shop".customer.id'
    assert sum(row["ids"] for row in stored["profile"]["rows"] if row["section"] == "time") == 50
    assert page.count("<svg") == uuids.count("<svg") == 2
    for part in ("IDs stored in &quot;Shop&quot;.customer.id", "IDs in 1 h", "IDs by worker", "Fullest of n shards"):
        assert part in page, part
    assert re.search(r'<td>worker 0 of datacenter 0</td><td class="warning">warning</td><td>25</td><td>not this', page)
    assert "no worker is told" in uuids
    assert refused.returncode == 1
    assert 'relation "nowhere" does not exist' in refused.stderr
    assert "Traceback" not in refused.stderr
    again, _ = drawn(tmp_path / "again", f"--recording={next(tmp_path.glob('*.jsonl'))}")
    assert again == page


@pytest.mark.long
def test_a_server_that_has_made_nothing(tmp_path: Path) -> None:
    """Without a worker ID there is nothing to see, and without the preload not even counters."""
    with Cluster("idle", conf=GENERATING.replace("worker_id = 1", "worker_id = -1")) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        page, _ = drawn(tmp_path, f"--dsn={cluster.conninfo()}", "--seconds=1")
    assert "no call was refused" in page
    assert "no call had to wait" in page
    assert 'class="error">error' in page


@pytest.mark.long
def test_the_made_up_load_shows_everything(tmp_path: Path) -> None:
    page, (_, *samples, stored) = drawn(tmp_path, f"--seconds={MADE_UP_SECONDS}")
    assert stored["profile"]["column"] == "made_up.id"
    assert "IDs stored in made_up.id" in page
    assert "no call" not in page
    assert says(page, "IDs") > 50_000
    assert says(page, "waits") > 0
    assert says(page, "refusals") > 0
    assert "clock back" in page
    assert "clock forward" in page
    assert max(sample["stat"]["lead"] for sample in samples) > 500


@pytest.mark.any_server
@pytest.mark.parametrize("lines", [[], ["{}"], ["nonsense"]], ids=["empty", "no sample", "no JSON"])
def test_a_recording_that_is_none(tmp_path: Path, lines: list[str]) -> None:
    file = tmp_path / "broken.jsonl"
    file.write_text("\n".join(lines))
    done = draw(tmp_path, f"--recording={file}")
    assert done.returncode == 1
    assert str(file) in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.any_server
def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    done = draw(tmp_path, f"--dsn=host={tmp_path} dbname=postgres")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


@pytest.mark.any_server
def test_a_database_without_the_extension(tmp_path: Path) -> None:
    with Cluster("without") as cluster:
        done = draw(tmp_path, f"--dsn={cluster.conninfo()}")
    assert done.returncode == 1
    assert done.stderr.startswith("There is no id_gen in database postgres")
