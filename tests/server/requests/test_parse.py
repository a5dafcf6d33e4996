"""What a send may say, value by value, and what it becomes."""

import re
from typing import Any

import msgspec
import pytest

from core.configuration.settings import Settings
from core.errors import Refused
from core.ids import uuid7
from engine.api import PriorityClass, Sampling
from server.protocol.messages import Send
from server.requests import parse
from server.requests.parse import Options

NOW_MS = 1_790_000_000_000
ID = uuid7(NOW_MS)
CONVERSATION = uuid7(NOW_MS - 1)
AFTER = "cancel_after_ms"


def parsed(settings: Settings, id: str = ID, **said: Any) -> parse.ParsedSend:
    """The turn of a send, by default of one short text."""
    if "content" not in said and "messages" not in said:
        said["content"] = "hi"
    return parse.parse_send(Send(id, **said), NOW_MS, settings)


def refused(code: str, words: str) -> Any:
    """A refusal with this code, which says exactly this."""
    return pytest.raises(
        Refused, check=lambda error: error.refusal.code == code, match=f"^{code}: {re.escape(words)}$"
    )


@pytest.mark.parametrize(
    ("off_ms", "words"),
    [
        (0, ""),
        (-24 * 3_600_000, ""),
        (-24 * 3_600_000 - 1, "id: its time is more than 24 h ago; make ids from welcome.now"),
        (300_000, ""),
        (300_001, "id: its time is more than 5 min ahead; make ids from welcome.now"),
    ],
)
def test_an_id_is_about_as_old_as_its_send(settings: Settings, off_ms: int, words: str):
    """A day old at most, five minutes ahead at most."""
    id = uuid7(NOW_MS + off_ms)
    if not words:
        assert parsed(settings, id).id == id
        return
    with refused("bad_request", words):
        parsed(settings, id)


ONE_OF = "give exactly one of `content` and `messages`"
EMPTY = "the prompt is empty: there is no text of a user in it"
PARTS = '; give a text or [{"type":"text","text":…}]'


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"id": "r"}, "id: make a UUIDv7 in lower-case canonical form"),
        ({"conversation": "c"}, "conversation: make a UUIDv7 in lower-case canonical form"),
        (
            {"conversation": CONVERSATION, "messages": [{"role": "user", "content": "hi"}]},
            "a stored conversation takes `content`; its history is kept here",
        ),
        ({"content": None}, ONE_OF),
        ({"content": "hi", "messages": []}, ONE_OF),
        ({"messages": {}}, "messages: expected a list of {role, content}"),
        ({"messages": []}, "messages: expected 1 to 3 messages"),
        ({"messages": [{"role": "user", "content": "hi"}] * 4}, "messages: expected 1 to 3 messages"),
        ({"messages": ["hi"]}, "messages[0]: expected `object`, got `str`"),
        (
            {"messages": [{"role": "user", "content": "hi"}, {"role": "tool", "content": "x"}]},
            "messages[1].role: expected one of system, user, assistant",
        ),
        ({"messages": [{"role": "system", "content": "hi"}]}, EMPTY),
        ({"messages": [{"role": "user", "content": " \n"}, {"role": "system", "content": "x"}]}, EMPTY),
        ({"content": " "}, EMPTY),
        ({"content": 5}, f"content: expected `array`, got `int`{PARTS}"),
        ({"content": [{"type": "image"}]}, f"content[0].type: invalid value 'image'{PARTS}"),
        ({"content": "a\0b"}, "content: a text cannot hold the character U+0000"),
        ({"content": "\ud800"}, "a text holds half of a surrogate pair, which is no Unicode character"),
        ({"options": []}, "options: expected an object"),
        ({"options": {"logprobs": 0}}, "options.logprobs: logprobs are not served in version 1"),
        (
            {"options": {"safety": "x"}},
            "options.safety: this server has no safety policies to choose from",
        ),
        ({"options": {"tempo": 1}}, "options: object contains unknown field `tempo`"),
        ({"options": {1: 1}}, "options: expected `str` - at `key` in `$`"),
        (
            {"options": {"min_tokens": 1, "response_format": {"type": "json_object"}}},
            "options.min_tokens: an answer in a response_format ends where its shape does",
        ),
        ({"metadata": []}, "metadata: expected an object"),
        ({"metadata": {"a": object()}}, "metadata: expected what JSON can hold"),
        ({"metadata": {"a": "x" * 4_089}}, "metadata: longer than 4096 bytes"),
    ],
)
def test_a_send_that_cannot_be_is_refused_with_what_to_do(
    settings: Settings, said: dict[str, Any], words: str
):
    """Each value by its name."""
    three = settings.model_copy(update={"prompt_messages_max": 3})
    with refused("bad_request", words):
        parsed(three, **said)


