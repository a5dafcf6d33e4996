"""A `parley` command with its aborts noted: `python -m chaos.bench.session.watched_worker FILE worker`.

FILE gets a line for every abort of a generation: the monotonic nanosecond at which the scripted engine's
`abort` was called.
"""

import sys
import time
from collections.abc import Collection
from pathlib import Path

from chaos.injected import scripted_by
from core.cli import main


def watch(path: Path) -> None:
    """Make the worker's scripted engine write down its aborts."""
    notes = path.open("a", buffering=1)

    class WatchedEngine(scripted_by.ScriptedEngine):
        """Notes the moment, then aborts."""

        async def abort(self, ids: Collection[str]) -> None:
            """See Engine."""
            at = time.monotonic_ns()
            running = self.unfinished()
            notes.writelines(f"{at}\n" for id in ids if id in running)
            await super().abort(ids)

    scripted_by.ScriptedEngine = WatchedEngine  # pyright: ignore[reportPrivateImportUsage]


if __name__ == "__main__":
    watch(Path(sys.argv.pop(1)))
    main()
