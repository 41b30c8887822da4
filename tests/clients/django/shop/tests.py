"""Run by Django's own test runner, in the database that it makes for this."""

import uuid

from django.db import connection
from django.db.models.expressions import DatabaseDefault
from django.test import TestCase

from shop import recipes
from shop.models import Customer, Purchase

NAMES = [f"customer {number}" for number in range(500)]


class Keys(TestCase):
    def test_database_is_the_runners(self) -> None:
        self.assertEqual(connection.settings_dict["NAME"], "test_shop")

    def test_save_reads_the_key_back(self) -> None:
        key = recipes.add_customer("Ada")
        self.assertIs(type(key), int)
        self.assertEqual(Customer.objects.get().pk, key)

        purchase = Purchase(customer_id=key)
        with self.assertNumQueries(1):
            purchase.save()
        self.assertIsInstance(purchase.pk, uuid.UUID)
        self.assertEqual(Purchase.objects.get().pk, purchase.pk)

    def test_bulk_create_with_keys_taken_before(self) -> None:
        with self.assertNumQueries(2):
            customers = recipes.add_customers(NAMES)
        stored = Customer.objects.order_by("pk")
        self.assertEqual([(each.pk, each.name) for each in customers], list(stored.values_list("pk", "name")))
        self.assertEqual([customer.name for customer in customers], NAMES)

        purchases = recipes.add_purchases(customers)
        stored = Purchase.objects.order_by("pk")
        self.assertEqual(
            [(each.pk, each.customer_id) for each in purchases], list(stored.values_list("pk", "customer"))
        )
        self.assertEqual([purchase.customer for purchase in purchases], customers)

    def test_bulk_create_without_keys_stores_them_and_does_not_read_them_back(self) -> None:
        customers = Customer.objects.bulk_create([Customer(name="Ada"), Customer(name="Grace")])
        self.assertEqual(Customer.objects.values("pk").distinct().count(), 2)
        self.assertTrue(all(isinstance(customer.pk, DatabaseDefault) for customer in customers))

    def test_objects_without_keys_pass_for_equal(self) -> None:
        self.assertEqual(Customer(name="Ada"), Customer(name="Grace"))
        self.assertEqual(len({Customer(name="Ada"), Customer(name="Grace")}), 1)
