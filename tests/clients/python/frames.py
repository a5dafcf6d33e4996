"""Frames as a gateway sends them."""

from hashlib import sha256
from typing import Any

USAGE = {"input": 3, "cached_input": 1, "output": 2, "total": 5}


def delta(a: int, b: int, text: str, at: int, **more: Any) -> dict[str, Any]:
    """A piece of text, which begins at a position."""
    return {"t": "delta", "g": 1, "a": a, "b": b, "x": text, "p": at, **more}


def end(o: int, text: str, **more: Any) -> dict[str, Any]:
    """The end of an answer that is this text."""
    hashed = sha256(text.encode()).hexdigest()
    return {"t": "end", "g": 1, "o": o, "reason": "stop", "h": hashed, "usage": USAGE, "timing": {}} | more
