"""The models of docs/clients.md for SQLAlchemy."""

import uuid

from sqlalchemy import BigInteger, ForeignKey, Text, func
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Base(DeclarativeBase):
    pass


class Customer(Base):
    __tablename__ = "customer"
    id: Mapped[int] = mapped_column(BigInteger, primary_key=True, server_default=func.snowflake_next(monotonic=True))
    name: Mapped[str] = mapped_column(Text)


class Purchase(Base):
    __tablename__ = "purchase"
    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, server_default=func.uuidv7(monotonic=True))
    customer_id: Mapped[int] = mapped_column(ForeignKey("customer.id"))
