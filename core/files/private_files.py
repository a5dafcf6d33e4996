"""Files of an installation belong to one user: new ones are made so, those of older versions are tightened.

Only Parley's own files are touched: PARLEY_HOME may be a folder that holds other things.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

UMASK = 0o077
OTHERS = 0o077
# Models are no secret, and other users may share them.
MADE = (
    "parley.db*",
    "secret*",
    "up.*",
    "supervisor-*.lock",
    "steps.json",
    "redis",
    "logs",
    "access",
    "crashes",
    "ends",
)


def keep_private(home: Path) -> None:
    """Make this process' new files private to its user, and tighten what is in `home`."""
    os.umask(UMASK)
    made = list(_made_in(home))
    for path in [home, *made] if made else []:
        _tighten(path)


def _made_in(home: Path) -> Iterator[Path]:
    for pattern in MADE:
        for path in home.glob(pattern):
            yield path
            if not path.is_symlink() and path.is_dir():
                for folder, folders, files in os.walk(path):
                    yield from (Path(folder, name) for name in (*folders, *files))


def _tighten(path: Path) -> None:
    """Tighten one file. A link's target, and a file of another user, stay as they are."""
    with suppress(OSError):
        mode = path.lstat().st_mode
        if mode & OTHERS and not path.is_symlink():
            path.chmod(mode & ~OTHERS & 0o7777)
