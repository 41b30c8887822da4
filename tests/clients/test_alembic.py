"""A stranger's tools on our IDs: Alembic migrates, SQLAlchemy inserts and reads back, pg_dump carries it elsewhere."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import BigInteger, Engine, FetchedValue, ForeignKey, create_engine, inspect, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from harness import GENERATING, Cluster

ROWS = 500


class Base(DeclarativeBase):
    pass


class Customer(Base):
    __tablename__ = "customer"
    id: Mapped[int] = mapped_column(BigInteger, primary_key=True, server_default=FetchedValue())
    name: Mapped[str]


class Purchase(Base):
    __tablename__ = "purchase"
    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, server_default=FetchedValue())
    customer_id: Mapped[int] = mapped_column(ForeignKey("customer.id"))


def url(cluster: Cluster, dbname: str) -> str:
    return f"postgresql+psycopg://postgres@/{dbname}?host={cluster.socket_dir}"


@contextmanager
def closing_engine(cluster: Cluster, dbname: str) -> Iterator[Engine]:
    engine = create_engine(url(cluster, dbname))
    try:
        yield engine
    finally:
        engine.dispose()


def migrations(cluster: Cluster, dbname: str) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.set_main_option("sqlalchemy.url", url(cluster, dbname))
    return config


def insert(engine: Engine) -> tuple[list[int], list[uuid.UUID]]:
    """Inserts through the ORM, which learns the new keys from RETURNING."""
    with Session(engine) as session:
        customers = [Customer(name=f"customer {number}") for number in range(ROWS)]
        session.add_all(customers)
        session.flush()
        purchases = [Purchase(customer_id=customer.id) for customer in customers]
        session.add_all(purchases)
        session.flush()
        keys = [customer.id for customer in customers], [purchase.id for purchase in purchases]
        session.commit()
    return keys


def stored(engine: Engine) -> tuple[list[int], list[uuid.UUID]]:
    with Session(engine) as session:
        return (
            list(session.scalars(select(Customer.id).order_by(Customer.id))),
            list(session.scalars(select(Purchase.id).order_by(Purchase.id))),
        )


@contextmanager
def shop_server() -> Iterator[Cluster]:
    with Cluster(conf=GENERATING) as cluster:
        cluster.psql("CREATE DATABASE shop")
        command.upgrade(migrations(cluster, "shop"), "head")
        yield cluster


def test_migrate_insert_read_back_and_downgrade() -> None:
    with shop_server() as cluster, closing_engine(cluster, "shop") as engine:
        customers, purchases = insert(engine)
        assert len(set(customers)) == len(set(purchases)) == ROWS
        assert all(purchase.version == 7 for purchase in purchases)
        assert stored(engine) == (sorted(customers), sorted(purchases))

        command.downgrade(migrations(cluster, "shop"), "base")
        assert inspect(engine).get_table_names() == ["alembic_version"]
        assert cluster.psql("SELECT count(*) FROM pg_extension WHERE extname = 'id_gen'", "shop") == "0"


def test_dump_and_restore_into_another_database(tmp_path: Path) -> None:
    dump = tmp_path / "shop.dump"
    with (
        shop_server() as cluster,
        closing_engine(cluster, "shop") as shop,
        closing_engine(cluster, "copy") as copy,
    ):
        insert(shop)
        cluster.run("pg_dump", "--format=custom", f"--file={dump}", dbname="shop")
        cluster.psql("CREATE DATABASE copy")
        cluster.run("pg_restore", "--exit-on-error", "--dbname=copy", dump)
        assert stored(copy) == stored(shop)

        carried_customers, carried_purchases = stored(copy)
        customers, purchases = insert(copy)
        assert len({*carried_customers, *customers}) == 2 * ROWS
        assert len({*carried_purchases, *purchases}) == 2 * ROWS
