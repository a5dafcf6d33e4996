"""Continuation: what the engine is asked for at any seam, when it is not asked, and how an answer rewinds."""

import msgspec
import pytest

from engine.queue.types import Append, AppendCode, Appended
from engine.request import Control, EndReason, EntryKind, Sampling, input_decoder
from engine.worker.claimed_request import ClaimedRequest
from engine.worker.continuation import ModelLimits, completed, generation, ids_from, pack_ids
from tests.engine.tokens import EOS, ids_of
from tests.engine.worker.claims import a_claim
from tests.engine.workers import POLICIES, PROMPT, TOKENIZER, open_answer

LIMITS = ModelLimits(stop_ids=(EOS,), max_model_len=100)


def test_the_engine_is_asked_for_what_is_left():
    """Prompt and tail become the prompt; limits shrink by what is there; the tenant salts the cache."""
    request = input_decoder.decode(a_claim(max_tokens=50, min_tokens=10, seed=7, stop=("x",)).input)
    asked = generation("key", "t1", request, PROMPT, [1, 2, 3], LIMITS)
    assert (asked.prompt, asked.tail_tokens) == ([*PROMPT, 1, 2, 3], 3)
    assert (asked.max_tokens, asked.min_tokens) == (47, 7)
    assert asked.salt == "t1"
    of_owner = generation("key", "t1", msgspec.structs.replace(request, salt="o"), PROMPT, [], LIMITS)
    assert of_owner.salt == "t1 o"
    assert asked.seed == 7  # with the tail's length it says which noise comes next


def test_the_answer_fits_the_model():
    """max_tokens beyond the model's length is cut to it."""
    request = input_decoder.decode(a_claim(max_tokens=1000).input)
    asked = generation("key", "t1", request, [1] * 90, [2] * 4, LIMITS)
    assert asked.max_tokens == 6


@pytest.mark.parametrize(
    ("tail", "stopped", "reason"),
    [
        ([1, 2], False, None),
        ([1, EOS], False, EndReason.STOP),
        ([EOS], False, None),  # cannot be an end before min_tokens
        ([1, 2], True, EndReason.STOP),
        ([1] * 10, False, EndReason.LENGTH),
        ([1] * 9 + [EOS], False, EndReason.STOP),
    ],
)
def test_a_complete_tail_is_recognised(tail: list[int], stopped: bool, reason: EndReason | None):
    """End-of-sequence, a stop string or the length: none of them is generated past."""
    sampling = Sampling(max_tokens=10, min_tokens=1)
    assert completed(sampling, 50, tail, stopped, LIMITS) == reason
    assert completed(sampling, 100 - len(tail), tail, stopped, LIMITS) == (reason or EndReason.LENGTH)


def test_ids_are_kept_as_little_endian_words():
    """What Redis holds is the same on every machine."""
    assert pack_ids([1, 65536]) == b"\x01\0\0\0\0\0\x01\0"
    assert ids_from(pack_ids([1, 65536, 4_000_000_000])) == [1, 65536, 4_000_000_000]


def test_replayed_text_is_not_logged_twice():
    """The tail's text is in the log through `visible`; only what comes after it makes entries."""
    answer = open_answer(a_claim("hello wor", visible=9))
    assert answer.append("default", 1) is None
    answer.take(ids_of("ld"), 0, 1)
    append = _appended(answer)
    assert [(e.o, e.x, e.p, e.r, e.i) for e in append.entries] == [(3, "ld", 9, 11, 11)]
    assert (append.n0, append.tokens) == (9, pack_ids(ids_of("ld")))


def test_text_held_at_the_seam_appears_when_it_is_free():
    """The dead worker held `wor` back for a stop string; its release is this worker's."""
    answer = open_answer(a_claim("hello wor", visible=6, stop=("world",)))
    answer.take(ids_of("m"), 0, 1)
    append = _appended(answer)
    assert [(e.x, e.p) for e in append.entries] == [("worm", 6)]


def test_entries_have_at_most_their_size():
    """16 KiB of UTF-8, cut between code points."""
    answer = ClaimedRequest(a_claim(max_tokens=50_000), TOKENIZER, ModelLimits((EOS,), 10**6), 64, POLICIES)
    answer.take(ids_of("日本語" * 20), 0, 1)
    append = answer.append("default", 1)
    assert append is not None
    assert all(0 < len(entry.x.encode()) <= 64 for entry in append.entries)
    assert "".join(entry.x for entry in append.entries) == "日本語" * 20


def test_nothing_beyond_the_grant_is_appended():
    """What is sampled behind the grant waits for the next one; a refusal ends the answer at its last granted
    token."""
    answer = open_answer(a_claim())
    answer.granted = 4
    answer.take(ids_of("abc"), 0, 1)
    _appended(answer)
    answer.take(ids_of("defg"), 0, 1)
    append = _appended(answer)
    assert append.tokens == pack_ids(ids_of("d"))
    assert answer.append("default", 1) is None
    answer.grant(5, final=False)
    assert _appended(answer).tokens == pack_ids(ids_of("e"))
    assert answer.completed() is None
    answer.grant(6, final=True)
    assert answer.completed() is EndReason.BUDGET
    answer.end(EndReason.BUDGET)
    append = _appended(answer)
    assert append.tokens == pack_ids(ids_of("f"))
    assert [entry.x for entry in append.entries] == ["f", ""]
    assert append.end is not None


