"""How hard the models look: PARLEY_MODEL_EXAMPLES runs of PARLEY_MODEL_STEPS steps each.

A failing run is told as it was found: making it shorter takes minutes, which the test's limit would call a
hang, and what failed would stay hidden. PARLEY_MODEL_SHRINK makes it shorter; raise pytest's --timeout then.
"""

import os

from hypothesis import Phase, settings

from tests.support.tiers import by_form

PROFILE = settings(
    max_examples=int(os.environ.get("PARLEY_MODEL_EXAMPLES", by_form("100", "1000"))),
    stateful_step_count=int(os.environ.get("PARLEY_MODEL_STEPS", "50")),
    phases=[each for each in Phase if each is not Phase.shrink or "PARLEY_MODEL_SHRINK" in os.environ],
)
