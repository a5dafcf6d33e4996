"""What this installation's gateways admit, as its settings and its database say."""

from billing.booking.admissions import Admissions
from billing.booking.installation_marks import unsealed_until_ms
from billing.tables.tenants import SEALED_SINCE
from core.configuration.settings import Settings
from core.sql.database import Database


async def admissions_of(db: Database, settings: Settings) -> Admissions:
    """For who reads what ended."""
    until_ms = await unsealed_until_ms(db, settings, SEALED_SINCE)
    return Admissions(settings.admission_keys, until_ms, settings.deadline_bulk_ms)
