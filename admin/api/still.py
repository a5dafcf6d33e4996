"""Whether a caller whom something is being sent to may still be: their session, token or role may have ended
since they asked."""

from sqlalchemy.exc import SQLAlchemyError

from billing.api import OperationActor, Stores
from core.errors import Refused
from core.observability.telemetry import logger

log = logger(__name__)


async def may_still(stores: Stores, actor: OperationActor) -> bool:
    """False once the caller's session, token or role has ended. Where the database does not say, they may."""
    if actor.still is None:
        return True
    try:
        async with stores.db.session() as session:
            await actor.still(session)
    except Refused:
        return False
    except (SQLAlchemyError, OSError):
        log.warning("caller.not_looked")
    return True
