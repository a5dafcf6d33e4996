"""A biller for tests to kill; it takes over a dead one's batch at once. Arguments: home, Redis, database."""

import asyncio
import sys
from pathlib import Path

from billing.posting.biller import Biller
from core.redis.client import connect
from core.sql.database import Database
from tests.support.home import settings_in


async def main() -> None:
    """Serve the pool `default` until killed."""
    settings = settings_in(Path(sys.argv[1]), redis_url=sys.argv[2], database_url=sys.argv[3])
    database, redis = Database(settings.database_endpoint), connect(settings)
    await Biller(database, redis, settings, ["default"], claim_idle_ms=1).run(asyncio.Event())


if __name__ == "__main__":
    asyncio.run(main())
