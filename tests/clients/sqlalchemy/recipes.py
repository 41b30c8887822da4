"""The recipes of docs/clients.md for SQLAlchemy."""

from models import Base, Customer
from sqlalchemy import DDL, event, func, insert, select
from sqlalchemy.orm import Session


def add_customers(session: Session, names: list[str]) -> list[int]:
    customers = [Customer(name=name) for name in names]
    session.add_all(customers)
    session.flush()
    return [customer.id for customer in customers]


def insert_customers(session: Session, names: list[str]) -> list[int]:
    statement = insert(Customer).returning(Customer.id, sort_by_parameter_order=True)
    return list(session.scalars(statement, [{"name": name} for name in names]))


def insert_customers_with_keys(session: Session, names: list[str]) -> list[int]:
    keys = session.scalar(select(func.snowflake_next_array(len(names))))
    session.execute(insert(Customer), [{"id": key, "name": name} for key, name in zip(keys, names, strict=True)])
    return keys


event.listen(Base.metadata, "before_create", DDL("CREATE EXTENSION IF NOT EXISTS id_gen"))
