"""CPU share of a worker that starts while others work: less than theirs.

A start is seconds of imports and of loading; beside it, on the same cores, other workers take over what a
dead worker had. Linux shares its cores out between sessions first (autogroups, sched(7)), so their share is
set, which any process may set back. Without autogroups nothing is changed.
"""

import os
import time
from pathlib import Path

MODEST, EQUAL = 3, 0  # as nice(2) counts: half of the weight of others
TRIES = 5
RETRY_SECONDS = 0.11  # the kernel takes one change in a tenth of a second from those without privileges


def lower_cpu_share(pid: int) -> bool:
    """Lower the share of this session's leader and its children. False: the system has no such shares."""
    return _set(pid, MODEST)


def restore_cpu_share() -> bool:
    """Give this process's session an equal share again. May block for half a second."""
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
