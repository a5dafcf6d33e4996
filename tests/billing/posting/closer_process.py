"""A process for tests to kill that closes the months that are due, again and again. Arguments: home, Redis,
database."""

import asyncio
import sys
from pathlib import Path

from billing.posting.month_ends import close_due_months
from core.redis.client import connect
from core.sql.database import Database
from tests.support.home import settings_in


async def main() -> None:
    """Close until killed."""
    settings = settings_in(Path(sys.argv[1]), redis_url=sys.argv[2], database_url=sys.argv[3])
    database, redis = Database(settings.database_endpoint), connect(settings)
    while True:
        await close_due_months(database, redis, settings)


if __name__ == "__main__":
    asyncio.run(main())
