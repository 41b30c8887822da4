"""The models of docs/clients.md for Django."""

from django.db import models
from django.db.models import Func


class Customer(models.Model):
    id = models.BigIntegerField(
        primary_key=True,
        editable=False,
        db_default=Func(function="snowflake_next", output_field=models.BigIntegerField()),
    )
    name = models.TextField()


class Purchase(models.Model):
    id = models.UUIDField(
        primary_key=True,
        editable=False,
        db_default=Func(function="uuidv7", output_field=models.UUIDField()),
    )
    customer = models.ForeignKey(Customer, on_delete=models.CASCADE)
