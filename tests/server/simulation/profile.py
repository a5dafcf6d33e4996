"""How hard the models look: PARLEY_MODEL_EXAMPLES runs of PARLEY_MODEL_STEPS steps each."""

import os

from hypothesis import HealthCheck, settings

PROFILE = settings(
    max_examples=int(os.environ.get("PARLEY_MODEL_EXAMPLES", "250")),
    stateful_step_count=int(os.environ.get("PARLEY_MODEL_STEPS", "50")),
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
