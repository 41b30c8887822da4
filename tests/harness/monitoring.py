"""The real exporter and the real Prometheus, on free ports of the loopback, watching a throwaway server.

    with Exporter(cluster) as exporter, Prometheus(cluster, exporter) as prometheus:
        exporter.scrape()["id_gen_ids_total"]
        prometheus.ask("rate(id_gen_ids_total[10s])")

They run as the servers' user and keep their files in the cluster's directory, so a failed test keeps their logs too.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

from harness.cluster import Cluster
from harness.ports import LOOPBACK, free_port

CONTRIB = Path(__file__).parents[2] / "contrib"
QUERIES = CONTRIB / "prometheus/queries.yaml"
RULES = CONTRIB / "prometheus/rules.yaml"

HTTP_SECONDS = 20

# A line of the text that Prometheus reads: a name, labels, a value.
SAMPLE = re.compile(r"^(?P<name>\w+)(?:\{(?P<labels>.*)\})? (?P<value>\S+)$", re.MULTILINE)
LABEL = re.compile(r'(?P<name>\w+)="(?P<value>(?:[^"\\]|\\.)*)"')

# Metrics of the exporter's own choice, which some versions of PostgreSQL make it complain about.
COLLECTOR = re.compile(r"--(?:\[no-\])?(collector\.\w+)")


def program(name: str) -> Path:
    """A program of Prometheus's, which `scripts/run` has put on PATH."""
    found = shutil.which(name)
    if found is None:
        raise FileNotFoundError(f"{name} is missing: no Debian package could be unpacked, so it must be on PATH")
    return Path(found)


def promtool(*arguments: str | Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run([program("promtool"), *arguments], input=stdin, text=True, capture_output=True)


class Service:
    """A program that answers HTTP."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster = cluster
        self.directory = cluster.base / name
        self.directory.mkdir(mode=0o755)
        if owner := cluster.server.as_owner.get("user"):
            shutil.chown(self.directory, owner, owner)
        self.logfile = self.directory / "log"
        self.port = free_port()
        self._program = program(name)
        self._process: subprocess.Popen[bytes] | None = None

    def command(self) -> list[str]:
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        return {}

    ready = "/"

    def __enter__(self) -> "Service":
        with self.logfile.open("ab") as log:
            self._process = subprocess.Popen(
                [self._program, f"--web.listen-address={LOOPBACK}:{self.port}", *self.command()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={"PATH": os.environ["PATH"]} | self.environment(),
                start_new_session=True,
                **self.cluster.server.as_owner | {"cwd": self.directory},
            )
        try:
            self.cluster.wait_until(self._answers, f"watched by {self._program.name}", self.log)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait()

    def log(self) -> str:
        return self.logfile.read_text()

    def get(self, path: str) -> str:
        with urlopen(f"http://{LOOPBACK}:{self.port}{path}", timeout=HTTP_SECONDS) as answer:
            return answer.read().decode()

    def _answers(self) -> bool:
        if self._process is None or self._process.poll() is not None:
            raise RuntimeError(f"{self._program} ended; its log:\n{self.log()}")
        try:
            self.get(self.ready)
        except (URLError, ConnectionError):
            return False
        return True


class Exporter(Service):
    """prometheus-postgres-exporter with the queries of contrib/, and none of its own."""

    def __init__(self, cluster: Cluster, role: str) -> None:
        super().__init__(cluster, "prometheus-postgres-exporter")
        self._role = role
        # The tree may be closed to the user it runs as.
        self._queries = Path(shutil.copy(QUERIES, self.directory))

    def command(self) -> list[str]:
        usage = subprocess.run([self._program, "--help"], text=True, capture_output=True)
        collectors = COLLECTOR.findall(usage.stdout + usage.stderr)
        return [
            "--disable-default-metrics",
            "--disable-settings-metrics",
            *(f"--no-{collector}" for collector in dict.fromkeys(collectors)),
            f"--extend.query-path={self._queries}",
        ]

    def environment(self) -> dict[str, str]:
        where = f"host={self.cluster.socket_dir} user={self._role} dbname=postgres sslmode=disable"
        return {"DATA_SOURCE_NAME": where}

    def text(self) -> str:
        """What Prometheus reads at each scrape."""
        return self.get("/metrics")

    def scrape(self) -> "Samples":
        return Samples(self.text())


class Samples(Mapping[str, float]):
    """One scrape: values by name, with the labels written as in `id_gen_refusals_total{reason="lead"}`."""

    def __init__(self, text: str) -> None:
        self._values: dict[str, float] = {}
        self.types = dict(re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE))
        self.names: set[str] = set()
        for found in SAMPLE.finditer(text):
            labels = {name: value for name, value in LABEL.findall(found["labels"] or "") if name != "server"}
            written = ",".join(f'{name}="{value}"' for name, value in sorted(labels.items()))
            self._values[found["name"] + (f"{{{written}}}" if written else "")] = float(found["value"])
            self.names.add(found["name"])

    def __getitem__(self, key: str) -> float:
        return self._values[key]

    def __iter__(self) -> Any:  # noqa: ANN401 (as Mapping has it)
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def of(self, name: str) -> dict[str, float]:
        """The values of all series of a name, by their labels."""
        return {key.removeprefix(name): value for key, value in self._values.items() if key.partition("{")[0] == name}


class Prometheus(Service):
    """Prometheus with the rules of contrib/, scraping exporters every second."""

    ready = "/-/ready"

    def __init__(self, cluster: Cluster, *exporters: Exporter) -> None:
        super().__init__(cluster, "prometheus")
        shutil.copy(RULES, self.directory)
        targets = [f"{LOOPBACK}:{exporter.port}" for exporter in exporters]
        self._config = self.directory / "prometheus.yml"
        self._config.write_text(
            json.dumps(
                {
                    "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
                    "rule_files": [str(self.directory / RULES.name)],
                    "scrape_configs": [{"job_name": "postgres", "static_configs": [{"targets": targets}]}],
                }
            )
        )

    def command(self) -> list[str]:
        return [f"--config.file={self._config}", f"--storage.tsdb.path={self.directory / 'data'}"]

    def ask(self, expression: str) -> list[dict[str, Any]]:
        """The series that an expression gives at present."""
        return self.api("query", query=expression)["result"]

    def api(self, what: str, **parameters: str) -> dict[str, Any]:
        answer = json.loads(self.get(f"/api/v1/{what}?{urlencode(parameters)}"))
        assert answer["status"] == "success", answer
        return answer["data"]
