"""A sender for tests to kill; claims end at once. Arguments: home, database."""

import asyncio
import sys
from pathlib import Path

from billing.alerts.outbox import OutboxSender
from core.sql.database import Database
from tests.support.home import settings_in


async def main() -> None:
    """Send until killed."""
    settings = settings_in(Path(sys.argv[1]), database_url=sys.argv[2], alert_private_targets=True)
    database = Database(settings.database_endpoint)
    await OutboxSender(database, settings, claim_ms=1).run(asyncio.Event())


if __name__ == "__main__":
    asyncio.run(main())
