"""SQLAlchemy and Alembic on our IDs, as docs/clients.md shows them; pg_dump carries the tables elsewhere."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata, produce_migrations, render_python_code
from alembic.config import Config
from alembic.migration import MigrationContext
from models import Base, Customer, Purchase
from sqlalchemy import (
    BigInteger,
    Column,
    Engine,
    MetaData,
    Table,
    Text,
    Uuid,
    create_engine,
    event,
    func,
    inspect,
    select,
    text,
)
from sqlalchemy.orm import Session

from clients.shop import DIRECTORY, NAMES, shop_server, stored
from clients.sqlalchemy import recipes
from harness import Cluster

TABLES = ["customer", "purchase"]
EXTENSION = "SELECT extnamespace::regnamespace FROM pg_extension WHERE extname = 'id_gen'"


def url(cluster: Cluster, dbname: str) -> str:
    return f"postgresql+psycopg://shop@/{dbname}?host={cluster.socket_dir}"


@contextmanager
def closing_engine(cluster: Cluster, dbname: str) -> Iterator[Engine]:
    engine = create_engine(url(cluster, dbname))
    try:
        yield engine
    finally:
        engine.dispose()


def migrations(cluster: Cluster, dbname: str) -> Config:
    config = Config()
    config.set_main_option("script_location", str(DIRECTORY / "sqlalchemy/migrations"))
    config.set_main_option("path_separator", "os")
    config.set_main_option("sqlalchemy.url", url(cluster, dbname))
    return config


def differences(engine: Engine, metadata: MetaData, include_schemas: bool) -> list:
    """What Alembic would put into the next migration."""
    options = {"compare_type": True, "compare_server_default": True, "include_schemas": include_schemas}
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts=options)
        return compare_metadata(context, metadata)


def customer_with(default: str) -> MetaData:
    """The metadata of one table whose key has that default."""
    metadata = MetaData()
    key = Column("id", BigInteger, primary_key=True, server_default=text(default))
    Table("customer", metadata, key, Column("name", Text, nullable=False))
    return metadata


@pytest.fixture(scope="module")
def server() -> Iterator[Cluster]:
    with shop_server("sqlalchemy") as cluster:
        command.upgrade(migrations(cluster, "shop"), "head")
        yield cluster


@pytest.fixture
def engine(cluster: Cluster) -> Iterator[Engine]:
    with closing_engine(cluster, "shop") as engine:
        yield engine


def insert(engine: Engine) -> list[uuid.UUID]:
    """Customers, and a purchase of each."""
    with Session(engine) as session:
        customers = recipes.add_customers(session, NAMES)
        purchases = [Purchase(customer_id=customer) for customer in customers]
        session.add_all(purchases)
        session.flush()
        keys = [purchase.id for purchase in purchases]
        session.commit()
    return keys


def rows(engine: Engine) -> list:
    with Session(engine) as session:
        query = select(Customer.id, Customer.name, Purchase.id).join_from(Customer, Purchase)
        return list(session.execute(query.order_by(Customer.id)))


@contextmanager
def inserts(engine: Engine) -> Iterator[list[str]]:
    """The INSERT statements that are sent meanwhile."""
    sent: list[str] = []

    def note(*arguments: object) -> None:
        statement = str(arguments[2])
        if statement.startswith("INSERT"):
            sent.append(statement)

    event.listen(engine, "before_cursor_execute", note)
    try:
        yield sent
    finally:
        event.remove(engine, "before_cursor_execute", note)


@pytest.mark.parametrize(
    "recipe", [recipes.add_customers, recipes.insert_customers, recipes.insert_customers_with_keys]
)
def test_keys_of_many_rows_in_their_order(
    cluster: Cluster, engine: Engine, recipe: Callable[[Session, list[str]], list[int]]
) -> None:
    with inserts(engine) as sent, Session(engine) as session:
        keys = recipe(session, NAMES)
        session.commit()
    assert keys == sorted(set(keys))
    assert stored(cluster, "id || ' ' || name") == [f"{key} {name}" for key, name in zip(keys, NAMES, strict=True)]
    assert len(sent) == 1


def test_uuids_in_the_order_of_their_rows(engine: Engine) -> None:
    keys = insert(engine)
    assert all(key.version == 7 for key in keys)
    assert keys == sorted(set(keys))
    assert [key for *_, key in rows(engine)] == keys


def test_without_the_word_monotonic_rows_go_one_by_one(engine: Engine) -> None:
    table = customer_with("snowflake_next()").tables["customer"]
    with inserts(engine) as sent, engine.begin() as connection:
        statement = table.insert().returning(table.c.id, sort_by_parameter_order=True)
        connection.execute(statement, [{"name": name} for name in NAMES])
    assert len(sent) == len(NAMES)


def test_alembic_check(cluster: Cluster) -> None:
    command.check(migrations(cluster, "shop"))


@pytest.mark.parametrize("include_schemas", [False, True])
def test_autogenerate_finds_nothing(engine: Engine, include_schemas: bool) -> None:
    assert differences(engine, Base.metadata, include_schemas) == []


@pytest.mark.parametrize("include_schemas", [False, True])
@pytest.mark.parametrize(
    ("default", "found"),
    [
        ("snowflake_next()", []),
        # The server leaves out a schema that the search path finds, and Alembic compares texts.
        ("public.snowflake_next()", ["modify_default"]),
        ("0", ["modify_default"]),
    ],
)
def test_autogenerate_compares_defaults_as_text(
    engine: Engine, default: str, found: list[str], include_schemas: bool
) -> None:
    changes = differences(engine, customer_with(default), include_schemas)
    assert [change[0] for group in changes if isinstance(group, list) for change in group] == found


def test_autogenerate_writes_the_defaults(cluster: Cluster) -> None:
    with cluster.database("bare", "shop"), closing_engine(cluster, "bare") as engine, engine.connect() as connection:
        script = produce_migrations(MigrationContext.configure(connection), Base.metadata)
        code = render_python_code(script.upgrade_ops)
    assert "sa.Column('id', sa.BigInteger(), server_default=sa.text('snowflake_next()'), nullable=False)" in code
    assert "server_default=sa.text('uuidv7()')" in code


@pytest.mark.parametrize("include_schemas", [False, True])
def test_a_schema_of_the_extensions_own(cluster: Cluster, include_schemas: bool) -> None:
    metadata = MetaData()
    Table("invoice", metadata, Column("id", Uuid, primary_key=True, server_default=func.ids.uuidv7(monotonic=True)))
    with cluster.database("apart", "shop"), closing_engine(cluster, "apart") as engine:
        with engine.begin() as connection:
            connection.exec_driver_sql((DIRECTORY / "own_schema.sql").read_text())
        assert inspect(engine).get_table_names("ids") == []
        assert differences(engine, metadata, include_schemas) == []
        with engine.begin() as connection:
            [key] = connection.execute(metadata.tables["invoice"].insert()).inserted_primary_key
        assert key.version == 7


def test_tables_made_without_migrations(cluster: Cluster) -> None:
    with cluster.database("made", "shop"), closing_engine(cluster, "made") as engine:
        Base.metadata.create_all(engine)
        insert(engine)
        assert len(rows(engine)) == len(NAMES)


def test_downgrade(cluster: Cluster) -> None:
    with cluster.database("down", "shop"), closing_engine(cluster, "down") as engine:
        command.upgrade(migrations(cluster, "down"), "head")
        assert cluster.psql(EXTENSION, "down") == "public"
        command.downgrade(migrations(cluster, "down"), "base")
        assert inspect(engine).get_table_names() == ["alembic_version"]
        assert cluster.psql(EXTENSION, "down") == "public"
        command.upgrade(migrations(cluster, "down"), "head")


def test_dump_and_restore_into_another_database(cluster: Cluster, engine: Engine, tmp_path: Path) -> None:
    dump = tmp_path / "shop.dump"
    insert(engine)
    cluster.run("pg_dump", "--format=custom", f"--file={dump}", dbname="shop")
    with cluster.database("copy", "shop"), closing_engine(cluster, "copy") as copy:
        cluster.run("pg_restore", "--exit-on-error", "--dbname=copy", dump)
        assert rows(copy) == rows(engine)
        assert sorted(inspect(copy).get_table_names()) == ["alembic_version", *TABLES]
        insert(copy)
        carried = {key for row in rows(engine) for key in (row[0], row[2])}
        keys = {key for row in rows(copy) for key in (row[0], row[2])}
        assert carried < keys and len(keys) == 4 * len(NAMES)
