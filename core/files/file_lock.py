"""Locks that die with their holder: `flock` on a file, kept by a process or by the program it becomes.

As a program (`exclusive.py FILE SECONDS PROGRAM ARGS…`) it waits for the lock, then turns into PROGRAM, which
holds the lock as long as it lives. Imports nothing of ours: it must start quickly.
"""

import errno
import fcntl
import os
import sys
import time
from pathlib import Path

RETRY_SECONDS = 0.05
EXIT_LOCKED = 75


def acquire(path: Path, seconds_max: float) -> int | None:
    """An open file that holds the lock of `path`, None where another process kept it for `seconds_max`. A
    symbolic link is not followed: in a folder of all users anybody may have put it there."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    deadline = time.monotonic() + seconds_max
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                os.close(descriptor)
                raise
        if time.monotonic() > deadline:
            os.close(descriptor)
            return None
        time.sleep(RETRY_SECONDS)


def is_held(path: Path) -> bool:
    """True where somebody holds the lock of `path`. The look takes a shared lock for a moment, so a process
    that acquires just then has to try twice."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def main() -> None:
    """Become the named program while holding the lock; exit 75 where it could not be had."""
    file, seconds, *argv = sys.argv[1:]
    descriptor = acquire(Path(file), float(seconds))
    if descriptor is None:
        sys.stderr.write(f"{file} is locked by another process\n")
        sys.exit(EXIT_LOCKED)
    os.set_inheritable(descriptor, True)
    os.execv(argv[0], argv)


if __name__ == "__main__":
    main()
