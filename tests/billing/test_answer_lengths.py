"""How long an answer gets whose sender does not say, by a tenant's rows."""

from zoneinfo import ZoneInfo

import pytest

from billing.limits import RequestFacts, TenantRows, limits_of
from billing.tables.limits import QuotaPolicy
from billing.tables.tenants import PLATFORM

FACTS = RequestFacts("t1", "p1", "k1", "u1", "llama-8b")
OF = {"tenant_id": "t1", "id": "a", "created_ms": 1, "dimension": "answer_tokens"}


def row(scope: str, limit: int, **facts: object) -> QuotaPolicy:
    """An open row."""
    return QuotaPolicy(**{**OF, "scope": scope, "limit_units": limit, **facts})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([], None),
        ([row("tenant", 900), row("project", 400)], ("project", 400)),
        ([row("tenant", 900), row("tenant", 800, tenant_id=PLATFORM, plan_id="p")], ("tenant", 800)),
        ([row("project", 400), row("project", 700, id="b", scope_id="p1")], ("project", 700)),
        ([row("tenant", 5, model_glob="gpt-*"), row("user", 9)], ("user", 9)),
    ],
)
def test_an_answer_has_the_least_of_all_lengths(
    rows: list[QuotaPolicy], said: tuple[str, int] | None
) -> None:
    """A plan's is not raised by a tenant's own. One for a certain project holds in place of the one for each.
    Nothing of it is counted."""
    found = limits_of(TenantRows("t1", ZoneInfo("UTC"), rows, []), FACTS, 1)
    assert (found.units, found.money) == ((), ())
    assert (found.answer and (found.answer.scope, found.answer.tokens)) == said
