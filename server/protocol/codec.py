"""Frames to messages and back, for both subprotocols. Pure.

A frame that is not a message of this protocol raises Malformed, with as much of it as could be read.
"""

import hashlib
import json
import re
from collections.abc import Callable
from enum import StrEnum
from typing import Any

import msgspec

from core.errors import Refusal
from server.protocol.codes import ErrorCode, refusal
from server.protocol.messages import ClientMessage, Send, ServerMessage

ID_CHARACTERS_MAX = 64
SURROGATE = re.compile("[\ud800-\udfff]")


class Subprotocol(StrEnum):
    """The subprotocols the server speaks, the preferred one first."""

    JSON = "parley.v1.json"
    MSGPACK = "parley.v1.msgpack"


class Malformed(Exception):  # noqa: N818  (it becomes an answer)
    """A frame that is refused. `re` and `id` are those of the message, where they could be read."""

    def __init__(self, refused: Refusal, re: str | None = None, id: str | None = None) -> None:
        super().__init__(refused.message)
        self.refusal = refused
        self.re = re
        self.id = id


_json = msgspec.json.Decoder(ClientMessage)
_msgpack = msgspec.msgpack.Decoder(ClientMessage)
_json_out = msgspec.json.Encoder()
_msgpack_out = msgspec.msgpack.Encoder()
_canonical = msgspec.json.Encoder(order="deterministic")


def choose_subprotocol(offered: list[str]) -> Subprotocol | None:
    """The subprotocol to use, None where the client offers none we know."""
    return next((known for known in Subprotocol if known in offered), None)


def encode(message: ServerMessage, subprotocol: Subprotocol) -> bytes:
    """A frame's payload: UTF-8 of a text frame for JSON, of a binary frame for MessagePack."""
    return (_json_out if subprotocol is Subprotocol.JSON else _msgpack_out).encode(message)


def decode(frame: str | bytes, subprotocol: Subprotocol, control_bytes_max: int) -> ClientMessage:
    """The message in a frame. Raises Malformed."""
    text = isinstance(frame, str)
    if text is not (subprotocol is Subprotocol.JSON):
        kind = "text frames in UTF-8" if subprotocol is Subprotocol.JSON else "binary frames"
        raise Malformed(refusal(ErrorCode.BAD_MESSAGE, f"{subprotocol} has {kind} only"))
    parse: Callable[[Any], ClientMessage] = _json.decode if text else _msgpack.decode
    try:
        message = parse(frame)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise _diagnose(frame, error) from None
    if not isinstance(message, Send) and _size(frame) > control_bytes_max:
        name = type_of(message)
        problem = f"{name} is longer than {control_bytes_max} bytes"
        raise Malformed(refusal(ErrorCode.BAD_MESSAGE, problem, limit=control_bytes_max), name)
    return message


def type_of(message: ClientMessage | ServerMessage) -> str:
    """The message's `t`."""
    tag = message.__struct_config__.tag
    assert isinstance(tag, str)
    return tag


def body_hash(canonical: object) -> str:
    """sha-256 (hex) of a parsed body, equal for both encodings and for any order of keys."""
    return hashlib.sha256(_canonical.encode(canonical)).hexdigest()


def _size(frame: str | bytes) -> int:
    """Bytes on the wire, at least. A text frame's characters are counted exactly only where that matters."""
    return len(frame) if isinstance(frame, bytes) or frame.isascii() else len(frame.encode())


def _diagnose(frame: str | bytes, error: Exception) -> Malformed:
    """The fault in a frame that did not parse, for people who write clients."""
    if isinstance(error, RecursionError):
        return Malformed(refusal(ErrorCode.BAD_MESSAGE, "the message is nested too deeply"))
    loose = _loosely(frame)
    if not isinstance(loose, dict):
        problem = "not a JSON object" if isinstance(frame, str) else "not a MessagePack map"
        detail = "" if isinstance(error, msgspec.ValidationError) else f": {error}"
        return Malformed(refusal(ErrorCode.BAD_MESSAGE, f"the frame is {problem}{detail}"))
    re, id = _short(loose.get("t")), _short(loose.get("id"))
    try:
        # A half pair must come as an escape: searching for that alone is quick in a large frame.
        surrogate = (not isinstance(frame, str) or "\\u" in frame) and _has_surrogate(loose)
    except RecursionError:
        return Malformed(refusal(ErrorCode.BAD_MESSAGE, "the message is nested too deeply"), re, id)
    if surrogate:
        problem = "a text holds half of a surrogate pair, which is no Unicode character"
        return Malformed(refusal(ErrorCode.BAD_REQUEST, problem), re, id)
    if re is None:
        return Malformed(refusal(ErrorCode.BAD_MESSAGE, "the message has no type: `t` must be a text"), id=id)
    if str(error).endswith("- at `$.t`"):
        return Malformed(refusal(ErrorCode.BAD_MESSAGE, "no message type of this protocol"), re, id)
    return Malformed(refusal(ErrorCode.BAD_MESSAGE, f"{re}: {explain(error)}"), re, id)


def explain(error: Exception, root: str = "") -> str:
    """A parser's complaint, naming the field: "window.events: expected `int` >= 0"."""
    problem, found, path = str(error).partition(" - at `$")
    problem = problem[:1].lower() + problem[1:]
    where = (root + path.rstrip("`")).lstrip(".") if found else root
    return f"{where}: {problem}" if where else problem


def _loosely(frame: str | bytes) -> Any:
    """The frame by a lenient parser (lone surrogates, bad UTF-8); None where that fails too."""
    try:
        if isinstance(frame, str):
            return json.loads(frame)
        return msgspec.msgpack.decode(frame)
    except (ValueError, RecursionError, msgspec.MsgspecError):
        return None


def _short(value: Any) -> str | None:
    """A short text of the client's that may be repeated to it."""
    if not isinstance(value, str) or len(value) > ID_CHARACTERS_MAX:
        return None
    return value if value.isprintable() else None


def _has_surrogate(value: Any) -> bool:
    match value:
        case str():
            return not value.isascii() and SURROGATE.search(value) is not None
        case list():
            return any(_has_surrogate(item) for item in value)
        case dict():
            return any(_has_surrogate(key) or _has_surrogate(item) for key, item in value.items())
        case _:
            return False