def test_a_send_that_may_be_is_taken_as_it_is(settings: Settings):
    """A prompt of messages, a text in parts, a name mended, metadata of just 4 KiB."""
    three = settings.model_copy(update={"prompt_messages_max": 3})
    said = [
        {"role": "assistant", "content": ""},
        {"role": "user", "content": [{"type": "text", "text": "h"}, {"type": "text", "text": "i"}]},
        {"role": "system", "content": "x"},
    ]
    turn = parsed(three, model="m", messages=said, metadata={"a": "x" * 4_088})
    assert turn.messages == [
        {"role": "assistant", "content": ""},
        {"role": "user", "content": "hi"},
        {"role": "system", "content": "x"},
    ]
    assert (turn.model, turn.conversation, turn.options) == ("m", None, Options())
    stored = parsed(three, conversation=CONVERSATION, metadata={"user": "u", "project": "p", "x": 1})
    assert (stored.conversation, stored.messages) == (CONVERSATION, [{"role": "user", "content": "hi"}])
    assert stored.metadata == {"user": "u", "project": "p", "x": 1}
    assert parse.labels(stored.metadata) == {"project": "p", "x": 1}
    assert parsed(three).metadata == {}


def test_a_body_is_known_again_by_what_it_asks_for(settings: Settings):
    """An option that says what would hold anyway changes nothing; everything else does."""
    said: list[dict[str, Any]] = [
        {},
        {"content": "ho"},
        {"messages": [{"role": "user", "content": "hi"}]},
        {"model": "m"},
        {"conversation": CONVERSATION},
        {"options": {"seed": 1}},
        {"metadata": {"a": 1}},
    ]
    assert len({parsed(settings, **each).body_hash for each in said}) == len(said)
    usual = {"top_k": 0, "min_tokens": 0, "stop": [], "priority": "interactive", "seed": None}
    assert parsed(settings, options=usual).body_hash == parsed(settings).body_hash
    assert parsed(settings, uuid7(NOW_MS)).body_hash == parsed(settings).body_hash


LIMITS = {
    "max_tokens": (1, 2**31 - 1),
    "min_tokens": (0, 2**31 - 1),
    "temperature": (0, 2),
    "top_k": (0, 2**31 - 1),
    "min_p": (0, 1),
    "seed": (0, 2**53 - 1),
    "presence_penalty": (-2, 2),
    "frequency_penalty": (-2, 2),
    "deadline_ms": (1, 2**53 - 1),
}
FLOATS = ("temperature", "min_p", "presence_penalty", "frequency_penalty")
UP_TO = {"top_p": 1, "repetition_penalty": 2}  # and more than 0


def outside() -> list[tuple[str, Any]]:
    """Values just beyond what an option takes."""
    found: list[tuple[str, Any]] = []
    for name, (least, most) in LIMITS.items():
        step = 0.001 if name in FLOATS else 1
        found += [(name, least - step), (name, most + step)]
    found += [(name, beyond) for name, most in UP_TO.items() for beyond in (0, most + 0.001)]
    found += [(name, no) for name in (*FLOATS, *UP_TO) for no in (float("nan"), float("inf"), -float("inf"))]
    found += [("stop", [""]), ("stop", ["x" * 65]), ("stop", ["x"] * 5), ("stop", "x")]
    found += [("on_no_reader", {AFTER: beyond}) for beyond in (-1, 24 * 3_600_000 + 1)]
    found += [
        ("on_no_reader", {AFTER: 1, "more": 1}),
        ("on_no_reader", "stop"),
        ("priority", "batch"),
    ]
    return found


@pytest.mark.parametrize(("name", "value"), outside())
def test_an_option_beyond_its_limit_is_refused_by_name(settings: Settings, name: str, value: Any):
    """It says which it is."""
    with pytest.raises(Refused) as found:
        parsed(settings, options={name: value})
    assert found.value.refusal.message.startswith(f"options.{name}")


