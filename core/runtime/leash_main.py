"""The leash itself: a tiny parent that holds one command and never lets it outlive the process that starts
it.

Run by path with `python -I -S`, so it imports nothing but what is below. Argument 1 is the read end of the
starter's pipe (its end of file is the starter's death), argument 2 the pipe on which the child's pid or its
failure to start is reported, the rest the command. The command runs in its own session and process group,
and every end is total: the starter dies, or the command exits, and what is left of the group is killed.
"""

import os
import select
import signal
import sys
from collections.abc import Sequence

SIGNALLED = 128
NOT_STARTED = 127
FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def main(starter: int, report: int, command: Sequence[str]) -> int:
    """Hold `command` until it ends; the exit code is its own, 128 + n where signal n ended it."""
    wake_read, wake_write = os.pipe()
    for fd in (wake_read, wake_write):
        os.set_blocking(fd, False)
    for fd in (starter, report):
        os.set_inheritable(fd, False)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, *FORWARDED):
        signal.signal(number, _noted)
    child = os.fork()
    if child == 0:
        _start(report, command)
    os.close(report)
    return _hold(child, starter, wake_read)


def _noted(_number: int, _frame: object) -> None:
    """Do nothing: the signal's number is read from the wake-up pipe, which needs a handler to exist."""


def _start(report: int, command: Sequence[str]) -> None:
    """Run the command in the child: own session, pid reported before anything of the command runs."""
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, *FORWARDED):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        os.write(report, b"%d\n" % os.getpid())
        os.execvp(command[0], list(command))
    except OSError as error:
        os.write(report, f"{command[0]}: {error.strerror}".encode())
    finally:
        os._exit(NOT_STARTED)


def _hold(child: int, starter: int, wake: int) -> int:
    while True:
        ready, _, _ = select.select([starter, wake], [], [])
        if starter in ready and not os.read(starter, 1):
            _kill_group(child)
            return SIGNALLED + signal.SIGKILL
        if wake in ready:
            for number in os.read(wake, 64):
                if number in FORWARDED:
                    os.kill(child, number)
            code = _exit_code(child)
            if code is not None:
                return code


def _exit_code(child: int) -> int | None:
    """Exit code of the child, None while it lives. Kills its group before reaping it: until then the id is
    its."""
    if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        return None
    _kill_group(child)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code if code >= 0 else SIGNALLED - code


def _kill_group(child: int) -> None:
    try:
        os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:  # died before its setsid
        os.kill(child, signal.SIGKILL)
    except PermissionError:  # macOS answers this for a group of zombies
        pass


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
