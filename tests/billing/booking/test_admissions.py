"""The biller bills what was admitted: no other request, tenant or pool, and no more tokens."""

from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.exc import DataError

from billing.booking.admissions import Admissions, seal, sealed_admission_of
from billing.booking.assess import Quarantined, assess
from billing.posting import biller
from billing.usage import ENDED_FIELD, PinnedPrices, UsageEvent, UsageOwner, encode, ended_stream
from core.access.access_commands import secrets_command
from core.configuration.settings import ADMISSION_PURPOSE, Settings
from core.signing import signed_text
from core.signing.signed_text import Keyring
from core.sql.database import Database
from tests.billing.events import an_event, priced, sealed
from tests.billing.posting.billers import a_biller, held, rows, until_posted
from tests.support.home import TEST_SECRET, settings_in
from tests.support.patience import wait_until
from tests.support.redis import Redis

KEYRING = Keyring(TEST_SECRET.encode())
ADMISSIONS = Admissions(KEYRING.keys(ADMISSION_PURPOSE))
DAY_MS = 24 * 3_600_000

# What a worker that was taken over may try on a request that it has, each in an event rightly priced.
FORGED = {
    "tenant": "t2",
    "request": "r2",
    "model": "dearer",
    "fingerprint": "f2",
    "owner": UsageOwner(project="p2", key="k1", user="u1", metadata=b'{"label":"x"}'),
    "prices": PinnedPrices("default", 1, 10**9, 10**9, 10**9),
    "accepted_ms": 1_001,
    "asked_input": 13,
    "asked_output": 8,
    "input_uncached": 9,
    "output_text": 8,
    "output_reasoning": 1,
    "pool": "big",
    "seal": b"",
    "policy": "0a" * 32,
}


def problem(event: UsageEvent, taken: Admissions = ADMISSIONS, now_ms: int = 3_000) -> str:
    """What the biller of pool `default` finds."""
    batch = assess("default", [encode(event)], now_ms, taken)
    assert [each.reason for each in batch.held] in ([], [Quarantined.UNADMITTED])
    assert bool(batch.good) != bool(batch.held)
    assert len(batch.settlements) == len(batch.good)  # nor does it close whose request it names
    return batch.held[0].detail if batch.held else ""


def test_what_was_admitted_is_billed():
    """All of it, or less: an answer may end early."""
    assert problem(an_event()) == ""
    assert problem(priced(msgspec.structs.replace(an_event(), output_text=1, input_cached=0))) == ""


@pytest.mark.parametrize("name", FORGED)
def test_what_was_not_admitted_is_held(name: str):
    """Whichever fact differs, and where nobody admitted it at all."""
    assert problem(priced(msgspec.structs.replace(an_event(), **{name: FORGED[name]})))


@pytest.mark.parametrize("policy", ["", "0b" * 32])
def test_an_answer_is_filtered_by_the_policy_that_was_admitted(policy: str):
    """A worker that leaves it out, or says another one, bills nothing."""
    admitted = an_event(policy="0a" * 32)
    assert problem(admitted) == ""
    assert "of other facts" in problem(msgspec.structs.replace(admitted, policy=policy))


def test_every_fact_that_is_billed_by_is_sealed_or_tried_above():
    """A new field of an event is one of these, or a matter of when and how it ran."""
    ran = {"ended_ms", "reason", "claimed_ms", "first_token_ms", "code", "claims", "recomputed_tokens"}
    ran |= {"priority", "trace_id", "verdicts", "phases"}
    of_sums = {"cost_nano", "input_cached"}  # the biller's own, and input with what is not cached
    assert set(UsageEvent.__struct_fields__) == set(FORGED) | ran | of_sums


@pytest.mark.parametrize(
    ("ended_ms", "now_ms", "why"),
    [
        (2_000, 2_000, ""),
        (999, 2_000, ""),  # clocks differ
        (0, 10**9, "it ended before it was accepted"),
        (10**8, 10**7, "it ended later than now"),
        (DAY_MS + 10**7, 10**12, "it ended long after any deadline"),
        (DAY_MS + 10**6, 10**12, ""),
    ],
)
def test_a_request_ends_between_its_beginning_and_its_deadline(ended_ms: int, now_ms: int, why: str):
    """A worker cannot have it billed in another month."""
    accepted_ms = 1_000 if ended_ms else 10**8
    event = an_event(accepted_ms=accepted_ms, ended_ms=ended_ms)
    assert problem(event, now_ms=now_ms) == why


FIVE_MINUTES_MS, TWO_HOURS_MS = 300_000, 7_200_000