@pytest.mark.parametrize("end", [0, 1], ids=["least", "most"])
def test_an_option_at_its_limit_is_taken(settings: Settings, end: int):
    """Each of them."""
    given: dict[str, Any] = {name: limits[end] for name, limits in LIMITS.items()}
    given |= {name: (0.001, most)[end] for name, most in UP_TO.items()}
    given |= {"stop": [["x"], ["x" * 64] * 4][end], "on_no_reader": {AFTER: (0, 86_400_000)[end]}}
    options = parsed(settings, options=given).options
    assert {name: getattr(options, name) for name in given if name != "on_no_reader"} == {
        name: value for name, value in given.items() if name != "on_no_reader"
    }
    assert parse.no_reader_ms(options) == (0, 86_400_000)[end]


def test_what_is_not_given_is_what_no_one_asked_for():
    """Nothing is cut, forced or cancelled."""
    assert msgspec.structs.asdict(Options()) == {
        "max_tokens": None,
        "min_tokens": 0,
        "temperature": None,
        "top_p": 1.0,
        "top_k": 0,
        "min_p": 0.0,
        "seed": None,
        "stop": [],
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "repetition_penalty": 1.0,
        "priority": PriorityClass.INTERACTIVE,
        "deadline_ms": None,
        "on_no_reader": "continue",
        "response_format": None,
    }
    assert msgspec.to_builtins(Options()) == {}
    assert parse.no_reader_ms(Options()) is None


def test_an_answer_is_no_shorter_than_its_least():
    """What it may have at most is known by now."""
    assert parse.sampling(Options(min_tokens=1), 1, 0.7).max_tokens == 1
    with refused("bad_request", "options.min_tokens: 2 is more than max_tokens, 1"):
        parse.sampling(Options(min_tokens=2), 1, 0.7)


def test_an_answer_is_sampled_as_asked():
    """The model's own temperature only where none was given, also where 0 was."""
    asked = Options(
        max_tokens=9,
        min_tokens=2,
        temperature=0.0,
        top_p=0.5,
        top_k=4,
        min_p=0.25,
        seed=7,
        stop=["x"],
        presence_penalty=0.5,
        frequency_penalty=-0.5,
        repetition_penalty=1.5,
        response_format="packed",
    )
    assert parse.sampling(asked, 9, 0.7) == Sampling(
        max_tokens=9,
        min_tokens=2,
        temperature=0.0,
        top_p=0.5,
        top_k=4,
        min_p=0.25,
        seed=7,
        stop=("x",),
        presence_penalty=0.5,
        frequency_penalty=-0.5,
        repetition_penalty=1.5,
        response_format="packed",
    )
    assert parse.sampling(Options(), 9, 0.7).temperature == 0.7


def test_a_class_is_lowered_to_what_a_key_may_have():
    """Never raised."""
    interactive, standard, bulk = PriorityClass
    found = {
        (asked.value, most.value): parse.capped_priority(asked, most)
        for asked in PriorityClass
        for most in PriorityClass
    }
    assert found == {
        ("interactive", "interactive"): interactive,
        ("interactive", "standard"): standard,
        ("interactive", "bulk"): bulk,
        ("standard", "interactive"): standard,
        ("standard", "standard"): standard,
        ("standard", "bulk"): bulk,
        ("bulk", "interactive"): bulk,
        ("bulk", "standard"): bulk,
        ("bulk", "bulk"): bulk,
    }


def test_each_class_has_its_deadline_and_none_is_later_than_bulk(settings: Settings):
    """What was asked for comes first."""
    names = ("deadline_interactive_ms", "deadline_standard_ms", "deadline_bulk_ms")
    changed = settings.model_copy(update=dict(zip(names, (10, 20, 30), strict=True)))
    assert [parse.deadline_ms(Options(), each, 1_000, changed) for each in PriorityClass] == [
        1_010,
        1_020,
        1_030,
    ]
    found = [
        parse.deadline_ms(Options(deadline_ms=ms), PriorityClass.BULK, 1_000, changed) for ms in (5, 30, 31)
    ]
    assert found == [1_005, 1_030, 1_030]


def test_gateways_of_two_versions_know_the_same_send(settings: Settings):
    """What is hashed stays as it is: an update may come between a send and its repetition."""
    said = [{"role": "user", "content": "hi"}]
    found = [
        parsed(settings, model="m", options={"seed": 1}).body_hash,
        parsed(settings, messages=said, metadata={"a": 1}).body_hash,
    ]
    assert found == [
        "380e193e1ea927cb505a5721fc519152dff3219517988578f3e4a11ad0715a90",
        "f4986e6bee9f7585be5cc2aeb7f08488400df66816e20949c5ef80bf5d7c0051",
    ]
