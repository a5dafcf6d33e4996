"""The usage API: what a reader takes from others, and learns of them."""

import base64

import msgspec
import pytest

from admin.usage.gate import UsageGate
from core.configuration.settings import Settings
from core.errors import Refused
from core.signing.hidden_numbers import HIDDEN_BYTES, hide_number, reveal_number
from core.signing.signed_text import Keyring
from tests.support.usage_office import OCTOBER, Office, office

__all__ = ["office"]


async def test_a_projects_key_is_not_told_how_busy_the_others_are(office: Office):
    """The books' lines are the whole tenant's: neither the page nor its cursor says their number."""
    reply = await office.get(office.secrets["acme-web"], **OCTOBER, by="user,model", limit=1)
    told = reply.json()
    assert told["as_of_line"] is None
    line = (await office.get(office.secrets["acme"], **OCTOBER)).json()["as_of_line"]
    assert line > 0
    body = base64.urlsafe_b64decode(told["cursor"].partition(".")[0] + "==")
    carried = msgspec.msgpack.decode(body)
    assert line not in carried
    again = (await office.get(office.secrets["acme-web"], **OCTOBER, by="user,model", limit=1)).json()
    other = msgspec.msgpack.decode(base64.urlsafe_b64decode(again["cursor"].partition(".")[0] + "=="))
    assert carried[4] != other[4]
    assert len(carried[4]) == len(other[4]) == HIDDEN_BYTES


def test_what_is_veiled_is_opened_by_our_key_alone() -> None:
    """For its purpose, unchanged; by the key before too."""
    old, new = Keyring(b"o" * 32), Keyring(b"n" * 32, b"o" * 32)
    for number in (0, 1, 24, 2**63):
        hidden = hide_number(number, b"p", old)
        assert (reveal_number(hidden, b"p", old), reveal_number(hidden, b"p", new)) == (number, number)
        assert number.to_bytes(8) not in hidden
    assert reveal_number(hidden, b"q", old) is None
    assert reveal_number(hidden, b"p", Keyring(b"x" * 32)) is None
    assert reveal_number(hidden[:-1] + bytes([hidden[-1] ^ 1]), b"p", old) is None
    assert reveal_number(b"", b"p", old) is None


def test_a_place_is_left_for_who_has_none(settings: Settings) -> None:
    """Two tenants with slow questions do not have all places; each has one, whatever others do."""
    gates = UsageGate(settings.model_copy(update={"usage_reads_max": 4, "usage_reads_per_tenant_max": 4}))
    with gates.turn("a"), gates.turn("a"), gates.turn("b"):
        for greedy in "ab":
            with pytest.raises(Refused) as own, gates.turn(greedy):
                pass
            assert own.value.refusal.code == "rate_limited"
        with gates.turn("c"):
            pass
