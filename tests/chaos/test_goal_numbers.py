"""Each goal is a number: figures just within miss nothing, figures just beyond miss that goal alone.

The numbers stand here again, so that a changed one is seen. Builders of figures that test_figure_goals.py
leaves out.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from click.testing import CliRunner

from billing.api import Facet, GroupBy, MoneySum, UsageBucket
from chaos.bench import (
    billing,
    fairness,
    interactive,
    masks,
    noisy,
    page,
    queue,
    quotas,
    tampering,
)
from chaos.bench.engine_testbed import WorkerSamples
from chaos.bench.fuzz import command, targets
from chaos.bench.fuzz.holds import Holds
from chaos.bench.session import cancel, relay, resume, wire_bytes
from chaos.bench.session.reader import JSON, MSGPACK
from chaos.figures.figures import Figure
from chaos.figures.samples import Sample
from chaos.installation.measure import CpuUsage
from chaos.tampering.trying import Tried

LOW, HIGH = 1e-6, 1e6


def at(share: float, value: float) -> list[float]:
    """Two hundred values whose percentile at this share is `value`; the others are far from it."""
    below = round(200 * share) - 1
    return [HIGH] * (199 - below) + [value] + [LOW] * below


def first_tokens(share: float, value: float) -> list[Sample]:
    """Answers whose first token came so late."""
    return [Sample(0.0, ((each, 1),)) for each in at(share, value)]


def met(share: float, value: float, waiting: int = 0) -> noisy.NoisySamples:
    """One setting of the noisy neighbour."""
    return noisy.NoisySamples(first_tokens(share, value), [1, 2], WorkerSamples([3], [4], waiting))


def flooded(of_full: float, waiting: int) -> list[Figure]:
    """A flood that made first tokens so much later, and a queue in the engine before it."""
    found = {noisy.IDLE: met(0.95, 1.0), noisy.FULL: met(0.95, 2.0, waiting)}
    return noisy._figures({**found, noisy.FLOOD: met(0.95, 2.0 * of_full)}, met(0.5, 9.0))


def beside_bulk(of_raw: float, claimed_ms: float, waiting: int) -> list[Figure]:
    """What somebody who waits noticed."""
    found = interactive.InteractiveSamples(
        watched=WorkerSamples([1], [1], waiting), to_claim_ms=_whole(at(0.95, claimed_ms))
    )
    found.in_engine_ms = [1]
    for setting, seconds in ((interactive.PARLEY_IDLE, 9.0), (interactive.PARLEY_FULL, 2.0 * of_raw)):
        found.samples[setting] = first_tokens(0.5, seconds)
    found.samples[interactive.RAW_FULL] = first_tokens(0.5, 2.0)
    return found.figures()


def _whole(values: Sequence[float]) -> list[int]:
    return [round(each) for each in values]


def admitted(rate: float, reserve_ms: float, settle_ms: float) -> list[Figure]:
    """Reservations and settlements at a goal of five hundred a second."""
    pairs = zip(at(0.99, reserve_ms), at(0.99, settle_ms), strict=True)
    return quotas._costs(list(pairs), rate, 500) + quotas._beside([(9.0, 9.0)], [9.0], 9.0)


def ended(
    spent: int, overshoots: Sequence[int] = (), streams: int = 2, held: int = 0, left_open: int = 0
) -> list[Figure]:
    """Two streams on a budget of a hundred thousand; half of what they spent is not in the books yet."""
    sums: dict[str, Any] = dict.fromkeys(MoneySum.__dataclass_fields__, 0)
    sums |= {"posted_nano": 7, "unbooked_nano": spent - 7, "held_nano": held, "open": left_open}
    return quotas._kept(MoneySum(**sums), 100_000, [spent - 5, 5][:streams], overshoots, 2)


def scripts(**cost_ms: float) -> list[Figure]:
    """What the server took for each call of the pool's scripts."""
    costs = {name: queue.CallCost(at(0.99, cost_ms.get(name, LOW)), HIGH) for name in queue.Costs._fields}
    return queue._of_scripts("made up", queue.Costs(**costs))


def posted(dialect: str, events: int) -> list[Figure]:
    """So many in the two seconds after the first batch of a hundred."""
    return [billing._rate(dialect, 100 + events, (100 + events, 100, 5_000, 7_000))]


def viewed(milliseconds: float) -> list[Figure]:
    """A month whose median lies between a quick and a slow one."""
    return [billing._month(GroupBy.DAY, [LOW, milliseconds, HIGH])]


def read(milliseconds: float) -> list[Figure]:
    """A page of the usage API, as well."""
    return [billing._read((Facet.MODEL,), UsageBucket.DAY, [LOW, milliseconds, HIGH])]


