"""The schema's history (alembic), one line of versions for all packages. Run by core.database.migrate."""
