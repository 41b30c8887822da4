"""contrib/ as people run it: the real exporter on a real server, the real Prometheus on it, and their own checks."""

import json
import math
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness import GENERATING, Cluster, SqlError
from harness.etcd import Etcd
from harness.fleet import GRANT_SECONDS, NO_NUMBER, await_number, create_fleet, member_conf, number_of, silent
from harness.ids import NARROW, NARROW_LAYOUT, NEXT, array_of, change, first_id, refusal, stepped
from harness.monitoring import CONTRIB, QUERIES, RULES, Exporter, Prometheus, Samples, promtool

DASHBOARD = CONTRIB / "grafana/id_gen.json"
MAKE_QUERIES = QUERIES.with_name("make_queries.py")
RULES_TEST = RULES.with_name("rules_test.yaml")
README = CONTRIB / "README.md"
RUNBOOK = "https://github.com/id-gen/id_gen/blob/main/docs/operations.md#"

TYPES = {"COUNTER": "counter", "GAUGE": "gauge", "HISTOGRAM": "histogram"}
PARTS_OF_A_HISTOGRAM = ("_bucket", "_sum", "_count")
METRIC = re.compile(r"\bid_gen_\w+")
DAY = 86400

# Grafana's variables, with values as Grafana puts them in.
VARIABLES = {"$instance": ".+", "$__rate_interval": "10s", "$__interval": "10s"}

# What nothing happens to here, but where a test makes it happen.
QUIET = {"IdGenRefusing", "IdGenReservationFailing", "IdGenLayoutEnding", "IdGenNoData"}
QUIET |= {"IdGenGrantRunningOut", "IdGenRegistryUnreachable", "IdGenRegistrarMissing"}
QUIET |= {"IdGenNumberLost", "IdGenRegistryRestored", "IdGenTicketsEnding", "IdGenTicketsRefused"}


def queries() -> dict[str, Any]:
    return yaml.safe_load(QUERIES.read_text())


def declared() -> dict[str, str]:
    """The metrics that queries.yaml makes, and their types."""
    found = {}
    for beginning, query in queries().items():
        for column in query["metrics"]:
            for name, about in column.items():
                if about["usage"] != "LABEL":
                    found[f"{beginning}_{name}"] = TYPES[about["usage"]]
    return found


def alerts() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def dashboard() -> dict[str, Any]:
    return json.loads(DASHBOARD.read_text())


def drawn() -> list[str]:
    """The expressions that the dashboard asks Prometheus."""
    found = [target["expr"] for panel in dashboard()["panels"] for target in panel["targets"]]
    found += [each["expr"] for each in dashboard()["annotations"]["list"] if "expr" in each]
    for name, value in VARIABLES.items():
        found = [expression.replace(name, value) for expression in found]
    return list(dict.fromkeys(found))


def used(expression: str) -> set[str]:
    """The metrics that an expression names: not the strings in it. One that selects by pattern uses those declared."""
    selected = re.search(r'__name__=~"([^"]*)"', expression)
    if selected:
        return {name for name, kind in declared().items() if kind != "histogram" and re.fullmatch(selected[1], name)}
    return set(METRIC.findall(re.sub(r'"[^"]*"', "", expression)))


