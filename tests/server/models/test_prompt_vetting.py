"""What a gateway lets through of what was sent: on the event loop or off it, or refused typed."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import pytest

from core.errors import Refused, RefusedText
from engine.api import CompiledPolicy, PolicyDocument, VettedPrompt, pinned_policy
from engine.safety import cpu_budget
from engine.safety.documents import DEFAULT, PolicyDetector, PolicyPattern
from engine.safety.verdicts import Flag
from server.models import prompt_vetting
from server.models.prompt_vetting import INLINE_CHARACTERS_MAX, PromptVetting
from server.models.safety_policies import ProjectPolicy
from server.protocol.flags import SentFlag
from tests.support.patience import wait_until

CARD, IBAN = "4111 1111 1111 1111", "DE89370400440532013000"


def policy(document: PolicyDocument) -> ProjectPolicy:
    """As it holds for a project."""
    return ProjectPolicy(document, pinned_policy(document))


RULES = policy(
    PolicyDocument(
        (
            PolicyDetector("card", prompt="redact"),
            PolicyDetector("iban", prompt="block", scope="tenant"),
            PolicyDetector("email", prompt="flag"),
        )
    )
)


def user(*texts: str) -> list[dict[str, str]]:
    """Messages."""
    return [{"role": "user", "content": text} for text in texts]


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The hashes of what was compiled."""
    found, original = list[str](), prompt_vetting._compiled

    def noting(project: ProjectPolicy) -> Any:
        found.append(project.hash)
        return original(project)

    monkeypatch.setattr(prompt_vetting, "_compiled", noting)
    return found


async def test_the_default_costs_a_prompt_nothing(compiled: list[str]):
    """It has no rules for prompts."""
    found = await PromptVetting().vet("t", policy(DEFAULT), user(CARD), several=False)
    assert (found.messages, found.sent, found.flags, compiled) == (user(CARD), (), (), [])


@pytest.mark.parametrize("more", [0, INLINE_CHARACTERS_MAX])
async def test_what_is_redacted_is_told_by_both_places(more: int, compiled: list[str]):
    """In what was sent, and of the last message in what it is now; the same in a thread."""
    vetting, tail = PromptVetting(), " x" * more
    for _ in range(2):
        found = await vetting.vet("t", RULES, user(f"a {CARD}{tail}"), several=False)
        assert found.messages == user(f"a [CARD_1]{tail}")
        assert found.sent == (SentFlag("card", "redact", "platform", 2, 19, "[CARD_1]"),)
        assert found.flags == (Flag("card", "redact", "platform", 2, 8),)
        assert found.counts == {("card", "redact"): 1}
    assert compiled == [RULES.hash]


async def test_each_of_several_messages_is_vetted():
    """Its place names which; roles stay; what stands after a block is not looked at."""
    messages = [{"role": "system", "content": "of ann@example.org"}, *user(CARD), *user("plain")]
    found = await PromptVetting().vet("t", RULES, messages, several=True)
    assert [each["content"] for each in found.messages] == ["of ann@example.org", "[CARD_1]", "plain"]
    assert [each["role"] for each in found.messages] == ["system", "user", "user"]
    assert [(each.category, each.m, each.x) for each in found.sent] == [
        ("email", 0, None),
        ("card", 1, "[CARD_1]"),
    ]
    with pytest.raises(Refused) as refused:
        await PromptVetting().vet("t", RULES, user("a", f"b {IBAN}", IBAN), several=True)
    assert refused.value.refusal.text == RefusedText("iban", "tenant", 2, len(IBAN), 1)


async def test_a_system_prompt_is_vetted_beside_the_message():
    """First; its places say so, and the message's flags are not its."""
    found = await PromptVetting().vet("t", RULES, user("hi"), several=False, system=f"a {CARD}")
    assert (found.system, found.messages, found.flags) == ("a [CARD_1]", user("hi"), ())
    assert found.sent == (SentFlag("card", "redact", "platform", 2, 19, "[CARD_1]", "system"),)
    with pytest.raises(Refused) as refused:
        await PromptVetting().vet("t", RULES, user(CARD), several=False, system=IBAN)
    assert refused.value.refusal.text == RefusedText("iban", "tenant", 0, len(IBAN), "system")


