"""What the engine's commands print of workers, lines and models, column by column."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from billing.pools import PoolRow
from core.terminal.terminal_tables import print_blocks
from engine.cli import models, top
from engine.cli.formatting import duration, time_of_day, worker_table
from engine.gpus import DeviceHealth
from engine.models.tables import ModelVersion
from engine.operations.inspection import ClassRow, PoolSnapshot
from engine.operations.model_facts import facts_of
from engine.operations.tenant_rows import TenantRow
from engine.operations.worker_rows import WorkerRow
from tests.engine.cli.printed import AT_MS, printed


def a_worker(**changes: Any) -> WorkerRow:
    """Of which nothing is known."""
    fields: dict[str, Any] = {
        **{"worker": "w1", "node": "n1", "model": "", "state": "ready", "claims": 3},
        **dict.fromkeys(("running", "waiting", "kv_usage", "step_age_ms", "memory_mib", "pid", "starts")),
        **{"lease_ms": 0, "why": "", **changes},
    }
    return WorkerRow(**fields)


def a_tenant(number: int, **changes: Any) -> TenantRow:
    """With one request in line."""
    fields: dict[str, Any] = {"waiting": 1, "running": 0, "blocked": False, "weight": 1.0, "tokens": 0}
    fields |= {"served": 0, **changes}
    return TenantRow(tenant=f"t{number}", **fields)


def test_workers_are_printed_with_what_is_known_of_them(capsys: pytest.CaptureFixture[str]):
    """Where nothing is known there is a dash, and a nought where there is nothing."""
    gpu = DeviceHealth(0, "u", 61, None, None, False, None, None)
    known = {"model": "tiny", "running": 0, "waiting": 2, "kv_usage": 0.256, "step_age_ms": 0, "why": "slow"}
    unread = DeviceHealth(0, "u", None, None, None, False, None, None)
    told = a_worker(**known, memory_mib=12_345, lease_ms=2_500, gpu=gpu)
    print_blocks(worker_table([told, a_worker(), a_worker(gpu=unread)]))
    lines = printed(capsys)
    assert [" ".join(line.split()) for line in lines] == [
        "worker node model state held running waiting KV step age memory GPU lease",
        "w1 n1 tiny ready 3 0 2 26% 0 ms 12,345 MiB 61 °C 2.5 s slow",
        *["w1 n1 - ready 3 - - - - - - -"] * 2,
    ]
    assert lines[0].index("node") == lines[2].index("n1") == 12, "a short name has room for a longer one"
    assert lines[0].index("held") + len("held") == lines[2].index("3") + 1, "numbers stand on the right"


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        *((None, "-"), (0, "0 ms"), (999, "999 ms"), (1_000, "1.0 s"), (119_999, "120.0 s")),
        *((120_000, "2 min"), (7_199_999, "119 min"), (7_200_000, "2 h")),
    ],
)
def test_a_span_is_printed_in_the_unit_that_suits_it(ms: int | None, text: str):
    """Each up to where the next one begins."""
    assert duration(ms) == text


def test_a_time_is_printed_to_the_millisecond():
    """One that was never reached is none."""
    assert time_of_day(AT_MS) == "2027-01-15T08:00:00.123+00:00"
    assert time_of_day(0) is None


def test_a_pool_is_printed_by_class_and_tenant(capsys: pytest.CaptureFixture[str]):
    """Twenty tenants, and how many more there are."""
    first = a_tenant(0, running=2, blocked=True, weight=2.5, tokens=12_345, served=6_789)
    tenants = [first, *(a_tenant(number) for number in range(1, 22))]
    classes = [ClassRow("interactive", 4, 1, 2_500), ClassRow("bulk", 0, 2, 0)]
    seen = PoolSnapshot("far", AT_MS, 7, classes, tenants, [a_worker()])
    print_blocks(*top.page(seen))
    lines = printed(capsys)
    assert lines[0] == "pool far   4 waiting, 3 running, 7 parked   2027-01-15T08:00:00.123+00:00"
    table = [" ".join(line.split()) for line in lines[1:]]
    assert table[:3] == ["class waiting oldest running", "interactive 4 2.5 s 1", "bulk 0 - 2"]
    assert table[3:6] == [
        "tenant waiting running tokens in flight weight served",
        "t0 1 2 12,345 2.5 6,789 at a cap",
        "t1 1 0 0 1 0",
    ]
    assert table[23:25] == ["t19 1 0 0 1 0", "and 2 more"]
    assert table[25].startswith("worker node")
    assert lines[1].index("waiting") + len("waiting") == lines[2].index("4") + 1
    assert lines[4].index("served") + len("served") == lines[5].index("6,789") + 5
    print_blocks(*top.page(PoolSnapshot("far", AT_MS, 0, [], tenants[:20], [])))
    assert "more" not in "".join(printed(capsys))


def test_tables_have_a_line_below_their_head(capsys: pytest.CaptureFixture[str]):
    """All of them."""
    print_blocks(*top.page(PoolSnapshot("far", AT_MS, 0, [], [], [])))
    assert (
        sum(1 for line in capsys.readouterr().out.splitlines() if line.strip() and not line.strip(" ─━╺"))
        == 3
    )


@pytest.mark.parametrize(
    ("arguments", "terminal", "expected"),
    [
        ([], True, ("_live", 1.0, False)),
        ([], False, ("_print", 1.0, True)),
        (["--once", "--interval", "2"], True, ("_print", 2.0, True)),
        (["--json"], True, ("_print_json", 1.0, False)),
        (["--json", "--once"], False, ("_print_json", 1.0, True)),
    ],
)
def test_what_top_shows_and_how_often(
    arguments: list[str], terminal: bool, expected: tuple[str, float, bool], monkeypatch: pytest.MonkeyPatch
):
    """Live on a terminal, once elsewhere; JSON again and again."""
    shown: list[tuple[str, float, bool]] = []
    for name in ("_live", "_print", "_print_json"):
        monkeypatch.setattr(top, name, lambda _, *more, name=name: shown.append((name, *more)))
    monkeypatch.setattr(top, "is_terminal", lambda: terminal)
    monkeypatch.setattr(top, "in_pool", lambda pool, action: action(pool))
    CliRunner().invoke(top.command, ["top", *arguments], catch_exceptions=False)
    assert shown == [expected]


@pytest.mark.parametrize("live", [False, True])
async def test_top_goes_on_until_it_is_interrupted(
    live: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """Also where something swallowed the interruption; between two looks it waits."""
    slept: list[float] = []
    seen = PoolSnapshot("far", AT_MS, 0, [], [], [])

    looks: list[int] = []

    async def snapshot() -> PoolSnapshot:
        looks.append(len(slept))
        assert len(looks) < 9, "it never waits, or never ends"
        return seen

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()

    async def look(pool: Any) -> None:
        show = top._live if live else top._print_json  # pyright: ignore[reportPrivateUsage]
        try:
            await show(pool, 0.5, False)
        except asyncio.CancelledError:
            pytest.fail("it was interrupted only where it waited next")

    monkeypatch.setattr(top, "asyncio", SimpleNamespace(sleep=sleep, current_task=asyncio.current_task))
    pool: Any = SimpleNamespace(snapshot=snapshot)
    await asyncio.gather(asyncio.create_task(look(pool)), return_exceptions=True)
    assert slept == [0.5] * 3
    assert looks == [0, 1, 2]
    if not live:
        assert len(capsys.readouterr().out.splitlines()) == 3
        await top._print_json(pool, 0.5, True)  # pyright: ignore[reportPrivateUsage]
        assert len(slept) == 3
        assert len(capsys.readouterr().out.splitlines()) == 1


def test_models_are_printed_with_where_they_are(monkeypatch: pytest.MonkeyPatch):
    """The beginning of a fingerprint is enough to compare two; and what each is to the pools."""
    row = ModelVersion(
        name="tiny",
        version="1",
        fingerprint="0123456789abcdef",
        folder="/models/tiny",
        max_model_len=32_768,
        manifest={},
        created_ms=AT_MS,
    )
    pools = [
        PoolRow(pool="far", model="tiny", version="1", workers=1, labels={}, made_ms=1),
        PoolRow(pool="near", model="tiny", version="0", next_version="1", workers=1, labels={}, made_ms=1),
    ]
    monkeypatch.setattr(models, "all_pages", lambda *_: [facts_of(row, pools, {}, 3 << 20)])
    printed = CliRunner().invoke(models.command, ["list"], catch_exceptions=False).output
    head, rule, line = (line.strip() for line in printed.splitlines() if line.strip())
    columns = "name version state pools fingerprint size tokens at most proved"
    assert " ".join(head.split()) == columns
    assert not rule.strip(" ─━╺")
    facts = ["tiny", "1", "in", "use", "far,", "near", "(next)", "0123456789ab", "3", "MiB", "32,768"]
    assert line.split()[: len(facts)] == facts
