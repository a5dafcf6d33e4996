"""The installation that a command is for: this machine's, or another one, over its API (`parley --url`).

Held in a context variable. What does not run over the API is refused there, so that nobody changes this
machine's installation where they named another.
"""

import copy
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

import click

from core.errors import StartupError

LOCAL_ONLY = "runs on the installation's machine alone: leave out --url (PARLEY_API_URL)"

Callback = TypeVar("Callback", bound=Callable[..., Any])


@dataclass(frozen=True)
class ApiAddress:
    """A console's URL, and the file with the service token (None: PARLEY_TOKEN has it)."""

    url: str
    token_file: str | None = None


_current: ContextVar[ApiAddress | None] = ContextVar("api_address", default=None)


def api_address() -> ApiAddress | None:
    """Where the command goes; None: this machine's installation."""
    return _current.get()


@contextmanager
def over_api(address: ApiAddress) -> Generator[None]:
    """Run the commands of the block over this API."""
    token = _current.set(address)
    try:
        yield
    finally:
        _current.reset(token)


def require_local(what: str = "this") -> None:
    """Raise StartupError for something that the API does not do, where another installation is named."""
    if api_address() is not None:
        raise StartupError(f"{what} {LOCAL_ONLY}")


def runs_over_api(callback: Callback) -> Callback:
    """Mark a command's function: it performs operations alone, or needs no installation."""
    setattr(callback, RUNS_OVER_API, True)
    return callback


RUNS_OVER_API = "__over_api__"


def only_over_api(command: click.Command, path: str) -> click.Command:
    """The command, with all that does not run over the API refusing. `path`: as it is typed."""
    changed = copy.copy(command)
    if isinstance(changed, click.Group):
        changed.commands = {
            name: only_over_api(each, f"{path} {name}") for name, each in changed.commands.items()
        }
    elif not hasattr(command.callback, RUNS_OVER_API):
        changed.callback = _refusing(path)
    return changed


def _refusing(path: str) -> Callable[..., NoReturn]:
    def refuse(**_given: Any) -> NoReturn:
        raise StartupError(f"`{path}` {LOCAL_ONLY}")

    return refuse
