"""How much of the processors a worker takes while it starts in another's place: less than who works.

A start is seconds of imports and of loading; beside it, on the same cores, the others take over what a dead
worker had. Linux shares its cores out between sessions first (autogroups, sched(7)), so that is what is set,
and what anyone may set back; where there are none, nothing is changed.
"""

import os
import time
from pathlib import Path

MODEST, EQUAL = 3, 0  # as nice(2) counts: half of the weight of others
TRIES = 5
RETRY_SECONDS = 0.11  # the kernel takes one change in a tenth of a second from those without privileges


def lower_cpu_share(pid: int) -> bool:
    """From now on this leader of a session, and what it starts, has a small share. False: there are no
    shares to set."""
    return _set(pid, MODEST)


def restore_cpu_share() -> bool:
    """From now on this process's session has an equal share again. May block for half a second."""
    return os.getsid(0) == os.getpid() and _set(os.getpid(), EQUAL)


def _set(pid: int, nice: int) -> bool:
    for _ in range(TRIES):
        try:
            Path(f"/proc/{pid}/autogroup").write_text(str(nice))
        except BlockingIOError:
            time.sleep(RETRY_SECONDS)
        except OSError:
            return False
        else:
            return True
    return False
