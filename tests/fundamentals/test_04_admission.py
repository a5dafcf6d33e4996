"""A request is admitted once, under all its limits, and settled once."""

from billing.limits import Dimension, RequestLimits, Scope, UnitLimit
from billing.quota.client import Quota
from billing.quota.types import Admitted
from core.configuration.settings import Settings
from core.errors import Refusal
from tests.billing.events import an_event
from tests.billing.quota.admissions import an_admission
from tests.support.redis import Redis


async def test_a_place_is_held_until_the_answer_is_settled(redis: Redis, settings: Settings):
    """One Lua call each. Both may be repeated: a reply that was lost costs nobody anything."""
    quota = Quota(redis, settings)
    one = RequestLimits(units=(UnitLimit(Scope.TENANT, "", "*", Dimension.CONCURRENCY, 1, 1),))
    for dup in (False, True):
        admitted = await quota.admit(an_admission(id="r1", limits=one))
        assert isinstance(admitted, Admitted)
        assert admitted.dup is dup
    second = await quota.admit(an_admission(id="r2", limits=one))
    assert isinstance(second, Refusal)
    assert second.code == "rate_limited"
    event = an_event("r1", "t1")
    assert [await quota.settle(event) for _ in range(2)] == ["settled", "dup"]
    assert isinstance(await quota.admit(an_admission(id="r2", limits=one)), Admitted)
