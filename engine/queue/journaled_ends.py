"""A journal's bytes: frames with length and checksum, so that every whole frame of a damaged file is read.
Pure.

Any process that writes one, even a worker under an attacker's control, can put in nothing but events, which
the biller checks as it checks those of a stream.
"""

import re
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from core.redis.unreadable import Unreadable, read

MAGIC = b"PARLEY ENDS 1\n"
MARK = b"\xf5\xe9"  # before each frame, to find the next whole one behind damage
HEAD = struct.Struct("<2sII")  # MARK, length, checksum of length and payload
STREAM_ID = re.compile(r"([0-9]{1,19}-[0-9]{1,19})?", re.ASCII)
PAYLOAD_BYTES_MAX = (1 << 20) + 4_096  # the biller takes no event above 1 MiB
# Bytes that may be hashed in vain: twice a file's, and those of a few frames. No disk damages so many heads.
FALSE_PER_BYTE, FALSE_FRAMES_MAX = 2, 4


class JournaledEnd(msgspec.Struct, frozen=True, array_like=True):
    """One ended request. `memory` and `id`: the memory of Redis that its event was written to, and its entry
    in the stream there; `event`: as encoded there."""

    tenant: str
    request: str
    memory: str
    id: str
    event: bytes


@dataclass(frozen=True)
class JournalContents:
    """Content of a file. `torn`: bytes at its end of a frame that was never whole; `damaged`: bytes elsewhere
    that are no frame, or not what was written."""

    ends: Sequence[JournaledEnd] = ()
    torn: int = 0
    damaged: int = 0


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(JournaledEnd)


def frame(end: JournaledEnd) -> bytes:
    """An end as a frame of a file."""
    payload = _encoder.encode(end)
    return HEAD.pack(MARK, len(payload), _checksum(len(payload), payload)) + payload


class _FalseFramesError(Exception):
    """The file has more false frames than damage makes."""


def contents(data: bytes) -> JournalContents | Unreadable:
    """Content of a file, in order; Unreadable without a journal's beginning and without a whole frame, or
    with more false frames than damage makes."""
    try:
        return _contents(data)
    except _FalseFramesError:
        return Unreadable("journal", "too many false frames")


def _contents(data: bytes) -> JournalContents | Unreadable:
    ends: list[JournaledEnd] = []
    known = data.startswith(MAGIC)
    damaged, at = 0, len(MAGIC) if known else 0
    for begin, after, payload in _frames(data, at):
        found = read("end", _decoder.decode, payload)
        if isinstance(found, Unreadable) or not STREAM_ID.fullmatch(found.id):
            continue  # its bytes count as damaged with the next whole frame
        damaged += begin - at
        at = after
        ends.append(found)
    if not known and not ends:
        return (
            JournalContents(torn=len(data))
            if MAGIC.startswith(data)
            else Unreadable("journal", "no whole frame")
        )
    rest = len(data) - at
    if _is_torn(data[at : at + HEAD.size], rest):
        return JournalContents(ends, rest, damaged)
    return JournalContents(ends, 0, damaged + rest)


def _frames(data: bytes, at: int) -> Iterator[tuple[int, int, bytes]]:
    """Every whole frame from `at` on: its begin, its end and its payload. Raises _FalseFramesError."""
    budget = FALSE_PER_BYTE * len(data) + FALSE_FRAMES_MAX * PAYLOAD_BYTES_MAX
    while (at := data.find(MARK, at)) >= 0 and at + HEAD.size <= len(data):
        _, length, checksum = HEAD.unpack_from(data, at)
        after = at + HEAD.size + length
        if length > PAYLOAD_BYTES_MAX or after > len(data):
            at += 1
            continue
        payload = data[at + HEAD.size : after]
        if checksum == _checksum(length, payload):
            yield at, after, payload
            at = after
        elif (budget := budget - length) < 0:
            raise _FalseFramesError
        else:
            at += 1


def _is_torn(head: bytes, rest: int) -> bool:
    """True where the `rest` bytes after the last whole frame are the beginning of one."""
    if len(head) < HEAD.size:
        return MARK.startswith(head[:2])
    mark, length, _ = HEAD.unpack(head)
    return mark == MARK and length <= PAYLOAD_BYTES_MAX and HEAD.size + length > rest


def _checksum(length: int, payload: bytes) -> int:
    return zlib.crc32(payload, zlib.crc32(length.to_bytes(4, "little")))
