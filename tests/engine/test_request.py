"""The records that processes of different versions hand each other: what is left out, and what it means."""

from typing import Any

import msgspec
import pytest

from billing.api import SealedAdmission, seal
from billing.usage import PinnedPrices, UsageOwner
from core.configuration.settings import ADMISSION_PURPOSE
from core.signing.signed_text import Keyring, short_seal
from engine import request
from engine.queue import types
from engine.queue.types import Append, AppendCode, Appended, Claim, ClaimOffer, Enqueue, Enqueued, TenantTerms
from engine.request import (
    Control,
    Entry,
    EntryKind,
    PriorityClass,
    RequestInput,
    RequestStatus,
    Sampling,
    input_decoder,
    input_encoder,
    seal_request,
)

FAR_MS = 4_000_000_000_000
KEYRING = Keyring(b"secret" * 8)
LEAST = RequestInput(
    prompt=bytes(12),
    sampling=Sampling(max_tokens=7),
    owner=UsageOwner("p1", "k1"),
    prices=PinnedPrices("book", 1, 2, 3, 4),
    model="m",
    fingerprint="f",
    accepted_ms=5,
    deadline_ms=FAR_MS,
)


def test_what_is_sealed_is_what_was_asked_for():
    """Its prompt by its tokens, its answer by the most it may have."""
    asked = SealedAdmission(
        "t1", "r1", "m", "f", LEAST.owner, LEAST.prices, 5, input_tokens=3, output_tokens=7
    )
    found = seal_request(LEAST, "t1", "r1", KEYRING)
    assert found.seal == seal(asked, KEYRING)
    assert msgspec.structs.replace(found, seal=b"") == LEAST


def test_a_policy_is_sealed_and_no_policy_changes_no_seal():
    """What was admitted before there were policies keeps its seal over an upgrade; the rest has another."""
    facts = ("t1", "r1", "m", "f", LEAST.owner, LEAST.prices, 5, 3, 7)
    before = short_seal(msgspec.msgpack.encode(facts), KEYRING.key(ADMISSION_PURPOSE))
    assert seal_request(LEAST, "t1", "r1", KEYRING).seal == before
    pinned = msgspec.structs.replace(LEAST, policy="0a" * 32)
    under = short_seal(msgspec.msgpack.encode((*facts, "0a" * 32)), KEYRING.key(ADMISSION_PURPOSE))
    assert seal_request(pinned, "t1", "r1", KEYRING).seal == under != before


def test_a_requests_input_holds_what_was_asked_for_and_no_defaults():
    """Workers of the version before read it; what it leaves out is as its sender left it."""
    packed = msgspec.msgpack.decode(input_encoder.encode(seal_request(LEAST, "t1", "r1", KEYRING)))
    assert packed.pop("seal")
    assert set(packed) == {
        *("prompt", "sampling", "owner", "prices", "model", "fingerprint", "accepted_ms", "deadline_ms")
    }
    assert packed["sampling"] == {"max_tokens": 7}
    found = input_decoder.decode(msgspec.msgpack.encode(packed))
    assert (found.trace, found.seal, found.salt) == ("", b"", "")
    assert (found.policy, found.priority) == ("", None)
    assert msgspec.structs.asdict(found.sampling) == {
        **{"max_tokens": 7, "min_tokens": 0, "temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0},
        **{"seed": None, "stop": (), "presence_penalty": 0.0, "frequency_penalty": 0.0},
        **{"repetition_penalty": 1.0, "response_format": None},
    }


def test_scripts_and_workers_mean_the_same_by_a_flag():
    """engine/queue/lua has them as numbers."""
    assert seal_request(LEAST, "t1", "r1", KEYRING)
    named = {flag.name: flag.value for flag in Control}
    assert named == {"CANCEL": 1, "PARK": 2, "PREEMPT": 4, "MIGRATE": 8, "DRAIN": 16}


def left_out() -> dict[str, tuple[Any, dict[str, Any]]]:
    """Records with only what they must have, and what the rest of them is then."""
    claim = Claim("t", "r", "ck", 1, 1, 0, 0, 0, 0, b"", b"", 0, Control(0), 0, 0, 0, 0)
    asked = Enqueue(
        **dict.fromkeys(("tenant", "id", "body_hash", "fingerprint", "model"), ""),
        **dict.fromkeys(("prompt_tokens", "max_tokens", "deadline_ms", "accepted_ms", "granted"), 0),
        input=b"",
    )
    return {
        "entry": (Entry(1, EntryKind.TEXT), {"x": "", "p": 0, "r": 0, "i": 0, "v": b""}),
        "claim": (claim, {"recomputed_tokens": 0, "covered": 0}),
        "enqueue": (
            asked,
            {
                "priority": PriorityClass.INTERACTIVE,
                "gateway": None,
                "no_reader_ms": None,
                "cancelled": False,
                "shaped": False,
            },
        ),
        "enqueued": (Enqueued(True, RequestStatus.QUEUED, 1, 1, 0, 0), {"dest": ""}),
        "offer": (ClaimOffer("f", 1, 1, 1), {"lowest": PriorityClass.BULK}),
        "append": (
            Append(tenant="t", id="r", ck="ck", n0=0, o0=0, raw=0, visible=0),
            {"tokens": b"", "entries": [], "input_cached": None, "end": None},
        ),
        "appended": (Appended(AppendCode.OK, 0, 0, Control(0), 0), {"ended": None}),
        "terms": (
            TenantTerms(),
            {
                "weight": 1.0,
                "slots_max": None,
                "tokens_max": None,
                "highest": PriorityClass.INTERACTIVE,
                "reserve_tokens": 0,
            },
        ),
    }


@pytest.mark.parametrize("name", left_out())
def test_what_a_record_leaves_out(name: str):
    """Nothing is asked for that nobody asked for."""
    assert seal_request(LEAST, "t1", "r1", KEYRING)
    found, expected = left_out()[name]
    assert {field: getattr(found, field) for field in expected} == expected


@pytest.mark.parametrize("weight", [0, -1.0, float("inf"), float("nan")])
def test_a_tenants_weight_is_above_zero(weight: float):
    """And a number by which others can be measured."""
    assert TenantTerms(weight=1e-9).weight == 1e-9
    with pytest.raises(ValueError, match="above zero"):
        TenantTerms(weight=weight)


@pytest.mark.parametrize("module", [request, types], ids=["request", "queue_types"])
def test_records_are_never_changed_in_place(module: Any):
    """Several tasks hold the same one."""
    assert seal_request(LEAST, "t1", "r1", KEYRING)
    assert TenantTerms()
    kinds = [each for each in vars(module).values() if isinstance(each, type)]
    structs = [each for each in kinds if issubclass(each, msgspec.Struct)]
    assert len(structs) > 2
    assert [each.__name__ for each in structs if not each.__struct_config__.frozen] == []
