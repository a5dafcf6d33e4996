"""Assessing events: what is posted, and what is held with its reason. Pure."""

from types import SimpleNamespace

import msgspec
import pytest
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, OperationalError

from billing.booking.assess import Quarantined, assess, conflicts
from billing.posting import biller
from billing.posting.biller import is_data_error
from billing.usage import UsageOwner, encode
from core.names import name_of
from tests.billing.events import PRICES, an_event


def test_a_good_event_becomes_its_row() -> None:
    """Every fact of the event is in the row."""
    event = an_event()
    batch = assess("default", [encode(event)], now_ms=3_000)
    [good] = batch.good
    assert (good.row.tenant_id, good.row.request_id) == ("t1", "r1")
    assert (good.row.input_uncached, good.row.input_cached, good.row.output_text) == (8, 4, 7)
    assert good.row.cost_nano == event.cost_nano == 8 * 100 + 4 * 25 + 7 * 400
    assert (good.row.project_id, good.row.key_id, good.row.user_id) == ("p1", "k1", "u1")
    assert good.row.request_metadata == {"label": "x"}
    assert (good.row.posted_ms, batch.held, batch.settlements) == (3_000, [], [event])


def test_a_repeat_in_one_batch_is_dropped_and_another_truth_is_held() -> None:
    """The first event of a request counts; a different one is for a person to decide."""
    first, other = encode(an_event()), encode(an_event(output_text=8))
    batch = assess("default", [first, first, other], now_ms=1)
    assert [good.data for good in batch.good] == [first]
    [held] = batch.held
    assert (held.reason, held.tenant_id, held.request_id) == (Quarantined.CONFLICTING, "t1", "r1")
    assert held.event == other


def test_a_cost_that_the_pinned_prices_do_not_give_is_held_and_settled_for_nothing() -> None:
    """Never billed, neither at its own cost nor at ours; the tenant's slot is freed all the same."""
    wrong = msgspec.structs.replace(an_event(), cost_nano=1)
    batch = assess("default", [encode(wrong)], now_ms=1)
    [held] = batch.held
    assert batch.good == []
    assert (held.reason, held.detail) == (
        Quarantined.COST_MISMATCH,
        "the event says 1 nano, its prices say 3700",
    )
    assert batch.settlements == [msgspec.structs.replace(wrong, cost_nano=0)]


NO_TEXT = encode(an_event(model="NAME")).replace(b"NAME", b"\xff\xfe\xfd\xfc")
NESTED = b"\x81\xa3zzz" + b"\x91" * 100_000 + b"\x90"  # an unknown field of lists in lists


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x80", encode(an_event())[:-3], NESTED, NO_TEXT])
def test_what_is_no_event_is_held_whole(data: bytes) -> None:
    """Nothing that was on the stream is thrown away."""
    [held] = assess("default", [data], now_ms=1).held
    assert (held.reason, held.event) == (Quarantined.UNDECODABLE, data)


@pytest.mark.parametrize(
    "event",
    [
        an_event(request="a\x00b"),
        an_event(ended_ms=-1),
        msgspec.structs.replace(an_event(), output_text=-1),
        msgspec.structs.replace(an_event(), input_cached=1 << 60),
        msgspec.structs.replace(an_event(), input_uncached=(1 << 63) - 1),
        msgspec.structs.replace(an_event(), prices=msgspec.structs.replace(PRICES, input_nano=-1)),
        msgspec.structs.replace(an_event(), claims=1 << 31),
    ],
)
def test_what_no_row_can_hold_is_held_instead_of_failing_the_batch(event: object) -> None:
    """One bad event between good ones does not stop billing."""
    good = [encode(an_event(f"r{number}")) for number in (2, 3)]
    batch = assess("default", [good[0], msgspec.msgpack.encode(event), good[1]], now_ms=1)
    [held] = batch.held
    assert held.reason == Quarantined.UNSTORABLE
    assert "\x00" not in held.request_id
    assert [each.data for each in batch.good] == good


DEEP = b'{"a":' + b"[" * 900 + b"]" * 900 + b"}"
DEEPER = b'{"a":' + b"[" * 9_000 + b"]" * 9_000 + b"}"


@pytest.mark.parametrize("metadata", [b"", b"[]", b"{", b'{"a":"\\ud800"}', b"\xff", DEEP, DEEPER])
def test_unreadable_labels_do_not_hold_up_a_bill(metadata: bytes) -> None:
    """Metadata decides nothing."""
    event = an_event(owner=UsageOwner(project="p", key="k", metadata=metadata))
    [good] = assess("default", [encode(event)], now_ms=1).good
    assert good.row.request_metadata == {}


