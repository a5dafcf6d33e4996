"""The owner of a fresh installation, and their link."""

from billing.people.links import LINK_MARK, link_url, make_person_code
from billing.people.own_account import record_link
from billing.people.persons import ensure_owner
from billing.tables.tenants import PLATFORM
from core.clock import now_ms
from core.configuration.settings import Settings
from core.sql.database import Database


async def owner_url(db: Database, settings: Settings, name: str) -> str | None:
    """A link that signs the owner of this name in, who is made where the platform has none yet; None: others
    own it, who make links (`parley people link`). That it was made is in the audit log."""
    owner = await ensure_owner(db, name)
    if owner is None:
        return None
    await record_link(db, PLATFORM, owner.person.id)
    code = make_person_code(settings.keyring, owner.person.id, PLATFORM, now_ms())
    return link_url(settings, LINK_MARK, code, PLATFORM)
