"""Seals of what a gateway admitted, so that nobody else can have a tenant billed for anything. Pure.

The gateway seals who asks, for what, under which prices and for how many tokens at most. The seal goes with
the request and its event, and the biller checks it. So whoever can write to Redis (a compromised worker, for
example) cannot bill a request that was not admitted, or to another tenant, or beyond what was asked for.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from billing.usage import PinnedPrices, UsageEvent, UsageOwner
from core.configuration.settings import ADMISSION_PURPOSE as PURPOSE
from core.configuration.settings import Settings
from core.signing.signed_text import Keyring, is_sealed, short_seal

# Largest difference of clocks, and of a request's end after its deadline, in an installation that was down.
CLOCKS_DIFFER_MS_MAX = 5 * 60_000
LATE_MS_MAX = 2 * 3_600_000

__all__ = ["PURPOSE", "Admissions", "SealedAdmission", "admissions_of", "seal"]


class SealedAdmission(msgspec.Struct, frozen=True, array_like=True):
    """The facts that are sealed, as an array in this order: another order gives another seal. An empty
    `policy` is not in it, so that what was admitted before there were policies keeps its seal."""

    tenant: str
    request: str
    model: str
    fingerprint: str
    owner: UsageOwner
    prices: PinnedPrices
    accepted_ms: int
    input_tokens: int
    output_tokens: int
    policy: str = ""


_encoder = msgspec.msgpack.Encoder()


def seal(asked: SealedAdmission, keyring: Keyring) -> bytes:
    """Sign an admission. Needs the signing secret or the key for this purpose."""
    return short_seal(_sealed(asked), keyring.key(PURPOSE))


def _sealed(asked: SealedAdmission) -> bytes:
    facts = msgspec.structs.astuple(asked)
    return _encoder.encode(facts if asked.policy else facts[:-1])


@dataclass(frozen=True)
class Admissions:
    """Checks events against the admissions that a biller accepts. `deadline_ms_max`: the longest that a
    request may have, from when it was accepted."""

    keys: Sequence[bytes]
    deadline_ms_max: int = 24 * 3_600_000

    def problem(self, pool: str, event: UsageEvent, now_ms: int) -> str:
        """Reason not to bill an event from a pool's stream; empty where there is none."""
        if problem := self.strange(pool, event) or self._untimely(event, now_ms):
            return problem
        if (used := event.input_uncached + event.input_cached) > event.asked_input:
            return f"{used} input tokens where {event.asked_input} were admitted"
        if (used := event.output_text + event.output_reasoning) > event.asked_output:
            return f"{used} output tokens where {event.asked_output} were asked for"
        return ""

    def strange(self, pool: str, event: UsageEvent) -> str:
        """Reason to treat an event from a pool's stream as one of no admitted request; empty where its
        admission is valid. The outcome that it reports is not checked."""
        if event.pool != pool:
            return f"it came over pool {pool}"
        if not event.seal:
            return "it has no admission"
        good = is_sealed(_sealed(sealed_admission_of(event)), event.seal, self.keys)
        return "" if good else "its admission is of other facts, or sealed under another secret"

    def _untimely(self, event: UsageEvent, now_ms: int) -> str:
        """Check the time of the end: it decides the period of billing and is not part of the seal."""
        if event.ended_ms < event.accepted_ms - CLOCKS_DIFFER_MS_MAX:
            return "it ended before it was accepted"
        if event.ended_ms > now_ms + CLOCKS_DIFFER_MS_MAX:
            return "it ended later than now"
        if event.ended_ms > event.accepted_ms + self.deadline_ms_max + LATE_MS_MAX:
            return "it ended long after any deadline"
        return ""


def admissions_of(settings: Settings) -> Admissions:
    """The admissions of this installation's gateways, for whoever reads ended requests."""
    return Admissions(settings.admission_keys, settings.deadline_bulk_ms)


def sealed_admission_of(event: UsageEvent) -> SealedAdmission:
    """The admission that an event claims to have."""
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
        event.policy,
    )
