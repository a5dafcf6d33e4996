"""What a gateway admitted, sealed, so that nobody else can have a tenant billed for anything. Pure.

The gateway seals who asks, for what, under which prices and for how many tokens at most; the seal goes with
the request and its event, and the biller looks at it. So whoever writes Redis, a worker that was taken over
for one, bills no request that was not admitted, none for another tenant, and none beyond what was asked for.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from billing.usage import PinnedPrices, UsageEvent, UsageOwner
from core.configuration.settings import ADMISSION_PURPOSE as PURPOSE
from core.signing.signed_text import Keyring, is_sealed, short_seal

# What clocks differ by; and how long after its deadline a request may end, of an installation that was down.
CLOCKS_DIFFER_MS_MAX = 5 * 60_000
LATE_MS_MAX = 2 * 3_600_000

__all__ = ["PURPOSE", "Admissions", "SealedAdmission", "seal"]


class SealedAdmission(msgspec.Struct, frozen=True, array_like=True):
    """What is sealed, in this order: another one is another seal."""

    tenant: str
    request: str
    model: str
    fingerprint: str
    owner: UsageOwner
    prices: PinnedPrices
    accepted_ms: int
    input_tokens: int
    output_tokens: int


_encoder = msgspec.msgpack.Encoder()


def seal(asked: SealedAdmission, keyring: Keyring) -> bytes:
    """What only a process with the signing secret, or the key for this purpose, can make."""
    return short_seal(_encoder.encode(asked), keyring.key(PURPOSE))


@dataclass(frozen=True)
class Admissions:
    """What a biller takes for admitted. Events without a seal: until `unsealed_until_ms`, of requests from
    before an upgrade. `deadline_ms_max`: the longest that a request may have, from when it was accepted."""

    keys: Sequence[bytes]
    unsealed_until_ms: int = 0
    deadline_ms_max: int = 24 * 3_600_000

    def problem(self, pool: str, event: UsageEvent, now_ms: int) -> str:
        """Why an event on a pool's stream is not to be billed, empty where all is well."""
        if problem := self.strange(pool, event, now_ms) or self._untimely(event, now_ms):
            return problem
        if not event.seal:
            return ""
        if (used := event.input_uncached + event.input_cached) > event.asked_input:
            return f"{used} input tokens where {event.asked_input} were admitted"
        if (used := event.output_text + event.output_reasoning) > event.asked_output:
            return f"{used} output tokens where {event.asked_output} were asked for"
        return ""

    def strange(self, pool: str, event: UsageEvent, now_ms: int) -> str:
        """Why an event on a pool's stream is of no request that was admitted; empty where it is of one,
        whatever it says of how that went."""
        if event.pool != pool:
            return f"it came over pool {pool}"
        if not event.seal:
            return "" if now_ms < self.unsealed_until_ms else "it has no admission"
        good = is_sealed(_encoder.encode(sealed_admission_of(event)), event.seal, self.keys)
        return "" if good else "its admission is of other facts, or sealed under another secret"

    def _untimely(self, event: UsageEvent, now_ms: int) -> str:
        """When it ended decides the period that it is billed in, and is no part of the seal."""
        if event.ended_ms < event.accepted_ms - CLOCKS_DIFFER_MS_MAX:
            return "it ended before it was accepted"
        if event.ended_ms > now_ms + CLOCKS_DIFFER_MS_MAX:
            return "it ended later than now"
        if event.ended_ms > event.accepted_ms + self.deadline_ms_max + LATE_MS_MAX:
            return "it ended long after any deadline"
        return ""


def sealed_admission_of(event: UsageEvent) -> SealedAdmission:
    """What an event says was asked for."""
    return SealedAdmission(
        event.tenant,
        event.request,
        event.model,
        event.fingerprint,
        event.owner,
        event.prices,
        event.accepted_ms,
        event.asked_input,
        event.asked_output,
    )
