"""Actions that a command calls in a package above its own, found by name through entry points.

Billing revokes a key, for instance, and calls the engine's action that ends the requests of that key.
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
