"""`parley pools`, as an operator types and a script reads it."""

from pathlib import Path

import pytest

from billing.cli.pools import pools_command
from billing.dedicated_pools.hours import HOUR_MS, ReadyInterval
from billing.dedicated_pools.posting import SETTLE_MS, post_hours
from billing.dedicated_pools.store import store
from billing.tenants.tenancy import create_tenant, find_tenant
from core.clock import now_ms
from core.errors import StartupError
from core.sql.database import Database
from tests.billing.cli.commands import COMMANDS, Command, on_database, rows
from tests.billing.cli.commands import parley as parley  # the fixture
from tests.billing.dedicated_pools.dedicated import dedicate
from tests.support.models import add_model

TERMS = ("--tenant", "acme", "--days", "30")
BOOK = 'book = "default"\n[models."*"]\ninput = "0"\noutput = "0"\n[gpus."*"]\nhour = "3.60"\n'


@pytest.fixture(autouse=True)
def _pools(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    """`parley pools` beside the other commands."""
    monkeypatch.setitem(COMMANDS, "pools", pools_command)


def test_a_pool_is_dedicated_and_released(parley: Command, home: Path, tmp_path: Path) -> None:
    """What its owner's prices would do that is hardly meant is said when it is."""
    on_database(home, lambda db: add_model(db, "m"))
    dedicate_it = ("pools", "edit", "a", "--tenant", "acme", "--project", "default", "--json")
    (made,) = rows(parley("pools", "create", "a", "--model", "m", "--tenant", "acme", "--json"))
    assert "no price for any GPU" in made["note"]
    (committed,) = rows(
        parley("pools", "commit", *TERMS, "--gpu", "*", "--gpus", "2", "--rate", "2.40 USD", "--json"),
    )
    assert (committed["rate_nano"], committed["payment"]) == (2_400_000_000, "monthly")
    assert rows(parley("pools", "commitments", "--tenant", "acme", "--json")) == [committed]
    (again,) = rows(parley(*dedicate_it))
    assert "bills tokens too" in again["note"]
    (file := tmp_path / "prices.toml").write_text(BOOK)
    rows(parley("prices", "import", str(file), "--now", "--json"))
    rows(parley("pools", "edit", "a", "--tenant", "none", "--json"))
    (priced,) = rows(parley(*dedicate_it))
    assert priced["note"] == ""
    listed = rows(parley("pools", "owners", "--json"))
    assert [row["tenant"] for row in listed] == ["acme", "acme", "(shared)", "acme"]


def test_owners_see_what_was_idle_and_operators_what_it_earned(
    parley: Command, home: Path, tmp_path: Path
) -> None:
    """GPU-seconds and nano-USD for scripts, hours and dollars for people; a tenant sees its own only."""
    (file := tmp_path / "prices.toml").write_text(BOOK)
    rows(parley("prices", "import", str(file), "--now", "--json"))
    rows(parley("pools", "costs", "--gpu", "h200", "--hour", "1.80 USD", "--json"))
    on_database(home, an_hour)
    mine, shared = rows(parley("pools", "usage", "--json"))
    assert (mine["pool"], mine["tenant"], shared["tenant"]) == ("a", "acme", "")
    assert (mine["ready_gpu_seconds"], mine["busy_gpu_seconds"], mine["idle_gpu_seconds"]) == (600, 200, 400)
    assert (mine["overage_gpu_seconds"], mine["committed_gpu_seconds"]) == (600, 0)
    assert (mine["gpu_nano"], mine["cost_nano"]) == (600_000_000, None)
    assert rows(parley("pools", "usage", "--tenant", "acme", "--json")) == [mine]
    shown = parley("pools", "usage").output
    assert "(shared)" in shown
    assert "0.167" in shown
    (cost,) = rows(parley("pools", "costs", "--json"))
    assert (cost["gpu"], cost["hour_nano"]) == ("h200", 1_800_000_000)


async def an_hour(database: Database) -> None:
    """The pool a is acme's and b is shared: ten minutes of a GPU of each, in the hour before this one. Prices
    were made after it."""
    acme = await find_tenant(database, "acme")
    assert acme is not None
    await create_tenant(database, "other")
    now = now_ms()
    start = now - now % HOUR_MS - HOUR_MS
    await dedicate(database, "a", acme.tenant_id, start)
    each = ReadyInterval("a", "w", start, start + 600_000, 200_000, 1, "ready", "GPU-w", "h200")
    await store(
        database, [each, ReadyInterval("b", "v", start, start + 600_000, 0, 1, "ready", "GPU-v", "h200")]
    )
    await post_hours(database, now + SETTLE_MS)


def test_what_cannot_be_done_is_one_line(parley: Command) -> None:
    """With what to do instead."""
    for arguments, says in (
        (("create", "a", "--model", "m", "--tenant", "nobody"), "no tenant"),
        (("create", "a", "--model", "m", "--tenant", "acme", "--project", "none"), "no project"),
        (("edit", "a", "--tenant", "none"), "there is no pool"),
        (("costs", "--gpu", "h200"), "neither"),
        (("costs", "--gpu", "h200", "--hour", "x"), "is no amount"),
        (("commit", *TERMS, "--gpu", "x", "--gpus", "0", "--rate", "1 USD"), "1 to 1024"),
    ):
        result = parley("pools", *arguments)
        assert isinstance(result.exception, StartupError), result.output
        assert says in str(result.exception)


def test_pools_are_listed_with_what_the_fleet_sees(parley: Command, home: Path) -> None:
    """The workers that serve of those desired, and why; without a fleet that nobody knows."""
    on_database(home, lambda db: add_model(db, "m"))
    rows(parley("pools", "create", "big", "--model", "m", "--workers", "3", "--json"))
    (listed,) = rows(parley("pools", "list", "--json"))
    assert (listed["workers"], listed["observed"]["as_desired"]) == (3, None)
    shown = " ".join(parley("pools", "list").output.split())
    assert "big m v1 ? of 3 no fleet runs: `parley fleet`" in shown
    assert "? of 3" in parley("pools", "show", "big").output
