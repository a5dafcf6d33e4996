"""Deaths on demand, for crash tests: a process kills itself with SIGKILL where it passes a named point.

Off unless PARLEY_FAILPOINTS names points, as `biller.before_commit` or, for the third pass,
`biller.before_commit:3`; several are separated by commas. It is obeyed only where PARLEY_TEST_CRASHES says
`kill-this-process`; else the process refuses to start. A point kills once in an installation: the file
`crashes/POINT` under PARLEY_HOME says that it did.
"""

import os
import signal
from collections.abc import Mapping
from pathlib import Path

from core.errors import StartupError
from core.runtime import hooks
from core.runtime.failpoints import Failpoint

POINTS = "PARLEY_FAILPOINTS"
CONSENT = "PARLEY_TEST_CRASHES"
CONSENT_VALUE = "kill-this-process"
FOLDER = "crashes"

_left: dict[Failpoint, int] = {}
_folder = Path()


def arm(home: Path, environment: Mapping[str, str]) -> None:
    """Obey PARLEY_FAILPOINTS from now on. Raises StartupError where it cannot be read or must not be set."""
    global _folder
    _left.clear()
    hooks.at_failpoint = None
    asked = environment.get(POINTS, "")
    if not asked:
        return
    if environment.get(CONSENT) != CONSENT_VALUE:
        raise StartupError(f"{POINTS} kills this process: it is for crash tests only. Unset it")
    _folder = home / FOLDER
    _left.update(_parsed(asked))
    hooks.at_failpoint = _pass


def fired_points(home: Path) -> set[Failpoint]:
    """The points at which a process of this installation died."""
    folder = home / FOLDER
    return {Failpoint(path.name) for path in folder.iterdir()} if folder.is_dir() else set()


def _parsed(asked: str) -> dict[Failpoint, int]:
    found: dict[Failpoint, int] = {}
    for part in asked.split(","):
        name, _, count = part.strip().partition(":")
        try:
            found[Failpoint(name)] = int(count or 1)
        except ValueError as error:
            known = ", ".join(point.value for point in Failpoint)
            raise StartupError(f"{POINTS}: {part!r} is not POINT or POINT:n with one of {known}") from error
    return found


def _pass(name: str) -> None:
    point = Failpoint(name)
    left = _left.get(point, 0)
    if left:
        _left[point] = left - 1
    if left == 1 and _first(point):
        os.kill(os.getpid(), signal.SIGKILL)


def _first(point: Failpoint) -> bool:
    _folder.mkdir(mode=0o700, exist_ok=True)
    try:
        (_folder / point.value).touch(mode=0o600, exist_ok=False)
    except FileExistsError:
        return False
    return True
