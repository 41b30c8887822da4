"""A model whose key comes from an extension that lies in a schema of its own."""

from django.db import models
from django.db.models import Func


class Invoice(models.Model):
    id = models.UUIDField(
        primary_key=True,
        editable=False,
        db_default=Func(function="ids.uuidv7", output_field=models.UUIDField()),
    )
