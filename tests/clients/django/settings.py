"""Django's settings; the test says in PGHOST where the server is, and in APP which app it is about."""

import os

INSTALLED_APPS = [os.environ["APP"]]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": os.environ["PGHOST"],
        "USER": "shop",
        "NAME": os.environ["APP"],
    }
}
SECRET_KEY = "of no use"
USE_TZ = True
