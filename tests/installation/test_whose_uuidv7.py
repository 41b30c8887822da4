"""Whose function a call gets where PostgreSQL has one of the same name: its own, unless the schema is named."""

from collections.abc import Iterator

import pytest

from harness import Cluster

# Names are looked up without the library, and nothing is preloaded here.
pytestmark = pytest.mark.any_mode

SINCE = {"uuidv7()": 18, "uuidv7(interval)": 18, "uuid_extract_version(uuid)": 17, "uuid_extract_timestamp(uuid)": 17}
SCHEMA_OF = "SELECT pronamespace::regnamespace FROM pg_proc WHERE oid = '{name}'::regprocedure"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        yield cluster


@pytest.mark.parametrize("name", SINCE)
def test_without_a_schema_the_servers_own(cluster: Cluster, name: str) -> None:
    owner = "pg_catalog" if cluster.server.version >= SINCE[name] else "public"
    assert cluster.psql(SCHEMA_OF.format(name=name)) == owner


@pytest.mark.parametrize("name", SINCE)
def test_with_pg_catalog_last_ours(cluster: Cluster, name: str) -> None:
    sql = f"SET search_path = public, pg_catalog; {SCHEMA_OF.format(name=name)}"
    assert cluster.psql(sql) == "public"


def test_a_default_is_whose_it_names(cluster: Cluster) -> None:
    cluster.psql("CREATE TABLE item (id uuid DEFAULT uuidv7())")
    cluster.psql("ALTER TABLE item ALTER COLUMN id SET DEFAULT public.uuidv7()")
    default = "SET search_path = ''; SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef"
    assert cluster.psql(default) == "public.uuidv7()"
