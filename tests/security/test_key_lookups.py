"""What the time of a look-up tells of keys: nothing. Counted, because clocks are no proof."""

from typing import Any

import pytest

from billing.api import authenticate_key, create_tenant, principal_of_key
from billing.tables.tenants import TenantUser
from billing.tenants import keys
from core.sql.database import Database
from tests.server.http_site import HttpSite


class CountedLookups:
    """What one look-up does: statements, digests and comparisons, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps: list[tuple[str, int]] = []
        grant, digest, compare = keys._grant, keys._digest, keys.hmac.compare_digest  # pyright: ignore[reportPrivateUsage]

        async def counted_grant(db: Database, statement: Any, facts: dict[str, str]) -> Any:
            self.steps.append(("statement", id(statement)))
            return await grant(db, statement, facts)

        def counted_digest(secret: str) -> str:
            self.steps.append(("digest", len(secret)))
            return digest(secret)

        def counted_compare(known: str, shown: str) -> bool:
            self.steps.append(("compare", len(known)))
            return compare(known, shown)

        monkeypatch.setattr(keys, "_grant", counted_grant)
        monkeypatch.setattr(keys, "_digest", counted_digest)
        monkeypatch.setattr(keys.hmac, "compare_digest", counted_compare)

    def take(self) -> list[tuple[str, int]]:
        """The steps since the last call."""
        steps, self.steps = self.steps, []
        return steps


async def test_an_unknown_prefix_does_the_work_of_a_wrong_secret(
    site: HttpSite, monkeypatch: pytest.MonkeyPatch
):
    """One statement, one digest, one comparison of equal length, whatever is wrong."""
    counted = CountedLookups(monkeypatch)
    prefix = site.key.split("_")[1]
    assert await authenticate_key(site.edge.db, site.key) is not None
    right = counted.take()
    assert [name for name, _ in right] == ["statement", "digest", "compare"]
    for wrong in (f"pk_{prefix}_{'0' * 48}", f"pk_{'0' * 12}_{'0' * 48}"):
        assert await authenticate_key(site.edge.db, wrong) is None
        assert counted.take() == right


async def test_nobodys_digest_lets_nobody_in(site: HttpSite, monkeypatch: pytest.MonkeyPatch):
    """A secret that had the digest that unknown prefixes are compared with is still nobody's."""
    monkeypatch.setattr(keys, "_digest", lambda _secret: keys.NO_DIGEST)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    assert await authenticate_key(site.edge.db, f"pk_{'0' * 12}_{'0' * 48}") is None


async def test_a_key_is_looked_up_in_its_tenant_and_so_is_its_user(site: HttpSite):
    """By another tenant's name it is nobody's; and whoever is closed there shuts out nobody here."""
    other = (await create_tenant(site.edge.db, "globex")).tenant_id
    async with site.edge.db.transaction() as session:
        session.add(TenantUser(tenant_id=other, id="ann", name="ann", created_ms=1, closed_ms=1))
    assert await principal_of_key(site.edge.db, other, site.key_id) is None
    assert await principal_of_key(site.edge.db, site.tenant, site.key_id, "ann") is not None
