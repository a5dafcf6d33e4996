"""The link that signs this machine's user in as the installation's owner. The first one is made an owner."""

from sqlalchemy.exc import SQLAlchemyError

from billing.api import Stores, ensure_owner, local_actor, perform
from core.actor import process_user
from core.configuration.settings import Settings
from core.errors import StartupError
from core.operations import registered
from core.redis.client import connect
from core.sql.database import Database, require_schema
from core.sql.store_errors import database_failure


async def owner_link(settings: Settings) -> str:
    """A link, once the audit log has a row for it; empty where others own the installation. Raises
    StartupError where it cannot be recorded."""
    db = Database(settings.database_endpoint)
    try:
        await require_schema(db)
        owner = await ensure_owner(db, process_user())
        if owner is None:
            return ""
        link = registered()["people.link"]
        stores = Stores(settings, db, lambda: connect(settings))
        try:
            done = await perform(stores, local_actor(), link, link.asks(person=owner.person.id))
        finally:
            await stores.redis.aclose()
        return done.answer.link.shown
    except (SQLAlchemyError, OSError) as error:
        raise StartupError(f"no link, since it cannot be recorded: {database_failure(error)}") from error
    finally:
        await db.close()
