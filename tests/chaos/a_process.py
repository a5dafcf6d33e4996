"""A process for tests of the fork server. Arguments: what it does."""

import asyncio
import atexit
import json
import os
import random
import resource
import signal
import sys
import threading
from pathlib import Path

from chaos.installation.forked import forking, start, streams
from core.runtime.leash import spawn


def end(how: str) -> None:
    """Print, and end in one of many ways."""
    atexit.register(print, "left")
    print("printed", flush=True)
    if how == "raise":
        raise ValueError("raised")
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "tell and kill":
        print("told", file=sys.stderr)
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "interrupt":
        os.kill(os.getpid(), signal.SIGINT)
    if how == "thread":
        threading.Thread(target=late).start()
    sys.exit(int(how) if how.lstrip("-").isdigit() else None if how in ("none", "thread") else how)


def late() -> None:
    """Print, once the main thread is through."""
    threading.main_thread().join()
    print("late", flush=True)


def be() -> None:
    """What it was given, as it began."""
    umask = os.umask(0)
    wakes, dies, breaks = (
        signal.set_wakeup_fd(-1),
        signal.getsignal(signal.SIGCHLD),
        signal.getsignal(signal.SIGINT),
    )
    opened = sorted(int(name) for name in os.listdir("/proc/self/fd"))[:-1]  # but for the one that lists them
    told = {
        "folder": os.getcwd(),
        "umask": umask,
        "files": resource.getrlimit(resource.RLIMIT_NOFILE),
        "arguments": sys.argv,
        "command": sys.orig_argv,
        "signals": [dies == signal.SIG_DFL, breaks == signal.default_int_handler, wakes],
        "open": opened,
        "leads": os.getsid(0) == os.getpid(),
        "is_alone": os.getsid(os.getppid()) == os.getppid(),
    }
    print(json.dumps(told))


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
        case ["be"]:
            be()
        case ["draw"]:
            draw()
        case ["stay"]:
            signal.pause()
        case _:
            asyncio.run(starter())
