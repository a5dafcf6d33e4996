"""Rows of msgpack as Lua packs them: its texts are any bytes (msgspec's are UTF-8)."""

import struct

import msgspec


def packed_row(*parts: bytes) -> msgspec.Raw:
    """One row of such texts."""
    texts = b"".join(b"\xdb" + struct.pack(">I", len(part)) + part for part in parts)
    return msgspec.Raw(bytes([0x90 | len(parts)]) + texts)


def read_row(row: msgspec.Raw) -> list[bytes]:
    """The texts of a row of at most 15, each of less than 2^16 bytes, however Lua chose to pack them."""
    data = bytes(row)
    found, at = list[bytes](), 1
    for _ in range(data[0] & 0x0F):
        head = data[at]
        width = {0xD9: 1, 0xDA: 2, 0xDB: 4}.get(head, 0)
        size = int.from_bytes(data[at + 1 : at + 1 + width], "big") if width else head & 0x1F
        at += 1 + width
        found.append(data[at : at + size])
        at += size
    return found
