"""What strangers say on a WebSocket: frames of every message that clients have, with anything in every field,
and bytes that are no frame. Pure."""

import json
import random
from typing import Any, get_args

import msgspec

from chaos.bench.fuzz.values import Values
from core.ids import uuid7
from server.protocol.messages import ClientMessage

TEXT, BINARY = 0x1, 0x2
OPCODES = (0x0, 0x1, 0x2, 0x8, 0x9, 0xA, 0x3, 0xF)
UNMASKED = b"\0\0\0\0"  # a mask that leaves the payload as it is


class Frames:
    """By one generator. `token`: what lets a hello in."""

    def __init__(self, generator: random.Random, values: Values, token: str) -> None:
        self._random = generator
        self._values = values
        self._token = token
        self._messages: list[Any] = list(get_args(ClientMessage))

    def some(self, binary: bool) -> bytes:
        """A few of one connection, mostly behind a good hello."""
        frames = [self._message(binary) for _ in range(self._random.choice((1, 1, 2, 5, 20)))]
        if self._random.random() < 0.9:
            frames.insert(0, self._packed({"t": "hello", "v": 1, "token": self._token}, binary))
        if self._random.random() < 0.1:
            frames.append(self._raw())
        return b"".join(frames)

    def _message(self, binary: bool) -> bytes:
        if self._random.random() < 0.1:
            return frame(BINARY if binary else TEXT, self._values.any())
        kind = self._random.choice(self._messages)
        said: dict[str, Any] = {"t": kind.__struct_config__.tag, **self._likely()}
        for name in kind.__struct_encode_fields__:
            if name not in said or self._random.random() < 0.3:
                said[name] = self._values.json()
        return self._packed(said, binary)

    def _likely(self) -> dict[str, Any]:
        """Good values of fields that most messages have, so that the others are looked at."""
        likely = {"id": uuid7(1_795_000_000_000), "o": 0, "epoch": 1, "content": "hello", "v": 1}
        return {name: value for name, value in likely.items() if self._random.random() < 0.7}

    def _packed(self, said: dict[str, Any], binary: bool) -> bytes:
        if binary:
            try:
                return frame(BINARY, msgspec.msgpack.encode(said))
            except (OverflowError, UnicodeEncodeError):  # what MessagePack cannot say
                return frame(BINARY, json.dumps(said).encode())
        return frame(TEXT, json.dumps(said).encode())

    def _raw(self) -> bytes:
        data = self._values.any()
        if self._random.random() < 0.5:
            return data
        head = self._random.choice((0x00, 0x40, 0x80)) | self._random.choice(OPCODES)
        return bytes((head,)) + frame(TEXT, data)[1:]


def frame(opcode: int, payload: bytes) -> bytes:
    """A whole frame of a client (RFC 6455, 5.2)."""
    length = len(payload)
    if length < 126:
        head = bytes((0x80 | opcode, 0x80 | length))
    elif length < 1 << 16:
        head = bytes((0x80 | opcode, 0x80 | 126)) + length.to_bytes(2)
    else:
        head = bytes((0x80 | opcode, 0x80 | 127)) + length.to_bytes(8)
    return head + UNMASKED + payload
