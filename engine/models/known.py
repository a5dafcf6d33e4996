"""How a worker comes to know its model: its supervisor, which reads it from SQL, says so."""

import msgspec
from sqlalchemy.exc import SQLAlchemyError

from core.configuration.settings import Settings
from core.errors import StartupError
from core.observability.error_facts import error_summary
from core.observability.telemetry import RepeatedWarning, logger
from core.sql.database import Database
from engine.models.registry import ModelRecord, resolve

RECORD = "PARLEY_MODEL_RECORD"

log = logger(__name__)
away = RepeatedWarning(log)


class KnownModel:
    """The model that a supervisor's workers run; where the database is away, as it was last known."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._last: ModelRecord | None = None

    async def read(self) -> ModelRecord:
        """Before each start of a worker. StartupError where nobody registered it."""
        try:
            self._last = await registered(self._settings)
        except (SQLAlchemyError, OSError) as error:
            if self._last is None:
                raise StartupError(f"the database says no model: {error_summary(error)}") from error
            away.warning(
                "models.read_failed", consequence="the model is as last known", error=error_summary(error)
            )
        return self._last


async def registered(settings: Settings) -> ModelRecord:
    """The model of PARLEY_MODEL, as it stands in SQL. StartupError where it does not."""
    db = Database(settings.database_endpoint)
    try:
        record = await resolve(db, settings.model)
    finally:
        await db.close()
    if record is None:
        raise StartupError(f"the model {settings.model} is not registered: add it with `parley models`")
    return record


def record_of(text: str) -> ModelRecord:
    """A line of `parley models list --json`. StartupError for any other text."""
    try:
        return msgspec.json.decode(text, type=ModelRecord, dec_hook=lambda kind, value: kind(value))
    except (msgspec.MsgspecError, TypeError, RecursionError) as error:
        raise StartupError("a model's record is a line of `parley models list --json`") from error
