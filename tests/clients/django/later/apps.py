"""The app that the page calls `shop`, beside the one of that name that begins with the extension."""

from django.apps import AppConfig


class Later(AppConfig):
    name = "later"
    label = "shop"
    default_auto_field = "django.db.models.BigAutoField"
