"""The protocol's messages as TypeScript say what the server's own types say."""

from typing import get_args

import pytest

from scripts.frame_types import frames
from server.protocol.messages import ClientMessage, ServerMessage


def interface(name: str) -> list[str]:
    """What it says, without its comment."""
    return frames().partition(f"export interface {name} {{\n")[2].partition("}")[0].split("\n")[:-1]


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("Hello", "window?: WindowRequest | null;"),  # a client may leave it out
        ("Attach", "o: number;"),
        ("Ack", "a: [number, number][];"),
        ("Accepted", "quota: QuotaLeft;"),  # the server writes it although it has a default
        ("ServerPong", "ts: number | null;"),
        ("Attached", "from: number;"),  # by its name on the wire
        ("Delta", "batch?: number;"),  # left out where there is none, never null
        ("End", "cost?: Cost;"),
        ("Error", "after_ms?: number;"),
    ],
)
def test_a_field_is_there_as_the_struct_says(name: str, field: str):
    """Its name on the wire, what it may be, and whether it may be absent."""
    assert f"  {field}" in interface(name)


@pytest.mark.parametrize("side", [ClientMessage, ServerMessage])
def test_each_message_is_named_by_its_t(side: object):
    """None is forgotten: the unions have them all."""
    for message in get_args(side):
        assert f'  t: "{message.__struct_config__.tag}";' in interface(message.__name__)
        assert f"\n  | {message.__name__}" in frames()
