"""The errors that all packages share: typed refusals for callers, one-line failures for operators."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


class StartupError(Exception):
    """Raised where a process cannot start; its message is one line that tells the operator what to do.
    `facts`: what programs are told beside it, with --json."""

    def __init__(self, message: str = "", facts: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.facts = facts or {}


@dataclass(frozen=True)
class RefusedText:
    """What of a text a safety policy refuses: `n` code points from `p` on, of the text as it was sent; of
    several messages, which, or "system". `scope`: whose policy it is. Never the text itself."""

    category: str
    scope: Literal["platform", "tenant", "project"]
    p: int
    n: int
    message: int | Literal["system"] | None = None


@dataclass(frozen=True)
class TokensThatFit:
    """Tokens of what is too large: how many it `has`, and how many would `fit`."""

    has: int
    fit: int


@dataclass(frozen=True)
class SeeOperation:
    """Where to go on: an operation, like `tenants.list`, what to ask it with, or only its `help`. Commands
    show it as ``see `parley tenants list` ``."""

    operation: str
    ask: Mapping[str, str] = field(default_factory=dict[str, str])
    help: bool = False


@dataclass(frozen=True)
class ChangeSince:
    """A change that somebody did not know of: who made it, when (Unix ms), and the facts that differ."""

    author: str
    at_ms: int
    action: str
    before: Mapping[str, Any]
    after: Mapping[str, Any]


@dataclass(frozen=True)
class Refusal:
    """A typed answer to a caller whose request is refused (docs/protocol.md, "Errors").

    `scope` names whose limit is reached, `dimension` what is counted there, and the numbers are of it: units,
    or nano-USD where money is counted; `resets_at_ms` is Unix ms. `retry`: the same call may work later.
    `text`: what a safety policy refuses; `tokens`: by how much a prompt is too large.

    Of operations: `field` of what was asked is wrong, `see` says where to go on, `unknown`: there is no such
    thing, or it is another's; `changes` were made since the version that the caller knows.
    """

    code: str
    message: str
    retry: bool = False
    after_ms: int | None = None
    scope: str | None = None
    limit: int | None = None
    dimension: str | None = None
    remaining: int | None = None
    spent: int | None = None
    held: int | None = None
    resets_at_ms: int | None = None
    text: RefusedText | None = None
    tokens: TokensThatFit | None = None
    field: str | None = None
    see: SeeOperation | None = None
    unknown: bool = False
    changes: tuple[ChangeSince, ...] = ()


class Refused(Exception):  # noqa: N818  (a refusal is an answer, not a fault)
    """Carries a Refusal to the edge that turns it into an `error` frame or an HTTP status."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(f"{refusal.code}: {refusal.message}")
        self.refusal = refusal


def bad_request(message: str, *, field: str | None = None, see: SeeOperation | None = None) -> Refused:
    """A Refused for a request that is not valid as it stands."""
    return Refused(Refusal("bad_request", message, field=field, see=see))


def unknown(message: str, *, field: str | None = None, see: SeeOperation | None = None) -> Refused:
    """A Refused for a thing that is not there, or belongs to somebody else: nobody learns which."""
    return Refused(Refusal("bad_request", message, field=field, see=see, unknown=True))


def forbidden(message: str, *, see: SeeOperation | None = None) -> Refused:
    """A Refused for what this caller may not do."""
    return Refused(Refusal("forbidden", message, see=see))


def see(operation: str, **ask: str) -> SeeOperation:
    """The operation that helps on, and what to ask it with."""
    return SeeOperation(operation, ask)


def see_help(operation: str) -> SeeOperation:
    """The operation whose help says how."""
    return SeeOperation(operation, help=True)
