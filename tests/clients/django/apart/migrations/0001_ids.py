"""The extension in a schema of its own, which Django's operation has no word for."""

from django.db import migrations


class Migration(migrations.Migration):
    operations = [
        migrations.RunSQL("CREATE SCHEMA IF NOT EXISTS ids", migrations.RunSQL.noop),
        migrations.RunSQL("CREATE EXTENSION IF NOT EXISTS id_gen SCHEMA ids", migrations.RunSQL.noop),
    ]