@pytest.fixture(scope="module")
def server() -> Iterator[Cluster]:
    with Cluster("watched", conf=f"{GENERATING}id_gen.layout = '{NARROW_LAYOUT}'\n") as cluster:
        for sql in re.findall(r"^```sql\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL):
            cluster.psql(sql)
        first_id(cluster)
        cluster.psql("CREATE SEQUENCE invoice; SELECT ticket_next('invoice')")
        cluster.poll_until("SELECT keeper_pid IS NOT NULL FROM id_gen_status()")
        yield cluster


@pytest.fixture(scope="module")
def exporter(server: Cluster) -> Iterator[Exporter]:
    with Exporter(server, "prometheus") as exporter:
        yield exporter


@pytest.fixture(scope="module")
def etcd() -> Iterator[Etcd]:
    with Etcd() as etcd:
        yield etcd


@pytest.fixture(scope="module")
def member(etcd: Etcd) -> Iterator[Cluster]:
    """A server of a fleet."""
    with Cluster("member", conf=member_conf(etcd.endpoints)) as cluster:
        create_fleet(cluster)
        await_number(cluster)
        cluster.psql("CREATE SEQUENCE invoice; SELECT ticket_share('invoice'); SELECT ticket_next('invoice')")
        yield cluster


@pytest.fixture(scope="module")
def members_exporter(member: Cluster) -> Iterator[Exporter]:
    with Exporter(member, "postgres") as exporter:
        yield exporter


@pytest.fixture(scope="module")
def prometheus(server: Cluster, exporter: Exporter, members_exporter: Exporter) -> Iterator[Prometheus]:
    with Prometheus(server, exporter, members_exporter) as prometheus:
        yield prometheus


@pytest.fixture
def scrape(exporter: Exporter) -> Samples:
    return exporter.scrape()


@pytest.fixture
def members_scrape(members_exporter: Exporter) -> Samples:
    return members_exporter.scrape()


@pytest.mark.long
def test_every_series_is_there(scrape: Samples, members_scrape: Samples) -> None:
    ours = {name: kind for name, kind in members_scrape.types.items() if name.startswith("id_gen_")}
    assert ours == declared()
    without_fleet = {name for name in scrape.types if name.startswith("id_gen_")}
    assert without_fleet == {name for name in declared() if not name.startswith("id_gen_fleet_")}
    for each in (scrape, members_scrape):
        assert set(each.of("pg_exporter_user_queries_load_error").values()) == {0}
        assert set(each.of("pg_exporter_last_scrape_error").values()) == {0}


def test_every_column_of_the_views_is_a_metric(server: Cluster, tmp_path: Path) -> None:
    made = tmp_path / "queries.yaml"
    command = [sys.executable, MAKE_QUERIES, f"--dsn={server.conninfo()}", f"--output={made}"]
    subprocess.run(command, check=True)
    assert made.read_text() == QUERIES.read_text(), f"type: scripts/run {MAKE_QUERIES.relative_to(CONTRIB.parent)}"


def test_values_are_plausible(server: Cluster, exporter: Exporter) -> None:
    def has_a_rate() -> bool:
        """After a second in which it has given IDs."""
        server.psql(NEXT)
        return exporter.scrape()["id_gen_server_sequence_use_ratio"] >= 0

    server.wait_until(has_a_rate, "telling its rate")
    scrape = exporter.scrape()
    now = time.time()
    assert scrape["id_gen_ids_total"] >= scrape["id_gen_claims_total"] >= 1
    assert 0 <= scrape["id_gen_lead_seconds"] <= scrape["id_gen_server_max_lead_seconds"] == 5
    assert scrape["id_gen_lead_seconds"] <= scrape["id_gen_largest_lead_seconds"]
    assert 0 <= scrape["id_gen_peak_sequence_use_ratio"] <= 1
    assert 0 <= scrape["id_gen_server_sequence_use_ratio"] < 100
    assert scrape["id_gen_reservation_writes_total"] >= 1
    assert scrape["id_gen_reservation_failures_total"] == 0
    slowest = float(server.psql("SELECT slowest_reservation_write FROM id_gen_stat")) / 1000
    assert slowest / 100 < scrape["id_gen_slowest_reservation_write_seconds"] <= slowest
    assert now - 3600 < scrape["id_gen_stats_reset_timestamp_seconds"] <= now + 1
    assert scrape["id_gen_server_ready"] == 1
    assert abs(scrape["id_gen_server_frontier_timestamp_seconds"] - now) < 60
    assert 0 < scrape["id_gen_server_reserved_until_timestamp_seconds"] - now < 60
    # 41 bits of milliseconds since 2024.
    assert 60 * 365 * DAY < scrape["id_gen_server_exhausted_timestamp_seconds"] - now < 70 * 365 * DAY
    assert scrape["id_gen_server_clock_synchronized"] in (0, 1)
    (worker,) = scrape.of("id_gen_worker_info")
    assert 'worker_id="1"' in worker
    assert f'layout="{NARROW_LAYOUT}"' in worker
    assert scrape["id_gen_keeper_running"] == 1
    assert 0 <= scrape["id_gen_keeper_heartbeat_age_seconds"] < 30


@pytest.mark.long
def test_values_of_a_member_are_plausible(member: Cluster, members_exporter: Exporter) -> None:
    before = members_exporter.scrape()
    member.poll_until(f"SELECT renewals > {before['id_gen_fleet_renewals_total']} FROM id_gen_stat_fleet")
    scrape = members_exporter.scrape()
    assert scrape["id_gen_fleet_renewals_total"] > before["id_gen_fleet_renewals_total"]
    # A grant reaches ahead of the clock, or of the IDs, by so much.
    assert 0 < scrape["id_gen_fleet_grant_left_seconds"] < GRANT_SECONDS + 5
    assert 0 <= scrape["id_gen_fleet_answer_age_seconds"] < 60
    assert 0 < scrape["id_gen_fleet_last_request_seconds"] <= scrape["id_gen_fleet_slowest_request_seconds"] < 60
    assert scrape["id_gen_fleet_acquisitions_total"] == 1
    assert (scrape["id_gen_fleet_fencings_total"], scrape["id_gen_fleet_restorations_total"]) == (0, 0)
    assert (scrape["id_gen_fleet_error"], scrape["id_gen_fleet_registrar_running"]) == (0, 1)
    assert scrape.of("id_gen_fleet_member_info") == {'{state="holding"}': 1}


def test_a_member_without_a_registrar(etcd: Etcd) -> None:
    """There is one place for a background worker, and one of PostgreSQL's own has it."""
    conf = member_conf(etcd.endpoints, "max_worker_processes = 1")
    with Cluster("crowded", conf=conf) as crowded, Exporter(crowded, "postgres") as exporter:
        crowded.psql("CREATE EXTENSION id_gen")
        assert refusal(crowded).sqlstate == NO_NUMBER
        scrape = exporter.scrape()
    assert scrape["id_gen_fleet_registrar_running"] == 0
    assert math.isnan(scrape["id_gen_fleet_grant_left_seconds"])
    # There was no answer, so it is as old as the server.
    assert 0 < scrape["id_gen_fleet_answer_age_seconds"] < 600


def test_each_check_is_a_series(server: Cluster, scrape: Samples) -> None:
    checks = server.psql("SELECT name FROM id_gen_check()").splitlines()
    assert checks
    assert scrape.of("id_gen_check_status").keys() == {f'{{check="{name}"}}' for name in checks}
    assert 2 not in scrape.of("id_gen_check_status").values(), server.psql("TABLE id_gen_check()")


def test_ids_are_counted(server: Cluster, exporter: Exporter) -> None:
    before = exporter.scrape()
    server.psql("SELECT snowflake_next_array(1000)")
    after = exporter.scrape()
    assert after["id_gen_ids_total"] - before["id_gen_ids_total"] == 1000
    assert after["id_gen_claims_total"] > before["id_gen_claims_total"]


def test_refusals_are_counted_by_cause(server: Cluster, exporter: Exporter) -> None:
    refused = 0

    def is_refused() -> bool:
        nonlocal refused
        try:
            server.psql("SELECT snowflake_next()")
        except SqlError:
            refused += 1
        return refused > 0

    before = exporter.scrape().of("id_gen_refusals_total")
    change(server, "worker_id", -1)
    server.wait_until(is_refused, "refusing without a number")
    change(server, "worker_id", 1)
    first = exporter.scrape()
    after = first.of("id_gen_refusals_total")
    rose = {labels: after[labels] - before[labels] for labels in before if after[labels] != before[labels]}
    assert rose == {'{reason="worker_id"}': refused}
    assert first["id_gen_server_ready"] == 0 or exporter.scrape()["id_gen_server_ready"] == 1
    first_id(server)


def test_tickets_are_counted_by_sequence(server: Cluster, exporter: Exporter) -> None:
    """Also those of another database, and of a sequence that was made again."""
    with server.database("shop") as shop:
        server.psql("CREATE EXTENSION id_gen", shop)
        for _ in range(2):
            server.psql(
                "DROP SEQUENCE IF EXISTS tiny; CREATE SEQUENCE tiny MAXVALUE 5;"
                "SELECT ticket_next('tiny') FROM generate_series(1, 4)",
                shop,
            )
        server.psql("SELECT ticket_next('tiny')", shop)
        with pytest.raises(SqlError):
            server.psql("SELECT ticket_next('tiny')", shop)
        scrape = exporter.scrape()
    labels = '{database="shop",schema="public",sequence="tiny"}'
    told = {name: scrape.of(f"id_gen_tickets_{name}").get(labels) for name in ("issued_total", "refused_total")}
    assert told == {"issued_total": 9, "refused_total": 1}
    assert scrape.of("id_gen_tickets_used_ratio")[labels] == 1


def test_waits_are_a_histogram(server: Cluster, exporter: Exporter) -> None:
    """More IDs than the lead allows: the rest has to wait for the clock."""
    server.psql(array_of(7000))
    scrape = exporter.scrape()
    buckets = [
        (float(re.findall(r'le="(.*)"', labels)[0]), count)
        for labels, count in scrape.of("id_gen_wait_seconds_bucket").items()
    ]
    assert buckets == sorted(buckets)
    bounds, counts = zip(*buckets, strict=True)
    assert list(counts) == sorted(counts)
    assert bounds[-1] == math.inf
    assert counts[-1] == scrape["id_gen_wait_seconds_count"] > 0
    assert all(math.isclose(after, 2 * before) for before, after in zip(bounds, bounds[1:-1], strict=False))
    # Each wait was at most as long as its bucket says, and longer than the bucket before.
    added = [count - before for before, count in zip((0, *counts), counts, strict=False)]
    least = sum(count * bound for count, bound in zip(added, (0, *bounds), strict=False) if count)
    most = sum(count * bound for count, bound in zip(added, bounds, strict=True) if count)
    assert least <= scrape["id_gen_wait_seconds_sum"] <= most
    assert 4 < scrape["id_gen_largest_lead_seconds"] < 6
    assert scrape["id_gen_peak_sequence_use_ratio"] == 1


def test_clock_steps_are_counted() -> None:
    with stepped(-3, NARROW) as (server, _, _), Exporter(server, "postgres") as exporter:
        server.psql(NEXT)
        after = exporter.scrape()
    assert abs(after["id_gen_largest_clock_step_back_seconds"] - 3) < 0.1
    rose = {labels: count for labels, count in after.of("id_gen_clock_steps_total").items() if count}
    assert rose == {'{direction="back"}': 1}
    # It was 3 s at once, and falls with the clock.
    assert 0 < after["id_gen_lead_seconds"] <= 3.1


def test_statistics_can_be_reset(server: Cluster, exporter: Exporter) -> None:
    server.psql("SELECT snowflake_next_array(1000)")
    server.psql("SELECT id_gen_stat_reset()")
    assert exporter.scrape()["id_gen_ids_total"] < 1000


def test_names_follow_the_conventions(exporter: Exporter) -> None:
    text = "".join(line for line in exporter.text().splitlines(keepends=True) if re.match(r"(# \w+ )?id_gen_", line))
    done = promtool("check", "metrics", stdin=text)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert promtool("check", "metrics", stdin=text.replace("_seconds", "_milliseconds")).returncode != 0


@pytest.mark.any_server
def test_rules_are_valid_and_hold_their_own_tests() -> None:
    for arguments in (("check", "rules", RULES), ("test", "rules", RULES_TEST)):
        done = promtool(*arguments)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.any_server
@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: alert["alert"])
def test_an_alert_says_what_to_do(alert: dict[str, Any]) -> None:
    name, says = alert["alert"], alert["annotations"]
    assert name.startswith("IdGen")
    assert alert["labels"]["severity"] in ("critical", "warning")
    assert says["summary"].startswith("{{ $labels.instance }}: ")
    assert says["description"].startswith("Run first: SELECT * FROM id_gen_check();")
    assert says["runbook_url"] == RUNBOOK + name.lower()
    assert f'alertname="{name}"' in RULES_TEST.read_text(), "rules_test.yaml does not say when it comes"


