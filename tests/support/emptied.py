"""One Postgres database for many tests, put back after each: making one from a template takes longer than
most tests."""

import asyncio
from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import asyncpg

from chaos.installation import postgres

T = TypeVar("T")
TRUNCATED_FROM_BYTES = 1_000_000
GONE_MS_MAX = 10_000
# A reset empties what grew in place where that is little, deleting being far cheaper than new files.
PREPARED = f"""
CREATE SCHEMA kept;
DO $$ DECLARE name text; BEGIN
  FOR name IN SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace LOOP
    EXECUTE format('CREATE TABLE kept.%1$I AS SELECT * FROM public.%1$I', name);
  END LOOP;
END $$;
CREATE FUNCTION kept.reset() RETURNS void LANGUAGE plpgsql AS $$ DECLARE name text; BEGIN
  FOR name IN SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace LOOP
    IF pg_relation_size(format('public.%I', name)) > {TRUNCATED_FROM_BYTES} THEN
      EXECUTE format('TRUNCATE public.%I CASCADE', name);
    ELSIF pg_relation_size(format('public.%I', name)) > 0 THEN
      EXECUTE format('DELETE FROM public.%I', name);
    END IF;
  END LOOP;
  FOR name IN SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'kept'::regnamespace LOOP
    IF pg_relation_size(format('kept.%I', name)) > 0 THEN
      EXECUTE format('INSERT INTO public.%1$I SELECT * FROM kept.%1$I', name);
    END IF;
  END LOOP;
END $$;
"""
# Foreign keys and triggers sleep: the order of the tables does not matter, and the kept rows are whole.
RESET = "BEGIN; SET LOCAL session_replication_role = replica; SELECT kept.reset(); COMMIT"
OTHERS_END = """
SELECT pg_terminate_backend(pid, $1) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""


class EmptiedPostgres:
    """A database made from `template_parley`, and one connection to it that stays open."""

    def __init__(self, folder: Path, name: str) -> None:
        self.url = postgres.url(folder, name)
        self._name = name
        self._folder = folder
        self._loop = asyncio.new_event_loop()
        self._connection = self._run(self._opened())

    def reset(self) -> None:
        """Cut everybody else off and put back the rows of a fresh database. Its tables stay: a test that
        changes the schema needs a database of its own."""
        self._run(self._reset())

    def close(self) -> None:
        """End the connection."""
        self._run(self._connection.close())
        self._loop.close()

    def _run(self, what: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(what)

    async def _opened(self) -> asyncpg.Connection:
        await postgres.execute(self._folder, f"CREATE DATABASE {self._name} TEMPLATE template_parley")
        connection = await asyncpg.connect(host=str(self._folder), user="postgres", database=self._name)
        await connection.execute(PREPARED)
        return connection

    async def _reset(self) -> None:
        ended = await self._connection.fetch(OTHERS_END, GONE_MS_MAX)
        assert all(row[0] for row in ended), "a connection to the database of the last test does not end"
        await self._connection.execute(RESET)


@contextmanager
def emptied_postgres(folder: Path, name: str) -> Generator[EmptiedPostgres]:
    """For as long as the block runs, in a database of this name."""
    database = EmptiedPostgres(folder, name)
    try:
        yield database
    finally:
        database.close()
