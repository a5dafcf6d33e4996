"""`parley apply`: pools become what a file says, which is shown first; nothing of others' is overwritten."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from billing.cli import apply
from billing.cli.apply import apply_command
from billing.cli.pools import pools_command
from billing.pools import edit_pool, read_pools
from core.errors import StartupError
from core.redis.client import RedisClient
from core.sql.database import Database
from tests.billing.cli.commands import COMMANDS, Command, on_database, rows
from tests.billing.cli.commands import parley as parley  # the fixture
from tests.support.models import add_model
from tests.support.redis import Redis

PAGE = Path(__file__).parents[3] / "docs" / "operations" / "models-and-workers.md"
Workers = dict[str, int]


@pytest.fixture(autouse=True)
def _apply(  # pyright: ignore[reportUnusedFunction]
    monkeypatch: pytest.MonkeyPatch, parley: Command, home: Path
) -> None:
    """`parley pools` and `parley apply` beside the other commands, and models."""
    monkeypatch.setitem(COMMANDS, "pools", pools_command)
    monkeypatch.setitem(COMMANDS, "apply", apply_command)
    for name in ("qwen3-32b", "llama-3.3-70b"):
        on_database(home, lambda db, name=name: add_model(db, name))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The example of the page."""
    (found,) = re.findall(r"^```yaml\n(pools:\n.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    (path := tmp_path / "pools.yaml").write_text(found)
    return path


def workers(home: Path) -> Workers:
    """Of each pool."""
    return on_database(home, lambda db: _workers(db))


async def _workers(db: Database) -> Workers:
    return {pool.pool: pool.workers for pool in await read_pools(db)}


def refused(result: Any) -> str:
    """Why a command did nothing more."""
    assert isinstance(result.exception, StartupError), (result.output, result.exception)
    return str(result.exception)


def test_a_file_is_shown_asked_for_and_done(
    parley: Command, home: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The documented example, with its reason in the audit log; again it changes nothing, and what `export`
    prints changes nothing either."""
    shown = parley("apply", "-f", str(file), "--dry-run").output
    assert "+ eu-1: create model qwen3-32b, version v1, workers 3, labels zone=eu" in shown
    assert workers(home) == {}
    monkeypatch.setattr(apply, "agrees", lambda question: False)
    assert "nothing is changed" in refused(parley("apply", "-f", str(file)))
    assert workers(home) == {}
    monkeypatch.setattr(apply, "agrees", lambda question: True)
    done = parley("apply", "-f", str(file), "--reason", "acme grows")
    assert (done.exit_code, "acme-1: done" in done.output) == (0, True), done.output
    assert workers(home) == {"eu-1": 3, "acme-1": 2}
    assert "acme grows" in parley("audit", "list", "--json").output
    again = parley("apply", "-f", str(file), "--prune")
    assert "all pools are as pools.yaml says" in again.output
    exported = file.with_name("exported.yaml")
    exported.write_text(parley("pools", "export").stdout)
    assert rows(parley("apply", "-f", str(exported), "--yes", "--json")) == []


def test_an_edit_and_a_prune_leave_what_they_do_not_name(
    parley: Command, home: Path, file: Path, redis_url: str
) -> None:
    """A pruned pool drains, stays while something is left in it, and is deleted by the next time."""
    rows(parley("apply", "-f", str(file), "--yes", "--json"))
    file.write_text("pools:\n  - pool: acme-1\n    workers: 4\n")
    (edited,) = rows(parley("apply", "-f", str(file), "--yes", "--json"))
    assert (edited["changes"], edited["done"]) == ({"workers": {"from": 2, "to": 4}}, True)
    assert workers(home) == {"eu-1": 3, "acme-1": 4}
    on_redis(home, redis_url, lambda redis: redis.zadd("{p:eu-1}deadlines", {"t:r": 9e15}))
    (pruned,) = rows(parley("apply", "-f", str(file), "--prune", "--yes", "--json"))
    assert (pruned["action"], pruned["done"], "1 requests" in pruned["why"]) == ("delete", False, True)
    on_redis(home, redis_url, lambda redis: redis.delete("{p:eu-1}deadlines"))
    (gone,) = rows(parley("apply", "-f", str(file), "--prune", "--yes", "--json"))
    assert (gone["pool"], gone["done"], workers(home)) == ("eu-1", True, {"acme-1": 4})


def on_redis(home: Path, url: str, action: Callable[[RedisClient], Any]) -> None:
    """Do something in Redis."""

    async def run(_: Database) -> None:
        async with Redis.from_url(url) as redis:
            await action(redis)

    on_database(home, run)


def test_what_is_refused_is_told_with_its_line(parley: Command, home: Path, file: Path) -> None:
    """What the file says wrongly, and what the installation would refuse; before anything is done."""
    file.write_text("pools:\n  - pool: a\n    modle: m\n    workers: x\n")
    assert refused(parley("apply", "-f", str(file), "--yes")).splitlines() == [
        "pools.yaml:3: a pool has no field 'modle': did you mean model?",
        "pools.yaml:4: workers: this is a whole number, like 2",
    ]
    for said, told in (
        ("model: nosuch", "pools.yaml:3: a: there is no model 'nosuch'"),
        ("workers: 2", "pools.yaml:2: a: it is new: name its model"),
        ("model: qwen3-32b\n    workers: 9999", "pools.yaml:4: a: workers is from 0 to 1,024"),
    ):
        file.write_text(f"pools:\n  - pool: a\n    {said}\n")
        assert refused(parley("apply", "-f", str(file), "--yes")).startswith(told)
    assert workers(home) == {}
    assert parley("apply", "-f", str(file), "--json").exit_code == 2
    assert "cannot be read" in refused(parley("apply", "-f", str(file.with_name("none")), "--yes"))


def test_what_others_changed_meanwhile_is_not_overwritten(
    parley: Command, home: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between what was shown and the yes; what was done before stays done, and is told."""
    rows(parley("apply", "-f", str(file), "--yes", "--json"))
    file.write_text("pools:\n  - {pool: acme-1, workers: 5}\n  - {pool: eu-1, workers: 6}\n")

    def meanwhile(question: str) -> bool:
        on_database(home, lambda db: edit_pool(db, "eu-1", {"workers": 8}))
        return question == "do this to 2 pools?"

    monkeypatch.setattr(apply, "agrees", meanwhile)
    why = refused(parley("apply", "-f", str(file)))
    assert why.startswith("pools.yaml:3: eu-1: it was changed since you read it")
    assert "1 of 2 were done before: apply the file again" in why
    assert workers(home) == {"eu-1": 8, "acme-1": 5}


def test_a_pruned_pool_makes_way_for_one_that_takes_its_place(
    parley: Command, home: Path, file: Path
) -> None:
    """Two shared pools of one model cannot be: the new one is made once the old one drains."""
    rows(parley("pools", "create", "old", "--model", "qwen3-32b", "--json"))
    assert "a shared pool for qwen3-32b is there" in refused(parley("apply", "-f", str(file), "--yes"))
    rows(parley("apply", "-f", str(file), "--prune", "--yes", "--json"))
    assert workers(home) == {"eu-1": 3, "acme-1": 2}
