"""What requests owe that no grant paid, and what lapsed of grants at their end."""

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"

UNPAID = sa.text(
    """
    INSERT INTO wallet_owed (tenant_id, request_id, owed_nano)
    SELECT cost.tenant_id, cost.request_id, cost.nano - COALESCE(paid.nano, 0)
    FROM (
        SELECT line.tenant_id, line.request_id, SUM(line.amount_nano) AS nano
        FROM usage_line line
        JOIN usage_line first ON first.tenant_id = line.tenant_id AND first.request_id = line.request_id
            AND first.number = 0
        WHERE line.tenant_id = :tenant AND line.kind IN ('usage', 'adjust') AND first.seq > :opened
        GROUP BY line.tenant_id, line.request_id
    ) cost
    LEFT JOIN (
        SELECT request_id, SUM(amount_nano) AS nano FROM wallet_use
        WHERE tenant_id = :tenant GROUP BY request_id
    ) paid ON paid.request_id = cost.request_id
    WHERE cost.nano - COALESCE(paid.nano, 0) > 0
    """
)
PAID = sa.text("SELECT COALESCE(SUM(amount_nano), 0) FROM wallet_use WHERE tenant_id = :tenant")


def upgrade() -> None:
    """What is owed by now is found in the books; what lapsed by now stays so."""
    op.create_table(
        "wallet_owed",
        sa.Column("tenant_id", sa.String(), primary_key=True),
        sa.Column("request_id", sa.String(), primary_key=True),
        sa.Column("owed_nano", sa.BigInteger(), nullable=False),
    )
    op.add_column("wallet", sa.Column("owed_term", sa.String(), nullable=False, server_default="next_grant"))
    op.add_column(
        "wallet_grant", sa.Column("lapsed_nano", sa.BigInteger(), nullable=False, server_default="0")
    )
    op.create_index(
        "ix_wallet_grant_lapsed",
        "wallet_grant",
        ["tenant_id", "expires_ms"],
        sqlite_where=sa.text("lapsed_nano > 0"),
        postgresql_where=sa.text("lapsed_nano > 0"),
    )
    connection = op.get_bind()
    wallets = connection.execute(sa.text("SELECT tenant_id, opened_line_seq, posted_nano FROM wallet")).all()
    for tenant, opened, posted_nano in wallets:
        if connection.execute(PAID, {"tenant": tenant}).scalar_one() != posted_nano:
            connection.execute(UNPAID, {"tenant": tenant, "opened": opened})
