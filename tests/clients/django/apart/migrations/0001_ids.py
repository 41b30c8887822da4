"""The extension in a schema of its own, which Django's operation has no word for."""

from django.db import migrations


class Migration(migrations.Migration):
    operations = [
        migrations.RunSQL("CREATE SCHEMA ids", "DROP SCHEMA ids"),
        migrations.RunSQL("CREATE EXTENSION id_gen SCHEMA ids", "DROP EXTENSION id_gen"),
    ]
