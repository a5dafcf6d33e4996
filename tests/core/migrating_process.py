"""A process that migrates the database of its argument, beside others."""

import asyncio
import sys

from core.sql.database import migrate

if __name__ == "__main__":
    asyncio.run(migrate(sys.argv[1]))
