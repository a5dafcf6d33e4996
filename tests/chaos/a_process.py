"""A process for tests of the nursery. Arguments: what it does."""

import asyncio
import atexit
import os
import random
import signal
import sys
from pathlib import Path

from chaos.forked import forking, start, streams
from core.leash import spawn


def end(how: str) -> None:
    """Print, and end in one of many ways."""
    atexit.register(print, "left")
    print("printed", flush=True)
    if how == "raise":
        raise ValueError("raised")
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    sys.exit(int(how) if how.isdigit() else how)


def draw() -> None:
    """A random number, and the settings that it sees."""
    print(random.getrandbits(64), *sorted(name for name in os.environ if name.startswith("PARLEY_")))


async def starter() -> None:
    """One fork with a leash and one without; stays."""
    stay = [sys.executable, "-m", "tests.chaos.a_process", "stay"]
    nothing = Path(os.devnull)
    with forking(), streams(nothing, nothing) as three:
        leashed = await spawn(stay, os.environ, nothing)
        alone = await start(stay, os.environ, three).begun()
        print("begun", flush=True)
        await asyncio.gather(leashed.wait(), alone.wait())


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["end", how]:
            end(how)
        case ["draw"]:
            draw()
        case ["stay"]:
            signal.pause()
        case _:
            asyncio.run(starter())
