"""Messages for operators where Redis or the database fails: which one, where it was looked for, the kind of
error and what to do. Never the store's own text, which quotes passwords, rows and keys. Pure."""

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from core.configuration.settings import Settings
from core.errors import StartupError
from core.observability.error_facts import origin
from core.redis import redis_errors
from core.sql.append_only import SAYS, SQLSTATE

REDIS = (  # by the first kind that it is
    ("AuthenticationError", "the user or the password in PARLEY_REDIS_URL is wrong"),
    (
        "NoPermissionError",
        "its user may not do this: commands come in as parley-operator, and `parley redis acl` writes the "
        "users anew",
    ),
    ("OutOfMemoryError", "its memory is full: give it more (maxmemory)"),
    ("BusyLoadingError", "it still reads its data: try again soon"),
    ("ResponseError", "its log says why"),
)
# SQLSTATE, and SQLite's names.
DATABASE = {
    "28P01": "the user or the password in PARLEY_DATABASE_URL is wrong",
    "28000": "it does not let the user of PARLEY_DATABASE_URL in",
    "3D000": "make the database that PARLEY_DATABASE_URL names",
    "42501": (
        "the role may not do this: commands come in as parley_operator, and `parley db roles` gives each "
        "process what it needs"
    ),
    "42P01": "its tables are missing or old: run `parley db migrate` first",
    "53100": "its disk is full",
    "53300": "it has no connection left: raise its max_connections",
    "57P03": "it is starting or stopping: try again soon",
    "40P01": "others wrote the same: try again",
    "55P03": "somebody else holds what this wants: try again",
    SQLSTATE: SAYS,
    "SQLITE_CONSTRAINT_TRIGGER": SAYS,
    "SQLITE_BUSY": "somebody else has been writing to its file for long: try again",
    "SQLITE_LOCKED": "somebody else has been writing to its file for long: try again",
    "SQLITE_CANTOPEN": "its folder does not exist yet (`parley up` makes it), or cannot be entered",
    "SQLITE_READONLY": "its file cannot be written",
    "SQLITE_FULL": "its disk is full",
    "SQLITE_NOTADB": "its file is no database",
    "SQLITE_CORRUPT": "its file is damaged: take a backup",
}


def redis_failure(error: BaseException, settings: Settings) -> StartupError:
    """The error to raise where Redis could not be asked, or refused."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    todo = next((say for kind, say in REDIS if kind in kinds), "is it running (PARLEY_REDIS_URL)?")
    refused = not kinds.isdisjoint({"AuthenticationError", "ResponseError", "BusyLoadingError"})
    what = "refuses" if refused else "does not answer"
    return StartupError(f"Redis {what} at {settings.redis_shown}: {todo} ({origin(error)})")


def database_failure(error: BaseException, where: str = "") -> StartupError:
    """The error to raise where the database could not be asked, or refused. `where`: its URL without
    secrets."""
    orig = error.orig if isinstance(error, DBAPIError) else None
    codes = (getattr(orig, "sqlstate", None), getattr(orig, "sqlite_errorname", None))
    todo = next((DATABASE[code] for code in codes if code in DATABASE), "")
    refused = todo or (any(codes) and isinstance(error, DBAPIError) and not error.connection_invalidated)
    what = "refuses" if refused else "does not answer"
    at = f" at {where}" if where else ""
    asks = todo or ("its log says why" if refused else "is it running (PARLEY_DATABASE_URL)?")
    return StartupError(f"the database {what}{at}: {asks} ({origin(error)})")


def store_failure(error: BaseException, settings: Settings) -> StartupError | None:
    """The message for an error of either store; None for any other error."""
    if isinstance(error, redis_errors.RedisError):
        return redis_failure(error, settings)
    if isinstance(error, SQLAlchemyError):
        return database_failure(error)
    return None
