"""The recipes of SQLAlchemy import `models`, as an application does whose directory is on Python's path."""

import sys

from clients.shop import DIRECTORY

sys.path.append(str(DIRECTORY / "sqlalchemy"))
