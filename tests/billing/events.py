"""Builders of usage events."""

import msgspec

from billing.booking.admissions import seal, sealed_admission_of
from billing.prices.rating import counts_of, rate
from billing.usage import PinnedPrices, UsageEvent, UsageOwner
from core.signing.signed_text import Keyring
from tests.support.home import TEST_SECRET

PRICES = PinnedPrices(
    book="default", version=1, input_nano=100_000_000, cached_input_nano=25_000_000, output_nano=400_000_000
)


def priced(event: UsageEvent) -> UsageEvent:
    """The event with the cost that its own prices give."""
    return msgspec.structs.replace(event, cost_nano=rate(counts_of(event), event.prices)[1])


def an_event(request: str = "r1", tenant: str = "t1", **changes: object) -> UsageEvent:
    """An answer of 7 tokens to 12, rightly priced."""
    event = UsageEvent(
        tenant=tenant,
        request=request,
        pool="default",
        model="smollm2",
        fingerprint="f1",
        owner=UsageOwner(project="p1", key="k1", user="u1", metadata=b'{"label":"x"}'),
        accepted_ms=1_000,
        ended_ms=2_000,
        reason="stop",
        prices=PRICES,
        input_uncached=8,
        input_cached=4,
        output_text=7,
        claims=1,
    )
    return sealed(priced(msgspec.structs.replace(event, **changes)))


def sealed(event: UsageEvent) -> UsageEvent:
    """As admitted for just what it used, by a gateway of the tests."""
    facts = {
        "asked_input": max(0, event.input_uncached + event.input_cached),
        "asked_output": max(0, event.output_text + event.output_reasoning),
    }
    asked = msgspec.structs.replace(event, **facts)
    return msgspec.structs.replace(
        asked, seal=seal(sealed_admission_of(asked), Keyring(TEST_SECRET.encode()))
    )