def test_a_rewind_repeats_the_same_entries():
    """Redis lost its tail, or took an append whose reply was lost: from there on, the same offsets again."""
    answer = open_answer(a_claim())
    sent = [_appended(answer, text) for text in ("ab", "cd", "ef")]
    everything = [entry for append in sent for entry in append.entries]
    assert answer.rewind(Appended(AppendCode.GAP, 2, 3, Control(0), 1000))
    again = _appended(answer)
    assert again.entries == everything[1:]
    assert again.tokens == pack_ids(ids_of("cdef"))
    answer.take(ids_of("gh"), 0, 1)
    lost = answer.append("default", 1)
    assert lost is not None
    answer.take(ids_of("ij"), 0, 1)
    assert answer.rewind(Appended(AppendCode.GAP, 8, 6, Control(0), 1000))
    assert [(e.o, e.x) for e in _appended(answer).entries] == [(7, "ij")]
    assert not answer.rewind(Appended(AppendCode.GAP, 0, 1, Control(0), 1000))


def test_ids_behind_the_end_are_not_part_of_the_answer():
    """A step may bring more than the answer takes: after a stop string, or beyond max_tokens."""
    answer = open_answer(a_claim(stop=("X",), max_tokens=5))
    answer.take(ids_of("aXbc"), 0, 1)
    assert answer.completed() is EndReason.STOP
    assert answer.ids == ids_of("aX")
    long = open_answer(a_claim(max_tokens=3))
    long.take(ids_of("abcde"), 0, 1)
    assert long.completed() is EndReason.LENGTH
    assert long.ids == ids_of("abc")


def _appended(answer: ClaimedRequest, text: str = "") -> Append:
    """Take text, append it, and learn that it is in the log."""
    if text:
        answer.take(ids_of(text), 0, 1)
    append = answer.append("default", 1)
    assert append is not None
    assert all(entry.k in (EntryKind.TEXT, EntryKind.END) for entry in append.entries)
    answer.appended(append)
    assert answer.logged
    return append


def test_what_is_left_to_sample_is_never_less_than_nothing():
    """Of the least, too, that an answer is to have."""
    request = input_decoder.decode(a_claim(max_tokens=50, min_tokens=2).input)
    assert generation("key", "t1", request, PROMPT, [1, 2, 3], LIMITS).min_tokens == 0
    assert generation("key", "t1", request, PROMPT, [1], LIMITS).min_tokens == 1


def test_what_an_earlier_claim_found_out_stays():
    """The first token's time and the cached part of the prompt; unfiltered text is all visible."""
    answer = open_answer(a_claim("ab", 2))
    answer.take(ids_of("cd"), 7, now_ms=5)
    appended = answer.append("default", 6)
    assert appended is not None
    assert (appended.raw, appended.visible, appended.input_cached) == (4, 4, 7)
    answer.take(ids_of("efghijk"), 3, now_ms=8)
    answer.appended(appended)
    answer.end(EndReason.STOP)
    appended = answer.append("default", 9)
    assert appended is not None
    assert (appended.raw, appended.visible, appended.input_cached) == (11, 11, 7)
    assert [(entry.k, entry.p, entry.r, entry.i) for entry in appended.entries] == [
        (EntryKind.TEXT, 4, 11, 11),
        (EntryKind.END, 0, 0, 11),
    ]
    assert answer.event is not None
    assert (answer.event.first_token_ms, answer.event.input_cached) == (1, 0)


def test_no_more_is_taken_than_the_answer_may_have_in_all():
    """What was sampled ahead of a grant counts."""
    answer = open_answer(msgspec.structs.replace(a_claim(max_tokens=10), granted=3))
    answer.take(ids_of("abcdefgh"), 0, 1)
    assert (answer.sampled, len(answer.ids)) == (8, 3)
    answer.take(ids_of("ijklmnop"), 0, 1, EndReason.LENGTH)
    assert (answer.sampled, len(answer.ids), answer.completed()) == (10, 3, None)
    answer.wait()
    assert not answer.may_go_on
    answer.grant(10, final=False)
    assert (len(answer.ids), answer.completed(), answer.may_go_on) == (10, EndReason.LENGTH, False)


def test_an_answer_goes_on_once_there_is_a_token_that_it_may_sample():
    """Neither while something is ahead of its grant, nor where the engine was done."""
    answer = open_answer(msgspec.structs.replace(a_claim(max_tokens=10), granted=3))
    answer.take(ids_of("abc"), 0, 1)
    answer.wait()
    assert not answer.may_go_on
    answer.grant(4, final=False)
    assert answer.may_go_on
    answer.go_on()
    assert (answer.key, answer.may_go_on) == ("ck.1", False)
