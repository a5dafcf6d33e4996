"""A message is one struct, in JSON for people and in msgpack for speed."""

import msgspec
import pytest

from server.protocol import messages as m
from server.protocol.codec import Malformed, Subprotocol, decode, encode

FRAME_BYTES_MAX = 4096


def test_a_frame_is_read_into_a_struct():
    """Both encodings say the same; what is no message says why, and closes nothing by itself."""
    sent = {"t": "attach", "id": "r1", "epoch": 1, "o": 3}
    in_json = decode(msgspec.json.encode(sent).decode(), Subprotocol.JSON, FRAME_BYTES_MAX)
    in_msgpack = decode(msgspec.msgpack.encode(sent), Subprotocol.MSGPACK, FRAME_BYTES_MAX)
    assert in_json == in_msgpack == m.Attach(id="r1", epoch=1, o=3)
    with pytest.raises(Malformed, match="missing required field `id`"):
        decode('{"t": "attach"}', Subprotocol.JSON, FRAME_BYTES_MAX)
    queued = m.Event(g=1, k="queued", o=1)
    assert encode(queued, Subprotocol.JSON) == b'{"t":"event","g":1,"k":"queued","o":1}'