@pytest.mark.parametrize(("depth", "is_kept"), [(32, True), (33, False)])
def test_labels_are_kept_down_to_a_depth(depth: int, is_kept: bool) -> None:
    """The object itself is the first level; lists and objects count alike."""
    for inner in (
        b"[" * (depth - 1) + b"1" + b"]" * (depth - 1),
        b'{"b":' * (depth - 1) + b"1" + b"}" * (depth - 1),
    ):
        event = an_event(owner=UsageOwner(project="p", key="k", metadata=b'{"a":' + inner + b"}"))
        [good] = assess("default", [encode(event)], now_ms=1).good
        assert bool(good.row.request_metadata) is is_kept


@pytest.mark.parametrize(("more", "kept"), [(0, 1 << 20), (1, 1_000)])
def test_of_what_nobody_admitted_a_beginning_is_kept(more: int, kept: int) -> None:
    """A MiB is what one may have: that is held whole."""
    [held] = assess("default", [b"\xc1" * ((1 << 20) + more)], now_ms=1).held
    assert (held.reason, len(held.event)) == (Quarantined.UNDECODABLE, kept)
    assert held.detail.startswith("it has 1048577 bytes") is bool(more)


def test_an_end_before_its_beginning_stretches_no_moment() -> None:
    """Clocks differ: what lies between is when it was accepted."""
    event = an_event(ended_ms=999, claimed_ms=1_500, first_token_ms=998)
    [good] = assess("default", [encode(event)], now_ms=1).good
    assert (good.row.claimed_ms, good.row.first_token_ms) == (1_000, 1_000)


class DriversError(Exception):
    """As a database's driver raises it: with an SQL state, and what it came from."""

    def __init__(self, sqlstate: str | None = None, cause: Exception | None = None) -> None:
        super().__init__("no")
        self.sqlstate, self.__cause__ = sqlstate, cause


NAMED_SO = type("DataError", (Exception,), {})  # asyncpg's own, whichever module it is of


@pytest.mark.parametrize(
    ("error", "is_refused"),
    [
        (IntegrityError("", {}, DriversError()), True),
        (DataError("", {}, DriversError()), True),
        (DBAPIError("", {}, DriversError("22021")), True),
        (DBAPIError("", {}, DriversError("23514")), True),
        (DBAPIError("", {}, DriversError(cause=NAMED_SO())), True),
        (DBAPIError("", {}, DriversError("40001")), False),
        (OperationalError("", {}, DriversError("53100", OSError())), False),
        (DBAPIError("", {}, DriversError()), False),
        (DBAPIError("", {}, Exception()), False),
    ],
)
def test_what_a_database_would_refuse_again_is_told_from_what_it_cannot_do_now(
    error: DBAPIError, is_refused: bool
) -> None:
    """Data exceptions and constraints are held; a full disk or a lost race is tried again."""
    assert is_data_error(error) is is_refused


def test_what_is_done_now_and_then_is_due_at_once_and_again_when_its_time_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """From when it was last found due."""
    times = [100.0, 100.0, 101.9, 102.0, 103.9, 105.0, 106.9, 107.0]
    monkeypatch.setattr(biller, "time", SimpleNamespace(monotonic=iter(times).__next__))
    every = biller._Interval(2.0)  # pyright: ignore[reportPrivateUsage]
    found = [every.due() for _ in times]
    assert found == [True, False, False, True, False, True, False, True]


def test_only_a_different_event_of_a_posted_request_conflicts() -> None:
    """A delivery again is no conflict."""
    batch = assess("default", [encode(an_event("r1")), encode(an_event("r2"))], now_ms=1)
    posted = {("t1", "r1"): batch.good[0].row.event_sha256, ("t1", "r2"): "another"}
    [held] = conflicts("default", batch.good, posted, now_ms=1)
    assert (held.reason, held.request_id) == (Quarantined.CONFLICTING, "r2")


def test_what_a_client_named_is_never_a_reason_not_to_bill() -> None:
    """What no database holds stands in the row in a form that is nobody's name, and is told of. What Redis
    counts goes by what it was called at admission."""
    owner = UsageOwner(project="p", key="k", user="free\x00rider", conversation="c\x00")
    event = an_event(owner=owner)
    batch = assess("default", [encode(event)], now_ms=1)
    [good] = batch.good
    assert batch.held == []
    assert batch.settlements == [event]
    assert (good.row.user_id, good.row.cost_nano) == ("\ufdd0free\\{0}rider", event.cost_nano)
    assert list(good.mended) == ["conversation", "user"]
    assert name_of(good.row.user_id) is None
