"""A supervisor's knowledge of the model that its workers run: it reads SQL and hands the record to them."""

import msgspec
from sqlalchemy.exc import SQLAlchemyError

from billing.pools import read_pools
from core.configuration.settings import Settings
from core.errors import StartupError
from core.observability.error_facts import error_summary
from core.observability.telemetry import RepeatedWarning, logger
from core.sql.database import Database, revision_of
from engine.models.registry import ModelRecord, find_version, resolve

RECORD = "PARLEY_MODEL_RECORD"

log = logger(__name__)
repeated = RepeatedWarning(log)


class KnownModel:
    """The models of a supervisor's workers; the last known records where the database is away."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._last = dict[str, ModelRecord]()

    async def read(self, version: str = "") -> ModelRecord:
        """Read the record before each start of a worker. `version`: without one the version that the pool has
        in use. StartupError where nobody registered it."""
        try:
            record = await registered(self._settings, version)
        except (SQLAlchemyError, OSError) as error:
            last = self._last.get(version)
            if last is None:
                raise StartupError(f"the database says no model: {error_summary(error)}") from error
            repeated.warning(
                "models.read_failed", consequence="the model is as last known", error=error_summary(error)
            )
            return last
        self._last[version] = self._last[record.version] = record
        return record


async def registered(settings: Settings, version: str = "") -> ModelRecord:
    """A version of the model of this process's pool, by default the one in use. StartupError where there is
    none."""
    db = Database(settings.database_endpoint)
    try:
        await revision_of(db)  # refuses a database of before 0.1.0
        record = await model_of_pool(db, settings, version)
    finally:
        await db.close()
    if record is None:
        named = f"version {version} of the model" if version else "the model"
        raise StartupError(
            f"{named} of pool {settings.pool} ({settings.model}, unless the pool has a row) is not "
            "registered: add it with `parley models`"
        )
    return record


async def model_of_pool(db: Database, settings: Settings, version: str = "") -> ModelRecord | None:
    """A version of the pool's model: by default the one that the pool's row has in use, never a newer one;
    without a row the newest of PARLEY_MODEL. None where it is not registered."""
    target = next((each for each in await read_pools(db) if each.pool == settings.pool), None)
    if target is not None:
        return await find_version(db, target.model, version or target.version)
    if version:
        return await find_version(db, settings.model, version)
    return await resolve(db, settings.model)


def record_of(text: str) -> ModelRecord:
    """The model of a line of `parley models list --json`. StartupError for any other text."""
    try:
        return msgspec.json.decode(text, type=ModelRecord, dec_hook=lambda kind, value: kind(value))
    except (msgspec.MsgspecError, TypeError, RecursionError) as error:
        raise StartupError("a model's record is a line of `parley models list --json`") from error
