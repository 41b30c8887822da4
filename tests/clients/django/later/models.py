"""A model from before the extension, and one that takes its keys from it."""

from django.db import models
from django.db.models import Func


class Customer(models.Model):
    name = models.TextField()


class Purchase(models.Model):
    id = models.UUIDField(
        primary_key=True,
        editable=False,
        db_default=Func(function="uuidv7", output_field=models.UUIDField()),
    )
    customer = models.ForeignKey(Customer, on_delete=models.CASCADE)