async def test_a_refusal_says_what_to_do_and_nothing_of_the_text():
    """Whose policy it was and for what; the place is beside it."""
    with pytest.raises(Refused) as refused:
        await PromptVetting().vet("t", RULES, user(f"b {IBAN}"), several=False)
    found = refused.value.refusal
    assert (found.code, found.retry, found.text) == (
        "safety_blocked",
        False,
        RefusedText("iban", "tenant", 2, len(IBAN)),
    )
    assert "a safety policy of the tenant blocks prompts in which it finds “iban”" in found.message
    assert IBAN not in repr(found)


async def test_long_texts_hold_nobody_up(monkeypatch: pytest.MonkeyPatch):
    """The event loop goes on meanwhile, and other tenants' texts too; those of the same tenant wait."""
    go, loop, original = asyncio.Event(), asyncio.get_running_loop(), prompt_vetting._vetted
    begun = list[int]()

    def slow(texts: Sequence[str], policy: CompiledPolicy) -> list[VettedPrompt]:
        begun.append(len(texts))
        asyncio.run_coroutine_threadsafe(go.wait(), loop).result()
        return original(texts, policy)

    vetting, text = PromptVetting(), "x" * (INLINE_CHARACTERS_MAX + 1)
    await vetting.vet("t", RULES, user("warm"), several=False)
    monkeypatch.setattr(prompt_vetting, "_vetted", slow)
    pending = [
        asyncio.create_task(vetting.vet(tenant, RULES, user(*[text] * count), several=True))
        for tenant, count in (("t", 1), ("t", 2), ("other", 3))
    ]
    await wait_until(lambda: len(begun) == 2)
    assert begun == [1, 3]
    go.set()
    assert [len((await each).messages) for each in pending] == [1, 2, 3]


async def test_what_cannot_be_compiled_lets_nothing_through():
    """It was saved by a version that knows more; the send is refused, as a fault of ours."""
    unknown = policy(PolicyDocument((PolicyDetector("card", prompt="redact", version=99),)))
    for _ in range(2):
        with pytest.raises(Refused) as refused:
            await PromptVetting().vet("t", unknown, user("hello"), several=False)
        assert refused.value.refusal.code == "internal"


async def test_a_text_that_takes_too_much_cpu_is_refused(monkeypatch: pytest.MonkeyPatch):
    """As a fault of ours, with nothing of the text."""
    monkeypatch.setattr(cpu_budget, "SECONDS_MIN", -1)
    monkeypatch.setattr(cpu_budget, "CHEAP_CLOCK", time.thread_time)
    for text in (CARD, CARD * INLINE_CHARACTERS_MAX):
        with pytest.raises(Refused) as refused:
            await PromptVetting().vet("t", RULES, user(text), several=False)
        assert refused.value.refusal.code == "internal"
        assert CARD not in refused.value.refusal.message


async def test_compiled_policies_are_kept_within_bounds(compiled: list[str], monkeypatch: pytest.MonkeyPatch):
    """The last used; also where many come at once."""
    monkeypatch.setattr(prompt_vetting, "COMPILED_MAX", 2)
    some = [
        policy(PolicyDocument(patterns=(PolicyPattern(f"p{at}", f"EMP-{at}", prompt="flag"),)))
        for at in range(4)
    ]
    vetting = PromptVetting()
    for at in (0, 1, 0, 2, 0, 1):
        await vetting.vet("t", some[at], user("x"), several=False)
    assert compiled == [some[at].hash for at in (0, 1, 2, 1)]
    found = await asyncio.gather(
        *(vetting.vet(f"t{at}", each, user(f"EMP-{at}"), several=False) for at, each in enumerate(some))
    )
    assert [len(each.sent) for each in found] == [1] * 4
