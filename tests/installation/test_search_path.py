"""Which function a call without a schema gets where PostgreSQL has one of the same name: PostgreSQL's own."""

from collections.abc import Iterator

import pytest

from harness import Cluster
from harness.catalog import functions, twins

SCHEMA_OF = "SELECT pronamespace::regnamespace FROM pg_proc WHERE oid = '{name}'::regprocedure"
# What PostgreSQL came to have, and in which version.
SINCE = {"uuidv7()": 18, "uuidv7(interval)": 18, "uuid_extract_version(uuid)": 17, "uuid_extract_timestamp(uuid)": 17}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        yield cluster


@pytest.fixture(scope="module")
def names(cluster: Cluster) -> list[str]:
    """Every function of the extension, as regprocedure takes it."""
    return [f"{each.bare_name}({', '.join(type for _, type in each.arguments)})" for each in functions(cluster)]


def test_postgresql_has_these_too(cluster: Cluster) -> None:
    assert {name for name, since in SINCE.items() if cluster.server.version >= since} <= set(twins(cluster))


def test_without_a_schema_the_servers_own(cluster: Cluster, names: list[str]) -> None:
    of_both = twins(cluster)
    for name in names:
        owner = "pg_catalog" if name in of_both else "public"
        assert cluster.psql(SCHEMA_OF.format(name=name)) == owner, name


@pytest.mark.long
def test_with_pg_catalog_last_the_extensions(cluster: Cluster, names: list[str]) -> None:
    for name in names:
        sql = f"SET search_path = public, pg_catalog; {SCHEMA_OF.format(name=name)}"
        assert cluster.psql(sql) == "public", name


def test_a_default_keeps_the_schema_that_it_names(cluster: Cluster) -> None:
    cluster.psql("CREATE TABLE item (id uuid DEFAULT uuidv7())")
    cluster.psql("ALTER TABLE item ALTER COLUMN id SET DEFAULT public.uuidv7()")
    default = "SET search_path = ''; SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef"
    assert cluster.psql(default) == "public.uuidv7()"