@pytest.mark.parametrize(
    ("after_ms", "now_after_ms", "why"),
    [
        (-FIVE_MINUTES_MS, 0, ""),
        (-FIVE_MINUTES_MS - 1, 0, "it ended before it was accepted"),
        (FIVE_MINUTES_MS, 0, ""),
        (FIVE_MINUTES_MS + 1, 0, "it ended later than now"),
        (DAY_MS + TWO_HOURS_MS, 10**12, ""),
        (DAY_MS + TWO_HOURS_MS + 1, 10**12, "it ended long after any deadline"),
    ],
)
def test_what_is_let_pass_ends_to_the_millisecond(after_ms: int, now_after_ms: int, why: str):
    """Five minutes between clocks, and two hours behind the longest deadline, a day where none is set."""
    accepted_ms = 10**9
    event = an_event(accepted_ms=accepted_ms, ended_ms=accepted_ms + after_ms)
    assert problem(event, now_ms=accepted_ms + now_after_ms) == why


def test_moments_lie_within_their_request():
    """Nor make reports of how long things took nonsense."""
    for said, row in ((0, 0), (1, 1_000), (1_500, 1_500), (10**9, 2_000)):
        event = an_event(claimed_ms=said, first_token_ms=said)
        (good,) = assess("default", [encode(event)], 3_000, ADMISSIONS).good
        assert (good.row.claimed_ms, good.row.first_token_ms) == (row, row)


@given(st.binary(max_size=40))
def test_no_other_seal_opens(other: bytes):
    """Whatever bytes stand there."""
    event = an_event()
    if other != event.seal:
        assert problem(msgspec.structs.replace(event, seal=other))


def test_a_changed_secret_bills_what_the_one_before_sealed():
    """While both are there."""
    old, new = KEYRING, Keyring(b"n" * 32)
    both = Keyring(b"n" * 32, previous=old.current)
    event = an_event()
    assert problem(event, Admissions(both.keys(ADMISSION_PURPOSE))) == ""
    assert problem(event, Admissions(new.keys(ADMISSION_PURPOSE)))
    renewed = msgspec.structs.replace(event, seal=seal(sealed_admission_of(event), both))
    assert problem(renewed, Admissions(new.keys(ADMISSION_PURPOSE))) == ""


def test_a_seal_is_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch):
    """With every key that opens, whatever it is: a worker that sends many learns nothing of a right one."""
    compared: list[int] = []
    compare = signed_text.hmac.compare_digest

    def counted(made: bytes, shown: bytes) -> bool:
        compared.append(len(made))
        return compare(made, shown)

    monkeypatch.setattr(signed_text.hmac, "compare_digest", counted)
    both = Admissions([*ADMISSIONS.keys, b"o" * 32])
    for event in (an_event(), msgspec.structs.replace(an_event(), seal=b"x" * 16)):
        compared.clear()
        problem(event, both)
        assert compared == [16, 16]


def test_a_biller_does_without_the_secret(home_settings: Settings):
    """Its key, which `parley secrets admission` prints, opens what gateways seal, and is not the secret."""
    printed = CliRunner().invoke(secrets_command, ["admission"], env={"PARLEY_SECRET": TEST_SECRET})
    key = printed.output.strip()
    own = settings_in(home_settings.home, secret=None, database_url="postgresql://x/y", admission_key=key)
    assert own.admission_keys == ADMISSIONS.keys
    assert TEST_SECRET.encode().hex() not in key


@pytest.fixture
def home_settings(settings: Settings) -> Settings:
    return settings


async def test_the_biller_holds_what_a_worker_made_up(database: Database, redis: Redis, settings: Settings):
    """And bills what stands before and behind it."""
    good, more = an_event("r1"), an_event("r3")
    forged = msgspec.structs.replace(sealed(an_event("r2")), output_text=70)
    stolen = msgspec.structs.replace(an_event("r4"), tenant="t2")
    async with a_biller(database, redis, settings):
        for event in (good, priced(forged), stolen, more):
            await redis.xadd(ended_stream("default"), {ENDED_FIELD: encode(event)})
        await until_posted(database, 2)
        await wait_until(lambda: _all_held(database, 2))
    assert sorted(row.request_id for row in await rows(database)) == ["r1", "r3"]
    assert not await rows(database, "t2")


async def test_what_goes_in_halves_is_looked_at_as_well(sqlite: Database, monkeypatch: pytest.MonkeyPatch):
    """A batch that the database does not take, as one event in it may bring about on purpose, bills no more
    than another."""

    async def only_one_at_a_time(*facts: Any) -> Any:
        if len(facts[2]) > 1:
            raise DataError("", {}, Exception())
        return await post(*facts)

    post = biller.post
    monkeypatch.setattr(biller, "post", only_one_at_a_time)
    forged = [msgspec.structs.replace(an_event(f"r{number}"), tenant="t2") for number in range(2)]
    events = [encode(event) for event in (an_event("r3"), *forged, an_event("r4"))]
    await biller.post_in_parts(sqlite, "default", events, ADMISSIONS)
    assert sorted(row.request_id for row in await rows(sqlite)) == ["r3", "r4"]
    assert not await rows(sqlite, "t2")


async def _all_held(database: Database, count: int) -> bool:
    return len(await held(database)) == count