def test_rules_and_dashboard_use_metrics_that_exist(members_scrape: Samples) -> None:
    # What etcd itself tells is not ours.
    watched = (alert["expr"] for alert in alerts() if not alert["expr"].startswith("etcd_"))
    for expression in [*drawn(), *watched]:
        assert used(expression)
        assert used(expression) <= members_scrape.names, expression


@pytest.mark.any_server
def test_every_metric_is_drawn_or_watched() -> None:
    seen = {name for expression in [*drawn(), *(alert["expr"] for alert in alerts())] for name in used(expression)}
    for name in declared():
        assert seen & {name, *(name + part for part in PARTS_OF_A_HISTOGRAM)}, name


@pytest.mark.long
def test_prometheus_takes_the_rules(prometheus: Prometheus) -> None:
    def evaluated() -> list[dict[str, Any]]:
        rules = [rule for group in prometheus.api("rules")["groups"] for rule in group["rules"]]
        return rules if all(rule["lastEvaluation"] > "0002" for rule in rules) else []

    prometheus.cluster.wait_until(evaluated, "watched by every rule", prometheus.log)
    prometheus.cluster.wait_until(lambda: prometheus.ask("id_gen_server_ready"), "scraped", prometheus.log)
    rules = {rule["name"]: rule for rule in evaluated()}
    assert rules.keys() == {alert["alert"] for alert in alerts()}
    assert {rule["health"] for rule in rules.values()} == {"ok"}
    for name in QUIET:
        assert rules[name]["state"] == "inactive", rules[name]


