"""The schema's history (alembic), one line of versions for all packages. Run by core.sql.database.migrate."""
