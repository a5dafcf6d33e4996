"""What a policy does to a text, step by step."""

import time

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.policies.trial import TrialMatch, TrialSpan, tokens_of, tried
from engine.safety.documents import PolicyDetector, PolicyDocument, PolicyPattern
from engine.safety.filter import Filter
from engine.safety.policy import CompiledPolicy, compiled
from engine.safety.rules import Rule
from engine.safety.verdicts import Block, Flag
from tests.support.tiers import by_form

CARD = "4111 1111 1111 1111"
DOCUMENT = PolicyDocument(
    (PolicyDetector("card", "redact", prompt="block"), PolicyDetector("email", "flag", prompt="redact")),
    (
        PolicyPattern("code", "X[0-9]{3}", "block"),
        PolicyPattern("tail", "1111!", "redact", scope="project"),
    ),
)
ANSWERS, PROMPTS = compiled(DOCUMENT), compiled(DOCUMENT, "prompt")
PIECES = st.sampled_from((CARD, "a@b.example", "X123", "X12", " é🙂 ", "\n", "word", "1", "!", "[CARD_1]"))
TEXTS = st.lists(PIECES, max_size=12).map("".join)


def test_matches_spans_and_what_is_held_are_told() -> None:
    """Matches that overlap are one place; a flag is a place of what is shown."""
    trial = tried(f"é {CARD}! me@here.example", ANSWERS)
    assert trial.matches == [
        TrialMatch(2, 19, "card", "redact", "platform", CARD),
        TrialMatch(17, 5, "tail", "redact", "project", "1111!"),
        TrialMatch(23, 15, "email", "flag", "platform", "me@here.example"),
    ]
    assert trial.spans == [TrialSpan(2, 20, "redact", "card", "platform", "[CARD_1]", 2)]
    assert trial.shown == "é [CARD_1] me@here.example"
    assert trial.flags[-1] == Flag("email", "flag", "platform", 11, 15)
    assert max(step.held for step in trial.steps) >= 19
    assert [step.token for step in trial.steps][:2] == ["é", " 411"]
    assert (trial.steps[-1].token, trial.steps[-1].held, trial.block) == ("", 0, None)


def test_nothing_follows_a_block() -> None:
    """What stands before it is shown."""
    trial = tried("see X123 and more", ANSWERS)
    assert (trial.shown, trial.block) == ("see ", Block("code", "platform"))
    assert trial.spans == [TrialSpan(4, 4, "block", "code", "platform", "", 1)]
    assert trial.steps[-1].held == 0


def test_a_prompt_is_looked_at_whole() -> None:
    """By the rules for prompts."""
    trial = tried("a@b.example", PROMPTS, whole=True)
    assert (trial.shown, len(trial.steps)) == ("[EMAIL_1]", 1)
    assert tried(f"a {CARD}", PROMPTS, whole=True).block == Block("card", "platform")


@settings(max_examples=by_form(200, 2_000))
@given(TEXTS)
def test_a_trial_is_what_a_filter_does(text: str) -> None:
    """However its tokens are guessed: what is shown, flagged and taken is what a worker would."""
    assert "".join(tokens_of(text)) == text
    for policy in (ANSWERS, PROMPTS):
        for whole in (True, False):
            trial = tried(text, policy, whole)
            assert (trial.shown, sorted(trial.flags, key=_place)) == _filtered(text, policy)
            for span in trial.spans:
                assert span.matches >= 1
                if span.outcome == "redact":
                    assert span.placeholder.startswith(f"[{span.category.upper()}_")
            assert (trial.block is not None) == any(span.outcome == "block" for span in trial.spans)


def _filtered(text: str, policy: CompiledPolicy) -> tuple[str, list[Flag]]:
    out = Filter(policy).feed(text, final=True)
    shown = "".join(each for each in out if isinstance(each, str))
    return shown, sorted((each for each in out if isinstance(each, Flag)), key=_place)


def _place(flag: Flag) -> tuple[int, int, str]:
    return flag.p, flag.n, flag.category


def test_a_text_full_of_matches_costs_linear_time() -> None:
    """Each letter is a match, each placeholder has letters that are flagged nowhere else."""
    policy = CompiledPolicy(
        [Rule("[a-z]", "letter", "redact", "tenant"), Rule("[A-Z]", "capital", "flag", "tenant")]
    )

    def seconds(size: int, whole: bool) -> float:
        began = time.thread_time()
        tried("ab" * size, policy, whole)
        return time.thread_time() - began

    for whole in (True, False):
        assert seconds(8_000, whole) < 10 * seconds(2_000, whole)
