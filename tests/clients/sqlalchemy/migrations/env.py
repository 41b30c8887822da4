"""How Alembic reaches the database, through the URL that the test put into its configuration, and the models."""

from alembic import context
from models import Base
from sqlalchemy import NullPool, create_engine

engine = create_engine(context.config.get_main_option("sqlalchemy.url"), poolclass=NullPool)
with engine.connect() as connection:
    context.configure(connection=connection, target_metadata=Base.metadata, compare_server_default=True)
    with context.begin_transaction():
        context.run_migrations()
