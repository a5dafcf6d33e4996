"""Alembic's entry: runs the versions on the connection and in the transaction that core.sql.database made.

Runs at import, as alembic's contract has it; nothing else imports it.
"""

from alembic import context

context.configure(connection=context.config.attributes["connection"], transactional_ddl=True)
with context.begin_transaction():
    context.run_migrations()
