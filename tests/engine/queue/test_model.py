"""Any sequence of queue operations, retried at will, against a small model in Python."""

from functools import partial
from typing import cast

import pytest
from hypothesis import settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    run_state_machine_as_test,
)

from tests.engine.queue.queue_machine import QueueMachine
from tests.support.patience import LONG_TEST_SECONDS
from tests.support.tiers import by_form


@pytest.mark.timeout(LONG_TEST_SECONDS)  # a failure is shrunk before it is shown
def test_any_history_agrees_with_the_model(redis_url: str):
    """INV-1, INV-2, INV-3, INV-4, INV-5: Each request in one place, its log dense, its tokens exact, its
    owner the only writer, one end each."""
    run_state_machine_as_test(
        cast(type[RuleBasedStateMachine], partial(QueueMachine, redis_url)),
        settings=settings(max_examples=by_form(25, 400), stateful_step_count=by_form(60, 80)),
    )
