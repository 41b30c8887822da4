"""The recipes of docs/clients.md for Django."""

from django.db import connection

from shop.models import Customer, Purchase


def add_customer(name: str) -> int:
    return Customer.objects.create(name=name).pk


def add_customers(names: list[str]) -> list[Customer]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT snowflake_next_array(%s)", [len(names)])
        [keys] = cursor.fetchone()
    return Customer.objects.bulk_create(Customer(id=key, name=name) for key, name in zip(keys, names, strict=True))


def add_purchases(customers: list[Customer]) -> list[Purchase]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT uuidv7() FROM generate_series(1, %s)", [len(customers)])
        keys = [key for [key] in cursor]
    return Purchase.objects.bulk_create(
        Purchase(id=key, customer=customer) for key, customer in zip(keys, customers, strict=True)
    )
