"""How hard the models look: PARLEY_MODEL_EXAMPLES runs of PARLEY_MODEL_STEPS steps each."""

import os

from hypothesis import settings

from tests.support.tiers import by_form

PROFILE = settings(
    max_examples=int(os.environ.get("PARLEY_MODEL_EXAMPLES", by_form("100", "1000"))),
    stateful_step_count=int(os.environ.get("PARLEY_MODEL_STEPS", "50")),
)
