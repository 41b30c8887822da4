"""The migration an application would write: the extension first, then tables that take their keys from it."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.execute("CREATE EXTENSION IF NOT EXISTS id_gen")
    op.create_table(
        "customer",
        sa.Column("id", sa.BigInteger, primary_key=True, server_default=sa.text("snowflake_next()")),
        sa.Column("name", sa.Text, nullable=False),
    )
    op.create_table(
        "purchase",
        sa.Column("id", sa.Uuid, primary_key=True, server_default=sa.text("uuidv7()")),
        sa.Column("customer_id", sa.BigInteger, sa.ForeignKey("customer.id"), nullable=False),
    )


def downgrade() -> None:
    op.drop_table("purchase")
    op.drop_table("customer")
