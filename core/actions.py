"""What a command may ask of a package above its own: found by its name, as commands are.

A key is revoked in billing, which does not know the engine; that its requests end with it is the engine's.
"""

from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any

from core.errors import StartupError

GROUP = "parley.actions"


def action(name: str) -> Callable[..., Any]:
    """The function that pyproject.toml names. Raises StartupError where the installation is older than it."""
    for entry in entry_points(group=GROUP, name=name):
        return entry.load()
    raise StartupError(f"this installation does not know how to {name}: install Parley anew")