def edited(kinds: int, missed: int) -> list[Figure]:
    """Edits of which some were found."""
    return tampering._figures([Tried("made up", "" if at < missed else "found") for at in range(kinds)], 9e9)


def weighed(size: int, rate: int, subprotocol: str) -> list[Figure]:
    """Ten thousand tokens of so many bytes."""
    found = wire_bytes.Weighed(tokens=10_000, size=size, deltas=3)
    return found.figures(wire_bytes.WireCase(rate, subprotocol, batch=True))


def relayed(tokens: int) -> list[Figure]:
    """So many tokens in a CPU second, two a delta."""
    usage = CpuUsage(0.0, 0.0, 0.0), CpuUsage(1.0, 1.0, 0.0)
    fed = {"tokens": 1.0, "entries": 1.0, "kept_up": 1.0}
    return relay.Relayed(tokens, tokens // 2, 1.0, *usage, [0.1], fed).figures(1, 2.0)


def fuzzed(held_ms: float, said: str = "", letters: int = 1024, broken: int = 0) -> list[Figure]:
    """Logs in two formats, of which the second has the line that is meant."""
    first, second = targets.BoundedLog(["key"]), targets.BoundedLog(["key"])
    first.write("short\n")
    second.write("\n".join(["é" * letters, said]))
    holds = Holds()
    holds.took(held_ms / 1000)
    return command._figures(2, targets.FuzzFindings(1, ["GET /"] * broken, 7), [first, second], holds)


def loaded(before: int, with_parser: int, seconds: float) -> list[Figure]:
    """A page of so much JavaScript, which took text after so many seconds."""
    return page.figures_of(page.PageWeight(before, with_parser), [page.PageLoad(seconds, 2 * seconds)])


def served(second: float) -> list[Figure]:
    """Weighted tokens, of which the tenant of the second weight had more than its share."""
    return fairness._figures({"weight1": 100.0, "weight2": 2 * second, "weight4": 400.0})


Build = Callable[[], list[Figure]]
WITHIN: dict[str, Build] = {
    "noisy": lambda: flooded(1.2, 2),
    "interactive": lambda: beside_bulk(1.15, 10, 2),
    "quotas": lambda: admitted(475, 0.4, 0.6),
    "budget": lambda: ended(99_000, [0, -5]),
    "queue": lambda: scripts(sixteen=5, one=5, nothing_fits=5, flush=9, put=9),
    "woken": lambda: queue._wakes(at(0.5, 3.0)),
    "sqlite": lambda: posted("sqlite", 1_000),
    "postgres": lambda: posted("postgres", 4_000),
    "month": lambda: viewed(300),
    "page": lambda: read(500),
    "tampering": lambda: edited(40, 0),
    "cancel": lambda: cancel.CancelWaits(at(0.99, 0.05), [HIGH]).figures(3),
    "resume": lambda: resume.ResumeWaits([HIGH], at(0.5, 0.015)).figures("made up"),
    "wire 300 json": lambda: weighed(160_000, 300, JSON),
    "wire 300 msgpack": lambda: weighed(130_000, 300, MSGPACK),
    "wire 67 json": lambda: weighed(600_000, 67, JSON),
    "wire 67 msgpack": lambda: weighed(360_000, 67, MSGPACK),
    "fuzz": lambda: fuzzed(50.0),
    "fairness": lambda: served(122.9),
    "relay": lambda: relayed(50_000),
    "masks": lambda: masks.figures_of([{"mask": 0.02, "token": 0.02}]),
    "chat page": lambda: loaded(45_000, 90_000, 6.0),
}
# By goal: what the figure that is missed is called.
BEYOND: list[tuple[str, Build]] = [
    ("p95 under the flood, of full", lambda: flooded(1.201, 2)),
    ("longest queue inside the engine", lambda: flooded(1.2, 3)),
    ("first token under bulk, of raw, p50", lambda: beside_bulk(1.151, 10, 2)),
    ("accepted to claimed, p95", lambda: beside_bulk(1.15, 11, 2)),
    ("longest queue inside the engine", lambda: beside_bulk(1.15, 10, 3)),
    ("requests a second", lambda: admitted(474.9, 0.4, 0.6)),
    ("reserve + settle: p99", lambda: admitted(475, 0.4, 0.601)),
    ("reserve + settle: p99", lambda: admitted(475, 0.401, 0.6)),
    ("posted of the limit", lambda: ended(98_999)),
    ("overshoot, most of all samples", lambda: ended(99_000, [0, 1, -5])),
    ("overshoot, most of all samples", lambda: ended(100_001)),
    ("claim of 16, made up: p99", lambda: scripts(sixteen=5.01)),
    ("claim of 1, made up: p99", lambda: scripts(one=5.01)),
    ("claim that finds nothing, made up: p99", lambda: scripts(nothing_fits=5.01)),
    ("enqueue to claim, idle worker: p50", lambda: queue._wakes(at(0.5, 3.01))),
    ("usage events posted, sqlite", lambda: posted("sqlite", 999)),
    ("usage events posted, postgres", lambda: posted("postgres", 3_999)),
    ("month by day, median of 7", lambda: viewed(300.1)),
    ("usage API, page of 1000 by model and day, median of 7", lambda: read(500.1)),
    ("kinds of edit", lambda: edited(39, 0)),
    ("missed", lambda: edited(40, 1)),
    ("cancel sent to engine.abort, p99", lambda: cancel.CancelWaits(at(0.99, 0.0501), [LOW]).figures(3)),
    ("first replayed byte x, p50", lambda: resume.ResumeWaits([LOW], at(0.5, 0.0151)).figures("x")),
    ("300 tokens/s, json, cap batch", lambda: weighed(160_001, 300, JSON)),
    ("300 tokens/s, msgpack, cap batch", lambda: weighed(130_001, 300, MSGPACK)),
    ("67 tokens/s, json, cap batch", lambda: weighed(600_001, 67, JSON)),
    ("67 tokens/s, msgpack, cap batch", lambda: weighed(360_001, 67, MSGPACK)),
    ("longest hold of the loop, CPU of its thread", lambda: fuzzed(50.1)),
    ("errors logged", lambda: fuzzed(50.0, said='{"level": "error"}')),
    ("longest log line", lambda: fuzzed(50.0, letters=1025)),
    ("answers of 5xx", lambda: fuzzed(50.0, broken=1)),
    ("log lines with a key or a cookie", lambda: fuzzed(50.0, said="my key")),
    ("Jain's index of service by weight", lambda: served(123.1)),
    ("tokens/s a gateway core", lambda: relayed(49_998)),
    ("JavaScript before the composer works, brotli", lambda: loaded(45_001, 90_000, 6.0)),
    ("JavaScript with the parser, brotli", lambda: loaded(45_000, 90_001, 6.0)),
    ("the composer takes text, worst of 1", lambda: loaded(45_000, 90_000, 6.01)),
    ("mask of accepted shapes, CPU: worst", lambda: masks.figures_of([{"mask": 0.0201, "token": 0.02}])),
]


@pytest.mark.parametrize(("kinds", "code"), [(0, 0), (1, 1)])
def test_an_edit_that_nobody_finds_fails_the_command(
    kinds: int, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CI reads exit codes."""

    async def tried() -> list[Tried]:
        return [Tried("made up", "found"), *[Tried("hidden", "")] * kinds]

    monkeypatch.setattr(tampering, "_tried", tried)
    done = CliRunner().invoke(tampering.tampering)
    assert done.exit_code == code
    assert ("MISSED  hidden" in done.stdout) is bool(kinds)


def missed(figures: Sequence[Figure]) -> list[str]:
    """Which goals."""
    return [each.name for each in figures if each.reached is False]


@pytest.mark.parametrize("name", WITHIN)
def test_what_is_just_within_misses_nothing(name: str) -> None:
    """And has a goal."""
    figures = WITHIN[name]()
    assert any(each.reached for each in figures)
    assert missed(figures) == []


@pytest.mark.parametrize(("goal", "build"), BEYOND)
def test_what_is_just_beyond_misses_its_own_goal(goal: str, build: Build) -> None:
    """No other figure is mistaken for it."""
    assert missed(build()) == [goal]


@pytest.mark.parametrize(
    "wrong", [{"held": 1}, {"left_open": 1}, {"streams": 1}], ids=["held", "open", "uncounted"]
)
def test_a_budget_whose_count_does_not_agree_gives_no_figures(wrong: dict[str, Any]) -> None:
    """What was settled is what is counted, and nothing is held any more."""
    with pytest.raises(RuntimeError, match="does not agree"):
        ended(99_000, **wrong)


def test_a_stream_that_the_budget_did_not_end_is_missed() -> None:
    """Its cost is in no sum."""
    sums: dict[str, Any] = dict.fromkeys(MoneySum.__dataclass_fields__, 0) | {"posted_nano": 99_500}
    assert missed(quotas._kept(MoneySum(**sums), 100_000, [99_500], [], 2)) == [
        "streams that the budget ended"
    ]