@pytest.mark.long
def test_an_alert_comes_when_its_trouble_does(server: Cluster, prometheus: Prometheus) -> None:
    """A lead as large as it may be, kept up: the alert is pending, with its words filled in."""

    def pending() -> list[dict[str, Any]]:
        server.psql(array_of(1000))
        return [each for each in prometheus.api("alerts")["alerts"] if each["labels"]["alertname"] == "IdGenLeadLarge"]

    server.wait_until(pending, "known for its lead", prometheus.log)
    (alert,) = pending()
    assert re.search(r"^127.0.0.1:\d+: snowflakes run [45]\.?\d*s ahead of the clock$", alert["annotations"]["summary"])


@pytest.mark.long
def test_alerts_come_when_the_fleets_trouble_does(
    member: Cluster, etcd: Etcd, members_exporter: Exporter, prometheus: Prometheus
) -> None:
    """A registry that is silent, one that has forgotten, and a number that is released."""

    def firing(alert: str) -> bool:
        return any(each["labels"]["alertname"] == alert for each in prometheus.api("alerts")["alerts"])

    def counted(name: str) -> float:
        return members_exporter.scrape()[f"id_gen_fleet_{name}"]

    instance = f"{{instance=~'.*:{members_exporter.port}'}}"
    left = f"count_over_time(id_gen_fleet_grant_left_seconds{instance}[1m])"
    member.wait_until(lambda: any(float(each["value"][1]) > 5 for each in prometheus.ask(left)), "scraped")
    member.wait_until(lambda: not firing("IdGenGrantRunningOut"), "free of alerts", prometheus.log)
    with silent(etcd):
        member.wait_until(lambda: firing("IdGenGrantRunningOut"), "known for its grant", prometheus.log)
        member.wait_until(lambda: counted("error") == 1, "in trouble")
        assert counted("failures_total") > 0
        assert counted("grant_left_seconds") < GRANT_SECONDS / 2
        age = counted("answer_age_seconds")
        member.wait_until(lambda: counted("answer_age_seconds") > age, "left alone for longer")
    await_number(member)
    member.wait_until(lambda: counted("error") == 0, "out of trouble")

    etcd.ctl("del", "--prefix", "/id_gen/default/n/")
    member.wait_until(lambda: counted("restorations_total") == 1, "aware of a restored registry")
    member.wait_until(lambda: firing("IdGenRegistryRestored"), "known for its registry", prometheus.log)
    await_number(member)

    member.psql(f"SELECT id_gen_fleet_release({number_of(member)})")
    member.wait_until(lambda: counted("fencings_total") == 1, "fenced")
    member.wait_until(lambda: firing("IdGenNumberLost"), "known for its number", prometheus.log)
    await_number(member)


