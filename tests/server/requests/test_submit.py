"""A send's first step: under its caller's rate, or it costs nothing more."""

from types import SimpleNamespace
from typing import Any

import pytest

from billing.api import Principal
from core.errors import Refused
from server.protocol.codes import ErrorCode, refusal
from server.protocol.messages import Send
from server.requests.submit import SendHandler

KEY = Principal("t1", "p1", "k1", "ann", frozenset[str](), "bulk", None, False, "k1")


class Steps:
    """What a send came to, in order; its rate is met from the start on where `full`."""

    def __init__(self, full: bool) -> None:
        self.came_to = list[str]()
        self.full = full
        rates: Any = SimpleNamespace(send=self.rate)
        refusals: Any = SimpleNamespace(note=self.note)
        nobody: Any = None
        self.sends = SendHandler(nobody, rates, refusals, nobody, nobody, nobody, nobody, nobody, nobody)

    def rate(self, _: Principal) -> None:
        """See CallRates."""
        self.came_to.append("rate")
        if self.full:
            raise Refused(refusal(ErrorCode.RATE_LIMITED, "too many sends"))

    def note(self, _: Principal, id: str, user: str, refused: Any) -> None:
        """See RefusalNotes."""
        self.came_to.append(f"note {id} {user} {refused.code}")


@pytest.mark.parametrize(("full", "code"), [(True, "rate_limited"), (False, "forbidden")])
async def test_a_send_over_its_rate_is_counted_as_refused_and_goes_no_further(full: bool, code: str):
    """One under it comes to the next check: its key has no scope to chat. Each is counted once."""
    steps = Steps(full)
    with pytest.raises(Refused) as refused:
        await steps.sends.take(KEY, Send("r"))
    assert refused.value.refusal.code == code
    assert steps.came_to == ["rate", f"note r ann {code}"]
