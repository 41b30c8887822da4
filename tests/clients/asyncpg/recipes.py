"""The recipes of docs/clients.md for asyncpg."""

from asyncpg import Connection


async def add_customer(connection: Connection, name: str) -> int:
    return await connection.fetchval("INSERT INTO customer (name) VALUES ($1) RETURNING id", name)


async def add_customers(connection: Connection, names: list[str]) -> list[int]:
    query = "INSERT INTO customer (name) VALUES ($1) RETURNING id"
    return [row["id"] for row in await connection.fetchmany(query, [[name] for name in names])]


async def add_customers_and_forget(connection: Connection, names: list[str]) -> None:
    await connection.executemany("INSERT INTO customer (name) VALUES ($1)", [[name] for name in names])


async def copy_customers(connection: Connection, names: list[str]) -> None:
    await connection.copy_records_to_table("customer", columns=["name"], records=[[name] for name in names])


async def copy_customers_with_keys(connection: Connection, names: list[str]) -> list[int]:
    keys = await connection.fetchval("SELECT snowflake_next_array($1)", len(names))
    rows = zip(keys, names, strict=True)
    await connection.copy_records_to_table("customer", columns=["id", "name"], records=rows)
    return keys