def test_prometheus_answers_the_dashboard(prometheus: Prometheus) -> None:
    """Every plot shows something; what is compared may also be nothing."""
    assert all(prometheus.ask(each) is not None for each in drawn())
    shown = [each for each in drawn() if ">" not in each]

    def empty() -> list[str]:
        return [each for each in shown if not prometheus.ask(each)]

    prometheus.cluster.wait_until(lambda: not empty(), "drawn", lambda: f"still empty: {empty()}")


@pytest.mark.any_server
def test_dashboard_can_be_imported() -> None:
    """What Grafana wants of a file, as far as it can be told without it."""
    page = dashboard()
    assert page["id"] is None
    assert page["uid"] == "id_gen"
    source, instance = page["templating"]["list"]
    assert (source["type"], source["query"]) == ("datasource", "prometheus")
    uid = f"${{{source['name']}}}"
    assert (instance["name"], instance["datasource"]["uid"]) == ("instance", uid)
    assert used(instance["definition"]) <= declared().keys()
    assert len({panel["id"] for panel in page["panels"]}) == len(page["panels"])
    places: set[tuple[int, int]] = set()
    for panel in page["panels"]:
        assert panel["title"]
        assert panel["description"]
        assert {panel["datasource"]["uid"], *(target["datasource"]["uid"] for target in panel["targets"])} == {uid}
        assert all('instance=~"$instance"}' in target["expr"] for target in panel["targets"])
        at = panel["gridPos"]
        covers = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert max(x for x, _ in covers) < 24
        assert not covers & places, f"{panel['title']} lies on another panel"
        places |= covers


@pytest.mark.any_server
def test_the_page_leads_to_what_is_there() -> None:
    links = re.findall(r"\]\((?!http)([^)#]+)\)", README.read_text())
    assert links
    assert all((README.parent / link).exists() for link in links), links


def test_nothing_logs_errors(server: Cluster, exporter: Exporter, prometheus: Prometheus) -> None:
    """After all of the above."""
    assert not re.findall(r"^.*\b(?:level=(?:warn|error)|err=).*$", exporter.log(), re.MULTILINE)
    assert not re.findall(r"^.*\blevel=error.*$", prometheus.log(), re.MULTILINE)
    errors = re.findall(r"^.* (?:ERROR|FATAL|PANIC): .*$", server.log(), re.MULTILINE)
    expected = ("worker_id", 'sequence "tiny"', 'sequence "public.tiny"', "public.tiny")
    assert [error for error in errors if not any(each in error for each in expected)] == []
