"""What random histories of a tenant's slot are made of."""

from hypothesis import strategies as st

from billing.limits import COUNTS, Scope
from tests.billing.limited import a_rate, places

PICKS = st.integers(0, 5)
TOKENS = st.integers(0, 40)
SELDOM = st.integers(0, 3).map(lambda drawn: drawn == 3)
RATE_LIMITS = st.builds(
    a_rate,
    st.sampled_from(list(COUNTS)),
    st.sampled_from([6_000, 90_000, 600, 60, 0]),
    st.sampled_from([1_000, 5_000, 200, 50, 3]),
    shadow=SELDOM,
)
UNITS = st.lists(
    RATE_LIMITS | st.builds(places, st.sampled_from([9, 5, 3, 1]), shadow=SELDOM),
    max_size=2,
    unique_by=lambda unit: (unit.dimension, unit.shadow),
)
BUDGETS = st.lists(
    st.tuples(
        st.sampled_from([Scope.TENANT, Scope.USER]),
        st.sampled_from([1_000, 3_000, 300, 100_000, 600, 90, 0]),
        st.integers(0, 3).map(lambda drawn: drawn < 3),
        SELDOM,
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda each: (each[0], each[3]),
)
