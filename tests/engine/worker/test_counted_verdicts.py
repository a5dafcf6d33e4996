"""Under which labels a request's safety verdicts are counted."""

from engine.worker.background_calls import counted_verdicts
from tests.billing.events import an_event


def test_answers_and_prompts_are_told_apart_and_own_rules_are_one_category():
    """Names that tenants chose would be labels without bound."""
    event = an_event(verdicts={"card": {"redact": 2, "prompt_redact": 1}, "employee_id": {"prompt_flag": 3}})
    assert list(counted_verdicts(event)) == [
        (2, {"category": "card", "action": "redact", "of": "answer"}),
        (1, {"category": "card", "action": "redact", "of": "prompt"}),
        (3, {"category": "own", "action": "flag", "of": "prompt"}),
    ]
