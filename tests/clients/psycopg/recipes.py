"""The recipes of docs/clients.md for psycopg 3."""

from psycopg import Connection


def add_customer(connection: Connection, name: str) -> int:
    query = "INSERT INTO customer (name) VALUES (%s) RETURNING id"
    return connection.execute(query, [name]).fetchone()[0]


def add_customers(connection: Connection, names: list[str]) -> list[int]:
    query = "INSERT INTO customer (name) VALUES (%s) RETURNING id"
    with connection.cursor() as cursor:
        cursor.executemany(query, [[name] for name in names], returning=True)
        return [result.fetchone()[0] for result in cursor.results()]


def copy_customers(connection: Connection, names: list[str]) -> None:
    with connection.cursor() as cursor, cursor.copy("COPY customer (name) FROM STDIN") as copy:
        for name in names:
            copy.write_row([name])


def copy_customers_with_keys(connection: Connection, names: list[str]) -> list[int]:
    keys = connection.execute("SELECT snowflake_next_array(%s)", [len(names)]).fetchone()[0]
    with connection.cursor() as cursor, cursor.copy("COPY customer (id, name) FROM STDIN") as copy:
        for row in zip(keys, names, strict=True):
            copy.write_row(row)
    return keys
