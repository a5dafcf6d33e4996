"""What the server says of a prompt: what a safety policy found in it, by its places in the text as it was
sent, and how much of it a model reads. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class SafetyPromptFlag:
    """`n` code points from `p` on, of the message `m` where several were sent, or of `system`. `action`:
    "redact", model and history got `x` in their stead; "flag", they went through. `scope`: whose policy it
    is."""

    category: str
    action: str
    scope: str
    p: int
    n: int
    x: str | None = None
    m: int | Literal["system"] | None = None


@dataclass(frozen=True)
class SafetyPromptBlock:
    """The place for which a prompt was refused, and whose policy it is."""

    category: str
    scope: str
    p: int
    n: int
    m: int | Literal["system"] | None = None


@dataclass(frozen=True)
class KeptTurns:
    """What of its conversation a prompt has: turns `kept`, the one that was sent too, and `dropped`; `room`:
    tokens that turns may still have before some are dropped."""

    kept: int
    dropped: int
    room: int


@dataclass(frozen=True)
class TooManyTokens:
    """Tokens of what is too large: how many it `has`, and how many would `fit`."""

    has: int
    fit: int


def context_of(accepted: Mapping[str, Any]) -> KeptTurns | None:
    """That of an `accepted` that names it."""
    said = accepted.get("context")
    return None if said is None else KeptTurns(said["kept"], said["dropped"], said["room"])


def tokens_of(error: Mapping[str, Any]) -> TooManyTokens | None:
    """The counts that an `error` names."""
    said = error.get("tokens")
    return None if said is None else TooManyTokens(said["has"], said["fit"])


def flags_of(accepted: Mapping[str, Any]) -> list[SafetyPromptFlag]:
    """Those that an `accepted` names."""
    found: list[SafetyPromptFlag] = []
    for said in accepted.get("flags", ()):
        of = (said["category"], said["action"], said["scope"])
        found.append(SafetyPromptFlag(*of, said["p"], said["n"], said.get("x"), said.get("m")))
    return found


def block_of(error: Mapping[str, Any]) -> SafetyPromptBlock | None:
    """The place that an `error` names."""
    if (said := error.get("safety")) is None:
        return None
    return SafetyPromptBlock(said["category"], said["scope"], said["p"], said["n"], said.get("m"))


def redacted(
    text: str, flags: Sequence[SafetyPromptFlag], message: int | Literal["system"] | None = None
) -> str:
    """The text as model and history got it. `message`: which of several it is, or "system"."""
    pieces, at = list[str](), 0
    for flag in flags:
        if flag.x is not None and flag.m == message:
            pieces += [text[at : flag.p], flag.x]
            at = flag.p + flag.n
    return "".join([*pieces, text[at:]])
